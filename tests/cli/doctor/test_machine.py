"""The machine that the gateway runs on."""

from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pytest

from anyport.cli.doctor import machine as doctor_machine
from anyport.cli.doctor.findings import Level
from anyport.cli.doctor.launchers import Launcher
from anyport.cli.doctor.machine import Machine, check_machine
from tests.cli.doctor.facts import codes, the

GOOD: Final = Machine(
    python=(3, 12, 1),
    implementation="CPython",
    platform="linux",
    system="Linux 6.1 x86_64",
    packages=MappingProxyType({"uvloop": "0.22", "httptools": "0.7", "msgspec": "0.20"}),
    files=(1024, 4096),
    memory_bytes=8 * 2**30,
)


def test_a_good_machine_is_one_line() -> None:
    section = check_machine(GOOD, (), 3)

    assert section.level is Level.OK
    assert section.summary == "Python 3.12.1 on Linux; uvloop 0.22, httptools 0.7, msgspec 0.20"


@pytest.mark.parametrize(
    ("changed", "code", "level"),
    [
        ({"python": (3, 10, 9)}, "python", Level.PROBLEM),
        ({"platform": "darwin"}, "platform", Level.HINT),
        ({"platform": "win32"}, "platform", Level.PROBLEM),
        ({"packages": {"uvloop": None}}, "package", Level.WARNING),
        ({"packages": {"msgspec": None}}, "package", Level.PROBLEM),
        ({"files": (256, None)}, "open-files", Level.WARNING),
        ({"memory_bytes": 2**20}, "memory", Level.WARNING),
    ],
)
def test_what_is_missing_is_told_with_what_mends_it(
    changed: dict[str, Any], code: str, level: Level
) -> None:
    section = check_machine(replace(GOOD, **changed), (), 3)

    (finding,) = (each for each in section.findings if each.level is not Level.OK)
    assert (finding.code, finding.level) == (code, level)
    assert finding.why
    assert finding.fix


def test_more_servers_need_more_files_and_more_memory() -> None:
    small = replace(GOOD, memory_bytes=2**30)

    assert codes(check_machine(small, (), 3)) == []
    assert codes(check_machine(small, (), 100)) == ["open-files", "memory"]


def test_the_limit_of_files_is_raised_as_far_as_that_goes() -> None:
    assert (
        the(check_machine(replace(GOOD, files=(256, 4096)), (), 0), "open-files").fix
        == "ulimit -n 512"
    )
    stuck = the(check_machine(replace(GOOD, files=(256, 256)), (), 0), "open-files")
    assert stuck.fix.startswith("raise the hard limit")


def test_what_nobody_knows_is_not_judged() -> None:
    section = check_machine(replace(GOOD, files=None, memory_bytes=None), (), 1000)

    assert section.level is Level.OK


def test_a_launcher_that_is_missing_names_the_servers_that_need_it() -> None:
    there = Launcher(program="uvx", servers=("time",), is_found=True)
    gone = Launcher(program="npx", servers=("files", "github"), is_found=False)

    section = check_machine(GOOD, (there, gone), 3)

    (finding,) = (each for each in section.findings if each.level is Level.PROBLEM)
    assert "files, github" in finding.what
    assert finding.fix.startswith("install Node.js")


def test_this_machine_can_run_the_gateway() -> None:
    machine = doctor_machine.inspect_machine()

    assert machine.python >= doctor_machine.PYTHON_MIN
    assert None not in machine.packages.values()
    assert machine.memory_bytes is None or machine.memory_bytes > 0
