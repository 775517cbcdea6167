"""The files of clients."""

import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from anyport.cli.doctor.clients import (
    CLIENTS,
    ClientApp,
    ClientCheckContext,
    ClientEntry,
    ClientFile,
    base_dirs,
    check_clients,
    find_client_files,
    is_gateway_entry,
)
from anyport.cli.doctor.findings import Level, Section
from anyport.cli.doctor.listener import ListenAddress
from anyport.config.faults import ConfigError, ConfigFault
from anyport.config.model import Config, GatewayConfig, ProfileConfig, Token
from tests.cli.doctor.facts import codes, config, server, the


def place(folder: Path, path: str, text: str) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def found(home: Path, **rest: Any) -> dict[str, ClientFile]:
    cwd = home / "project"
    cwd.mkdir(exist_ok=True)
    return {each.client.name: each for each in find_client_files({"HOME": str(home)}, cwd, **rest)}


ENTRY = '{"mcpServers": {"gw": {"url": "http://127.0.0.1:8640/mcp"}}}'


@pytest.mark.parametrize(
    ("platform", "path", "client"),
    [
        ("linux", ".config/Claude/claude_desktop_config.json", "Claude Desktop"),
        (
            "darwin",
            "Library/Application Support/Claude/claude_desktop_config.json",
            "Claude Desktop",
        ),
        ("linux", ".claude.json", "Claude Code"),
        ("linux", "project/.mcp.json", "Claude Code"),
        ("linux", ".cursor/mcp.json", "Cursor"),
        ("linux", "project/.cursor/mcp.json", "Cursor"),
        ("linux", ".codeium/windsurf/mcp_config.json", "Windsurf"),
        ("linux", ".gemini/settings.json", "Gemini CLI"),
        ("linux", ".copilot/mcp-config.json", "Copilot CLI"),
    ],
)
def test_each_client_is_found_where_it_is(
    tmp_path: Path, platform: str, path: str, client: str
) -> None:
    file = place(tmp_path, path, ENTRY)

    only = found(tmp_path, platform=platform)

    assert list(only) == [client]
    assert only[client].file == file
    (entry,) = only[client].entries
    assert (entry.name, entry.url) == ("gw", "http://127.0.0.1:8640/mcp")
    assert entry.place == f"{file}:1"


def test_every_dialect_is_understood(tmp_path: Path) -> None:
    url = "http://127.0.0.1:8640/mcp"
    place(
        tmp_path,
        ".config/zed/settings.json",
        '{"theme": "One", // mine\n"context_servers": {"gw": {"command":'
        ' {"path": "anyport", "args": ["stdio"]}},},}',
    )
    place(
        tmp_path,
        ".codex/config.toml",
        f'[mcp_servers.gw]\nurl = "{url}"\nbearer_token_env_var = "TOKEN"\n',
    )
    place(
        tmp_path,
        ".config/Code/User/mcp.json",
        f'{{"inputs": [], "servers": {{"gw": {{"type": "http", "url": "{url}", '
        '"headers": {"authorization": "Bearer x"}}}}',
    )
    place(
        tmp_path,
        ".config/opencode/opencode.jsonc",
        '{"mcp": {"gw": {"type": "local", "command": ["anyport", "stdio"], "enabled": false}}}',
    )

    seen = {name: each.entries[0] for name, each in found(tmp_path).items()}

    assert (seen["Zed"].command, seen["Zed"].args) == ("anyport", ("stdio",))
    assert (seen["Codex"].url, seen["Codex"].authorized) == (url, True)
    assert seen["VS Code"].authorized
    assert (seen["OpenCode"].command, seen["OpenCode"].args) == ("anyport", ("stdio",))
    assert seen["OpenCode"].disabled


def test_the_projects_of_claude_code_are_looked_into(tmp_path: Path) -> None:
    place(
        tmp_path,
        ".claude.json",
        '{"projects": {"/a": {"mcpServers": {"one": {"command": "x"}}}, "/b": {}, "/c": 1}}',
    )

    (entry,) = found(tmp_path)["Claude Code"].entries

    assert entry.name == "one"


def test_what_is_no_entry_is_left_out(tmp_path: Path) -> None:
    place(tmp_path, ".cursor/mcp.json", '{"mcpServers": {"a": 1, "b": {"command": 5, "args": 6}}}')

    (entry,) = found(tmp_path)["Cursor"].entries

    assert entry == ClientEntry(name="b", place=entry.place)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    place(tmp_path, ".cursor/mcp.json", '{"mcpServers": {')

    broken = found(tmp_path)["Cursor"]

    assert broken.fault is not None
    assert broken.entries == ()


def test_variables_move_the_files(tmp_path: Path) -> None:
    environ = {"HOME": "/home", "CODEX_HOME": str(tmp_path), "APPDATA": "C:/App"}
    place(tmp_path, "config.toml", '[mcp_servers.gw]\ncommand = "anyport"\n')

    (only,) = find_client_files(environ, tmp_path / "project", "linux")

    assert only.client.name == "Codex"
    assert "APPDATA" not in base_dirs(environ, "linux")
    assert base_dirs(environ, "win32")["APPDATA"] == Path("C:/App")


def test_every_place_begins_with_a_base_that_exists() -> None:
    known = set(base_dirs({"APPDATA": "x"}, "win32")) | set(base_dirs({}, "darwin"))
    for client in CLIENTS:
        assert {path.partition("/")[0] for path in client.user} <= known


URL = "http://127.0.0.1:8640/mcp"
FILE = Path("/client.json")
OURS = config(
    server("files", "npx", args=("files",)),
    default=ProfileConfig(slug="default", servers=("files",)),
    dev=ProfileConfig(slug="dev", servers=("files",)),
)


def named(name: str) -> ClientApp:
    return next(client for client in CLIENTS if client.name == name)


def entry(name: str = "gw", **rest: Any) -> ClientEntry:
    return ClientEntry(name=name, place=f"{FILE}:3", **rest)


def around(**rest: Any) -> ClientCheckContext:
    told: dict[str, Any] = {
        "config": OURS,
        "address": ListenAddress(url=URL, occupant="gateway"),
        "files": (Path("/anyport.toml"),),
        "environ": {"PATH": "/usr/bin:/bin"},
        "load": lambda files: OURS,
    }
    return ClientCheckContext(**told | rest)


def judged(*entries: ClientEntry, client: str = "Cursor", **rest: Any) -> Section:
    return check_clients(
        [ClientFile(client=named(client), file=FILE, entries=entries)], around(**rest)
    )


def command(*args: str, program: str = sys.executable) -> ClientEntry:
    """An entry that launches the gateway; a Python is there for sure."""
    return entry(command=program, args=("-m", "anyport", *args))


def test_entries_that_lead_here_are_good() -> None:
    section = judged(entry(url=URL), command("stdio", "--config", "/a.toml", "--profile", "dev"))

    assert codes(section) == []
    assert codes(section, Level.OK) == ["entry", "entry"]
    assert section.summary == "Cursor uses this gateway; 1 file checked"


def test_where_nobody_leads_here_that_is_a_hint() -> None:
    assert codes(check_clients([], around())) == ["no-entry"]


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
def test_an_entry_is_known_by_its_command_its_address_or_its_name(
    one: ClientEntry, ours: bool
) -> None:
    assert is_gateway_entry(one, OURS) is ours


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
def test_what_does_not_work_is_told_with_its_place(
    one: ClientEntry, code: str, level: Level
) -> None:
    section = judged(one)

    finding = the(section, code)
    assert (finding.level, finding.about) == (level, f"Cursor: {one.name}")
    assert f"{FILE}:3" in finding.what
    assert finding.fix


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
    nobody = ListenAddress(url=URL, occupant="free")

    assert the(judged(entry(url=URL), address=nobody), "entry-nobody").fix == "anyport serve"


def test_the_configuration_of_a_command_is_read() -> None:
    def load(files: object) -> Config:
        fault = ConfigFault(file="/a.toml", line=7, column=1, path="", message="unknown key 'x'")
        raise ConfigError([fault])

    finding = the(judged(command("stdio", "--config", "/a.toml"), load=load), "entry-config")

    assert finding.level is Level.PROBLEM
    assert finding.what.startswith("/a.toml:7: unknown key")
    assert finding.fix == "anyport check --config /a.toml"


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
    assert finding.fix.endswith(f"anyport tools --config {FILE}")


def test_a_server_that_is_there_twice_is_a_warning() -> None:
    same = entry("mine", command="npx", args=("files",))

    assert codes(judged(entry(url=URL), same)) == ["twice"]
    assert codes(judged(same)) == ["could-move", "no-entry"]


def test_a_file_that_is_the_configuration_itself_is_no_other() -> None:
    assert codes(judged(entry("tickets", command="tickets"), files=(FILE,))) == ["no-entry"]


def test_a_file_that_cannot_be_read_is_a_hint() -> None:
    fault = ConfigFault(file=str(FILE), line=2, column=5, path="", message="no value")

    section = check_clients([ClientFile(client=named("Cursor"), file=FILE, fault=fault)], around())

    assert the(section, "client-file").what == f"{FILE}:2:5: no value"


def test_without_a_configuration_only_commands_are_judged() -> None:
    section = judged(entry("anyport", url=URL), command("stdio"), config=None, address=None)

    assert codes(section) == []


def test_what_may_be_secret_in_an_address_is_not_shown() -> None:
    section = judged(entry("anyport", url="http://me:sesame@localhost:9/mcp?key=sesame"))

    assert "sesame" not in repr(section)
