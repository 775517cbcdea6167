"""The files of clients."""

from pathlib import Path
from typing import Any

import pytest

from anyport.cli.doctoring.clients import CLIENTS, Entry, Found, bases, look


def place(folder: Path, path: str, text: str) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def found(home: Path, **rest: Any) -> dict[str, Found]:
    cwd = home / "project"
    cwd.mkdir(exist_ok=True)
    return {each.client.name: each for each in look({"HOME": str(home)}, cwd, **rest)}


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

    assert entry == Entry(name="b", place=entry.place)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    place(tmp_path, ".cursor/mcp.json", '{"mcpServers": {')

    broken = found(tmp_path)["Cursor"]

    assert broken.fault is not None
    assert broken.entries == ()


def test_variables_move_the_files(tmp_path: Path) -> None:
    environ = {"HOME": "/home", "CODEX_HOME": str(tmp_path), "APPDATA": "C:/App"}
    place(tmp_path, "config.toml", '[mcp_servers.gw]\ncommand = "anyport"\n')

    (only,) = look(environ, tmp_path / "project", "linux")

    assert only.client.name == "Codex"
    assert "APPDATA" not in bases(environ, "linux")
    assert bases(environ, "win32")["APPDATA"] == Path("C:/App")


def test_every_place_begins_with_a_base_that_exists() -> None:
    known = set(bases({"APPDATA": "x"}, "win32")) | set(bases({}, "darwin"))
    for client in CLIENTS:
        assert {path.partition("/")[0] for path in client.user} <= known
