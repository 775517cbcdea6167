"""What a server's process is given: what was configured, byte for byte, and little else."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import LineClient, Message, read_events
from tests.rig.small_servers import DUMP, ECHO, patient, python, status, text_of
from tests.upstream.stdio.test_process import PAYLOADS

SAYABLE: Final = [text for text in PAYLOADS if "${" not in text and "\udcff" not in text]
"""Without references, which a configuration resolves, and half characters, which none can hold."""

PLACES: Final = ("a b", "$(id)", ";id", "`id`", "'", '"', "é日本😀", "-c", "--", "a\nb", "\\", "~")
"""Names for servers and for directories."""

SECRET: Final = "sk-canary-7f3a9c0e5d"


def dump_of(client: LineClient, server: str) -> dict[str, Any]:
    """What the process of a server says it was given."""
    told: dict[str, Any] = json.loads(text_of(client.call(f"{server}__dump")))
    return told


def variables(told: Message) -> dict[str, str]:
    """The environment as it was handed over."""
    pairs = bytes.fromhex(told["environ"]).rstrip(b"\0").split(b"\0")
    return dict(os.fsdecode(pair).split("=", 1) for pair in pairs)


def test_arguments_and_environment_reach_a_server_byte_for_byte(tmp_path: Path) -> None:
    command, *args = python(DUMP, *SAYABLE)
    env = {f"V{number}": text for number, text in enumerate(SAYABLE)}
    env |= {f"N {text}": "odd name" for text in SAYABLE if not set(text) & set("=\r\n")}
    assert len(SAYABLE) + len(env) > 300
    server = {"command": command, "args": args, "env": env}
    with patient(tmp_path, {"dump": server}) as client:
        client.initialize()
        told = dump_of(client, "dump")

    assert told["argv"] == [os.fsencode(text).hex() for text in SAYABLE]
    seen = variables(told)
    assert {name: seen[name] for name in env} == env


@pytest.mark.slow
def test_directories_and_names_mean_only_themselves(tmp_path: Path) -> None:
    command, *args = python(DUMP)
    servers, places = {}, {}
    for number, name in enumerate(PLACES):
        place = tmp_path / "places" / name
        place.mkdir(parents=True)
        # The number keeps the slugs apart, which are made of letters and digits alone.
        title = f"{name} {number}".replace("\n", " ")  # A line break in a name is refused.
        places[title] = place
        servers[title] = {"command": command, "args": args, "cwd": str(place)}
    with patient(tmp_path, servers) as client:
        client.initialize()
        backends = {about["name"]: slug for slug, about in status(client)["backends"].items()}
        assert backends.keys() == servers.keys()
        for name, slug in backends.items():
            told = dump_of(client, slug)
            assert bytes.fromhex(told["cwd"]) == os.fsencode(places[name])
            assert told["argv"] == []


CODE_DECIDING: Final = (
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS"),
    *("PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "BASH_ENV", "ENV", "PATH", "Path", "PERL5OPT"),
)


def test_variables_that_decide_what_code_runs_need_permission(tmp_path: Path) -> None:
    command, *args = python(DUMP)
    servers = {
        f"s{number}": {"command": command, "args": args, "env": {name: "/harmless"}}
        for number, name in enumerate(CODE_DECIDING)
    }
    with patient(tmp_path, servers) as client:
        client.initialize()
        backends = status(client)["backends"]
        for slug, name in zip(servers, CODE_DECIDING, strict=True):
            about = backends[slug]
            assert about["status"] == "stopped"
            assert about["last_error"].startswith(f"sets {name}, which decides what code runs;")
            assert "pid" not in about
            message = client.call(f"{slug}__dump")["error"]["message"]
            assert message.startswith(f"Server '{slug}' is not running: sets {name}, which")


def test_a_permitted_variable_is_passed_on(tmp_path: Path) -> None:
    command, *args = python(DUMP)
    server = {
        "command": command,
        "args": args,
        "env": {"PYTHONPATH": "/harmless"},
        "permitEnv": ["PYTHONPATH"],
    }
    with patient(tmp_path, {"dump": server}) as client:
        client.initialize()
        assert variables(dump_of(client, "dump"))["PYTHONPATH"] == "/harmless"


def test_a_server_sees_its_own_environment_and_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = {
        "CANARY": SECRET,
        "GITHUB_TOKEN": SECRET,
        "NPM_CONFIG_AUTH": SECRET,
        "HTTPS_PROXY": f"http://user:{SECRET}@proxy.example",
        "ANYPORT_STATE_DIR": SECRET,
        "LC_ALL": "C.UTF-8",
        "HOME": "/somewhere",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name, text in parent.items():
        monkeypatch.setenv(name, text)
    command, *args = python(DUMP)
    servers = {
        "one": {"command": command, "args": args, "env": {"MINE": "${env:CANARY}"}},
        "two": {"command": command, "args": args, "env": {"OWN": "2"}},
    }
    with patient(tmp_path, servers) as client:
        client.initialize()
        one, two = variables(dump_of(client, "one")), variables(dump_of(client, "two"))
        shown = json.dumps(status(client))

    assert one.pop("MINE") == SECRET
    assert two.pop("OWN") == "2"
    assert one == two
    assert SECRET not in two.values()
    assert parent.keys() & two.keys() == {"LC_ALL", "HOME"}
    assert two["HOME"] == "/somewhere"
    assert two["PATH"] == os.environ["PATH"]
    assert SECRET not in shown
    assert SECRET not in json.dumps(read_events(tmp_path / "state"))


def test_a_server_has_three_descriptors_and_no_more(tmp_path: Path) -> None:
    with patient(tmp_path, {"dump": python(DUMP), "other": python(ECHO)}) as client:
        client.initialize()
        assert text_of(client.call("other__echo")) == "here"
        assert dump_of(client, "dump")["descriptors"] == [0, 1, 2]


def test_a_reference_to_nothing_keeps_one_server_down_and_no_other(tmp_path: Path) -> None:
    command, *args = python(DUMP)
    servers = {
        "lost": {"command": command, "args": [*args, "${env:NOT_THERE_AT_ALL}"]},
        "fine": python(ECHO),
    }
    with patient(tmp_path, servers) as client:
        client.initialize()
        assert text_of(client.call("fine__echo")) == "here"
        about = status(client)["backends"]["lost"]

    assert about["status"] == "stopped"
    assert "NOT_THERE_AT_ALL" in about["last_error"]
