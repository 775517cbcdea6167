"""Each client's dialect, as its own file has it, becomes the same kind of server."""

import json
from pathlib import Path
from typing import Any

import pytest

from anyport.config import Config, ConfigError, ServerConfig, load

ENVIRON = {"TOKEN": "t0k3n", "EXTRA": "more"}


def loaded(folder: Path, name: str, text: str) -> Config:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return load([file], ENVIRON)


def client(folder: Path, entry: dict[str, Any]) -> ServerConfig:
    """The server `x` of a client's file."""
    return loaded(folder, "mcp.json", json.dumps({"mcpServers": {"x": entry}})).servers["x"]


def test_claude_desktop(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "claude_desktop_config.json",
        """
        {
          "globalShortcut": "Ctrl+Space",
          "theme": "dark",
          "preferences": {"menuBarEnabled": false},
          "mcpServers": {
            "filesystem": {
              "command": "npx",
              "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"]
            }
          }
        }
        """,
    )
    server = config.servers["filesystem"]
    assert server.command == "npx"
    assert server.args == ("-y", "@modelcontextprotocol/server-filesystem", "/srv")
    assert server.transport == "stdio"
    assert config.profile().servers == ("filesystem",)


def test_claude_code(tmp_path: Path) -> None:
    servers = loaded(
        tmp_path,
        ".mcp.json",
        """
        {
          "mcpServers": {
            "docs": {
              "type": "http",
              "url": "${BASE:-https://docs.example.com}/mcp",
              "headers": {"Authorization": "Bearer ${TOKEN}"},
              "alwaysLoad": true
            },
            "events": {"type": "sse", "url": "https://events.example.com/sse"},
            "dynamic": {"type": "http", "url": "https://x.example", "headersHelper": "/bin/h"}
          }
        }
        """,
    ).servers
    assert servers["docs"].url == "https://docs.example.com/mcp"
    assert servers["docs"].transport == "streamable-http"
    assert servers["docs"].headers == {"Authorization": "Bearer t0k3n"}
    assert servers["events"].transport == "sse"
    assert servers["dynamic"].unresolved == (
        "takes its headers from headersHelper, a command that only the client runs; "
        "write them in headers",
    )


def test_cursor(tmp_path: Path) -> None:
    servers = loaded(
        tmp_path,
        ".cursor/mcp.json",
        """
        {
          "mcpServers": {
            "remote": {"url": "https://a.example/mcp", "auth": {"CLIENT_ID": "x"}},
            "local": {"type": "stdio", "command": "uvx", "args": ["t"], "envFile": ".env"}
          }
        }
        """,
    ).servers
    assert servers["remote"].transport == "auto"
    assert servers["local"].unresolved == (
        f"envFile {tmp_path / '.cursor' / '.env'} cannot be read: No such file or directory",
    )


def test_vs_code(tmp_path: Path) -> None:
    servers = loaded(
        tmp_path,
        ".vscode/mcp.json",
        """
        {
          // Inputs are asked for once.
          "inputs": [{"type": "promptString", "id": "key", "password": true}],
          "servers": {
            "GitHub MCP": {
              "type": "http",
              "url": "https://api.example.com/mcp/",
              "gallery": "https://gallery.example",
              "version": "1.0.0",
            },
            "asks": {
              "type": "stdio",
              "command": "npx",
              "env": {"KEY": "${input:key}"},
              "dev": {"watch": "src/**"},
            },
          },
        }
        """,
    ).servers
    assert servers["github-mcp"].transport == "streamable-http"
    assert servers["github-mcp"].name == "GitHub MCP"
    assert servers["asks"].unresolved == (
        "env.KEY asks for an input, which only an editor can ask for; write ${env:NAME} instead",
    )


def test_windsurf(tmp_path: Path) -> None:
    server = client(
        tmp_path,
        {"serverUrl": "https://a.example/mcp", "disabledTools": ["x"], "disabled": True},
    )
    assert server.url == "https://a.example/mcp"
    assert server.disabled


def test_cline(tmp_path: Path) -> None:
    server = client(
        tmp_path,
        {
            "type": "streamableHttp",
            "url": "https://a.example/mcp",
            "disabled": False,
            "autoApprove": ["read"],
            "alwaysAllow": [],
            "timeout": 300,
        },
    )
    assert server.transport == "streamable-http"
    assert server.timeout_seconds == 300


def test_gemini(tmp_path: Path) -> None:
    server = client(
        tmp_path,
        {
            "httpUrl": "https://a.example/mcp",
            "timeout": 30000,
            "trust": True,
            "includeTools": ["a"],
            "excludeTools": ["b"],
        },
    )
    assert server.transport == "streamable-http"
    assert server.timeout_seconds == 30


def test_copilot(tmp_path: Path) -> None:
    server = client(tmp_path, {"type": "local", "command": "npx", "args": [], "tools": ["*"]})
    assert server.transport == "stdio"


def test_zed(tmp_path: Path) -> None:
    servers = loaded(
        tmp_path,
        "settings.json",
        """
        // All of the editor's settings live here.
        {
          "theme": "One Dark",
          "profiles": {"Presenting": {"buffer_font_size": 20}},
          "context_servers": {
            "today": {"source": "custom", "command": "uvx", "args": ["t"], "enabled": true},
            "older": {"command": {"path": "node", "args": ["s.js"], "env": {"A": "b"}}},
            "extension": {"source": "extension", "settings": {"token": "x"}},
            "remote": {"url": "https://a.example/mcp", "headers": {}},
          },
        }
        """,
    ).servers
    assert servers["today"].command == "uvx"
    assert servers["older"].command == "node"
    assert servers["older"].args == ("s.js",)
    assert servers["older"].env == {"A": "b"}
    assert servers["extension"].unresolved == (
        "comes from an editor's extension, which only it starts",
    )
    assert servers["remote"].transport == "auto"


def test_codex(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "config.toml",
        """
        model = "x"
        profile = "fast"

        [profiles.fast]
        model = "y"

        [mcp_servers.local]
        command = "npx"
        env_vars = ["EXTRA", "NOT_SET"]
        startup_timeout_sec = 20
        tool_timeout_sec = 1200
        enabled = false
        enabled_tools = ["a"]

        [mcp_servers.local.env]
        A = "b"

        [mcp_servers.remote]
        url = "https://a.example/mcp"
        bearer_token_env_var = "TOKEN"
        http_headers = { "X-Region" = "eu" }
        env_http_headers = { "X-Extra" = "EXTRA" }
        """,
    )
    local, remote = config.servers["local"], config.servers["remote"]
    assert local.env == {"A": "b", "EXTRA": "more"}
    assert local.disabled
    assert local.timeout_seconds == 1200
    assert remote.headers == {
        "X-Region": "eu",
        "X-Extra": "more",
        "Authorization": "Bearer t0k3n",
    }
    assert list(config.profiles) == ["default"]


@pytest.mark.parametrize(
    ("spelling", "transport"),
    [
        ("http", "streamable-http"),
        ("streamable-http", "streamable-http"),
        ("streamableHttp", "streamable-http"),
        ("streamable_http", "streamable-http"),
        ("sse", "sse"),
        ("SSE", "sse"),
        ("remote", "auto"),
    ],
)
@pytest.mark.parametrize("key", ["type", "transport"])
@pytest.mark.parametrize("url_key", ["url", "serverUrl", "uri"])
def test_every_spelling_of_a_remote_server(
    tmp_path: Path, key: str, spelling: str, transport: str, url_key: str
) -> None:
    server = client(tmp_path, {key: spelling, url_key: "https://a.example/mcp"})
    assert (server.transport, server.url) == (transport, "https://a.example/mcp")


def test_a_type_overrules_what_the_url_key_implies(tmp_path: Path) -> None:
    for entry in ({"httpUrl": "http://a/", "type": "sse"}, {"type": "sse", "httpUrl": "http://a/"}):
        assert client(tmp_path, entry).transport == "sse"


@pytest.mark.parametrize(
    ("timeout", "seconds"), [(60, 60), (1000, 1000), (1001, 1.001), (60_000, 60), (1.5, 1.5)]
)
def test_a_large_timeout_of_a_client_counts_milliseconds(
    tmp_path: Path, timeout: float, seconds: float
) -> None:
    assert client(tmp_path, {"command": "x", "timeout": timeout}).timeout_seconds == seconds


@pytest.mark.parametrize(
    ("entry", "message", "hint"),
    [
        ({"command": "x", "comand": "y"}, "unknown key 'comand'", "did you mean command?"),
        (
            {"url": "http://a/", "serverUrl": "http://b/"},
            "serverUrl and url contradict each other",
            "keep url only",
        ),
        (
            {"command": "x", "disabled": True, "enabled": True},
            "enabled and disabled contradict each other",
            "keep disabled only",
        ),
        ({"command": ["x"]}, "mcpServers.x.command must be a string, not an array", ""),
        ({"command": {"path": "x", "argv": []}}, "unknown key 'argv'", "did you mean args?"),
        (
            {"command": "x", "enabled": "yes"},
            "mcpServers.x.enabled must be true or false, not a string",
            "",
        ),
    ],
)
def test_what_an_entry_of_a_client_cannot_say(
    tmp_path: Path, entry: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        client(tmp_path, entry)
    [fault] = caught.value.faults
    assert (fault.message, fault.hint) == (message, hint)


def test_a_clients_choice_of_tools_is_refused_in_a_file_of_ours(tmp_path: Path) -> None:
    text = '[gateway]\n[mcpServers.x]\ncommand = "x"\ndisabledTools = ["y"]\n'
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, "my.toml", text)
    [fault] = caught.value.faults
    assert (fault.line, fault.message) == (4, "disabledTools is a key of clients and has no effect")
    assert fault.hint == "use tools = { allow = [...], deny = [...] } in a profile"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            'command = "x"\nheaders = { A = "b" }',
            "headers needs a url, and this server has a command",
        ),
        ('url = "http://a/"\nenv = { A = "b" }', "env needs a command, and this server has a url"),
        ('url = "http://a/"\ncwd = "b"', "cwd needs a command, and this server has a url"),
    ],
)
def test_a_key_that_could_do_nothing_is_refused_in_a_file_of_ours(
    tmp_path: Path, lines: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, "anyport.toml", f"[mcpServers.x]\n{lines}\n")
    [fault] = caught.value.faults
    assert (fault.line, fault.message) == (3, message)


@pytest.mark.parametrize("name", ["", " ", "a\\nb", "a\\u0000b"])
def test_names_no_server_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, "mcp.json", f'{{"mcpServers": {{"{name}": {{"command": "x"}}}}}}')
    [fault] = caught.value.faults
    assert "cannot be the name of a server" in fault.message
