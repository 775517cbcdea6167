"""The entries of clients, judged."""

import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from anyport.cli.doctoring.clients import CLIENTS, Client, Entry, Found
from anyport.cli.doctoring.entries import Around, is_ours, judge
from anyport.cli.doctoring.finding import Level, Section
from anyport.cli.doctoring.listening import Address
from anyport.config.faults import ConfigError, Fault
from anyport.config.schema import Config, GatewayConfig, ProfileConfig, Token
from tests.cli.doctoring.facts import codes, config, server, the

URL = "http://127.0.0.1:8640/mcp"
FILE = Path("/client.json")
OURS = config(
    server("files", "npx", args=("files",)),
    default=ProfileConfig(slug="default", servers=("files",)),
    dev=ProfileConfig(slug="dev", servers=("files",)),
)


def named(name: str) -> Client:
    return next(client for client in CLIENTS if client.name == name)


def entry(name: str = "gw", **rest: Any) -> Entry:
    return Entry(name=name, place=f"{FILE}:3", **rest)


def around(**rest: Any) -> Around:
    told: dict[str, Any] = {
        "config": OURS,
        "address": Address(url=URL, occupant="gateway"),
        "files": (Path("/anyport.toml"),),
        "environ": {"PATH": "/usr/bin:/bin"},
        "load": lambda files: OURS,
    }
    return Around(**told | rest)


def judged(*entries: Entry, client: str = "Cursor", **rest: Any) -> Section:
    return judge([Found(client=named(client), file=FILE, entries=entries)], around(**rest))


def command(*args: str, program: str = sys.executable) -> Entry:
    """An entry that launches the gateway; a Python is there for sure."""
    return entry(command=program, args=("-m", "anyport", *args))


def test_entries_that_lead_here_are_good() -> None:
    section = judged(entry(url=URL), command("stdio", "--config", "/a.toml", "--profile", "dev"))

    assert codes(section) == []
    assert codes(section, Level.OK) == ["entry", "entry"]
    assert section.summary == "Cursor leads here; 1 file looked at"


def test_where_nobody_leads_here_that_is_a_hint() -> None:
    assert codes(judge([], around())) == ["no-entry"]


@pytest.mark.parametrize(
    ("one", "ours"),
    [
        (entry(command="anyport", args=("stdio",)), True),
        (entry(command="/opt/bin/anyport", args=("serve",)), True),
        (entry(command="/usr/bin/python3.12", args=("-m", "anyport", "stdio")), True),
        (entry(command="uvx", args=("anyport", "stdio")), True),
        (entry(command="anyport", args=("demo-server",)), False),
        (entry(command="python3", args=("server.py",)), False),
        (entry(url="http://localhost:8640/mcp/dev"), True),
        (entry(url="http://localhost:9/mcp"), False),
        (entry("my-anyport", url="http://localhost:9/mcp"), True),
        (entry("anyport", url="https://example.com/mcp"), False),
        (entry("anyport", url="http://[bad"), False),
        (entry(), False),
    ],
)
def test_an_entry_is_known_by_its_command_its_address_or_its_name(one: Entry, ours: bool) -> None:
    assert is_ours(one, OURS) is ours


@pytest.mark.parametrize(
    ("one", "code", "level"),
    [
        (entry(url=f"{URL}/nope"), "entry-profile", Level.PROBLEM),
        (entry(url="http://127.0.0.1:8640/"), "entry-address", Level.PROBLEM),
        (entry("anyport", url="http://localhost:9/mcp"), "entry-address", Level.WARNING),
        (entry(url=URL, disabled=True), "entry-disabled", Level.HINT),
        (command("serve"), "entry-args", Level.PROBLEM),
        (command("stdio", "--port", "1"), "entry-args", Level.PROBLEM),
        (command("stdio", "--profile", "nope"), "entry-profile", Level.PROBLEM),
        (command("stdio", "--config", "a.toml"), "entry-config", Level.WARNING),
        (entry(command="/no/anyport", args=("stdio",)), "entry-command", Level.PROBLEM),
    ],
)
def test_what_does_not_work_is_told_with_its_place(one: Entry, code: str, level: Level) -> None:
    section = judged(one)

    finding = the(section, code)
    assert (finding.level, finding.about) == (level, f"Cursor: {one.name}")
    assert f"{FILE}:3" in finding.what
    assert finding.mend


def test_a_command_without_its_path_is_a_hint(tmp_path: Path) -> None:
    program = tmp_path / "anyport"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)

    section = judged(entry(command="anyport", args=("stdio",)), environ={"PATH": str(tmp_path)})

    assert codes(section) == ["entry-path"]


def test_a_url_does_nothing_where_only_commands_are_taken() -> None:
    assert codes(judged(entry(url=URL), client="Claude Desktop")) == ["entry-url"]


def test_a_gateway_that_wants_a_token_must_be_sent_one() -> None:
    token = Token(name="me", digest=b"0" * 32)
    closed = replace(OURS, gateway=GatewayConfig(tokens=(token,)))

    assert codes(judged(entry(url=URL), config=closed)) == ["entry-token"]
    assert codes(judged(entry(url=URL, authorized=True), config=closed)) == []


def test_a_url_where_nobody_listens_now_is_a_hint() -> None:
    nobody = Address(url=URL, occupant="nobody")

    assert the(judged(entry(url=URL), address=nobody), "entry-nobody").mend == "anyport serve"


def test_the_configuration_of_a_command_is_read() -> None:
    def load(files: object) -> Config:
        fault = Fault(file="/a.toml", line=7, column=1, path="", message="unknown key 'x'")
        raise ConfigError([fault])

    finding = the(judged(command("stdio", "--config", "/a.toml"), load=load), "entry-config")

    assert finding.level is Level.PROBLEM
    assert finding.what.startswith("/a.toml:7: unknown key")
    assert finding.mend == "anyport check --config /a.toml"


def test_of_several_profiles_one_must_be_named() -> None:
    profiles = {slug: ProfileConfig(slug=slug, servers=()) for slug in ("one", "two")}
    several = replace(OURS, profiles=MappingProxyType(profiles))

    assert codes(judged(command("stdio"), config=several)) == ["entry-profile"]
    assert codes(judged(entry(url=URL), config=several)) == ["entry-profile"]
    assert codes(judged(entry(url=f"{URL}/two/sse"), config=several)) == []


def test_servers_that_a_client_has_for_itself_could_move() -> None:
    section = judged(entry(url=URL), entry("tickets", command="tickets"))

    finding = the(section, "could-move")
    assert (finding.level, finding.about) == (Level.HINT, "Cursor")
    assert "tickets" in finding.what
    assert finding.mend.endswith(f"anyport tools --config {FILE}")


def test_a_server_that_is_there_twice_is_a_warning() -> None:
    same = entry("mine", command="npx", args=("files",))

    assert codes(judged(entry(url=URL), same)) == ["twice"]
    assert codes(judged(same)) == ["could-move", "no-entry"]


def test_a_file_that_is_the_configuration_itself_is_no_other() -> None:
    assert codes(judged(entry("tickets", command="tickets"), files=(FILE,))) == ["no-entry"]


def test_a_file_that_cannot_be_read_is_a_hint() -> None:
    fault = Fault(file=str(FILE), line=2, column=5, path="", message="no value")

    section = judge([Found(client=named("Cursor"), file=FILE, fault=fault)], around())

    assert the(section, "client-file").what == f"{FILE}:2:5: no value"


def test_without_a_configuration_only_commands_are_judged() -> None:
    section = judged(entry("anyport", url=URL), command("stdio"), config=None, address=None)

    assert codes(section) == []


def test_what_may_be_secret_in_an_address_is_not_shown() -> None:
    section = judged(entry("anyport", url="http://me:sesame@localhost:9/mcp?key=sesame"))

    assert "sesame" not in repr(section)
