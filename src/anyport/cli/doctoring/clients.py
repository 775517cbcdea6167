"""Where MCP clients keep their servers, and the entries that are there. Nothing is ever written.

The places move from version to version of a client: they stand in one table, and a file that is
not there is no fault. What an entry means for the gateway is judged elsewhere.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from anyport.config.document import Document, Spot, read
from anyport.config.faults import Fault

USUAL: Final = ("mcpServers",)
URL_KEYS: Final = ("url", "serverUrl", "httpUrl", "uri")


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client, and where it looks for servers."""

    name: str
    user: tuple[str, ...]
    """Files of the user. They begin with a base: see `bases`."""
    project: tuple[str, ...] = ()
    """Files in the directory of a project."""
    roots: tuple[str, ...] = USUAL
    takes_urls: bool = True


CLIENTS: Final = (
    Client(
        name="Claude Desktop",
        user=tuple(
            f"{base}/claude_desktop_config.json"
            for base in ("SUPPORT/Claude", "APPDATA/Claude", "CONFIG/Claude", "CONFIG/claude")
        ),
        takes_urls=False,
    ),
    Client(name="Claude Code", user=("CLAUDE/.claude.json",), project=(".mcp.json",)),
    Client(name="Cursor", user=("HOME/.cursor/mcp.json",), project=(".cursor/mcp.json",)),
    Client(
        name="VS Code",
        user=(
            *(
                f"{base}/{edition}/User/mcp.json"
                for base in ("SUPPORT", "CONFIG", "APPDATA")
                for edition in ("Code", "Code - Insiders")
            ),
            "HOME/.vscode-server/data/User/mcp.json",
        ),
        project=(".vscode/mcp.json",),
        roots=("servers",),
    ),
    Client(name="Copilot CLI", user=("COPILOT/mcp-config.json",), project=(".github/mcp.json",)),
    Client(
        name="Windsurf",
        user=("HOME/.codeium/windsurf/mcp_config.json", "HOME/.codeium/mcp_config.json"),
    ),
    Client(
        name="Zed",
        user=("CONFIG/zed/settings.json", "APPDATA/Zed/settings.json"),
        project=(".zed/settings.json",),
        roots=("context_servers",),
    ),
    Client(
        name="Codex",
        user=("CODEX/config.toml",),
        project=(".codex/config.toml",),
        roots=("mcp_servers",),
    ),
    Client(
        name="Gemini CLI", user=("HOME/.gemini/settings.json",), project=(".gemini/settings.json",)
    ),
    Client(
        name="Cline",
        user=(
            "HOME/.cline/data/settings/cline_mcp_settings.json",
            *(
                f"{base}/{editor}/User/globalStorage/saoudrizwan.claude-dev/settings/"
                "cline_mcp_settings.json"
                for base in ("SUPPORT", "CONFIG", "APPDATA")
                for editor in ("Code", "Cursor")
            ),
        ),
    ),
    Client(name="LM Studio", user=("HOME/.lmstudio/mcp.json", "HOME/.cache/lm-studio/mcp.json")),
    Client(name="Junie", user=("HOME/.junie/mcp/mcp.json",), project=(".junie/mcp/mcp.json",)),
    Client(
        name="OpenCode",
        user=("CONFIG/opencode/opencode.json", "CONFIG/opencode/opencode.jsonc"),
        project=("opencode.json", "opencode.jsonc"),
        roots=("mcp",),
    ),
    Client(
        name="Kiro", user=("HOME/.kiro/settings/mcp.json",), project=(".kiro/settings/mcp.json",)
    ),
    Client(name="Amp", user=("CONFIG/amp/settings.json",), roots=("amp.mcpServers",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One server, as a client has it."""

    name: str
    place: str
    """File and line."""
    command: str | None = None
    args: tuple[str, ...] = ()
    url: str | None = None
    authorized: bool = False
    """Whether it sends some authorization."""
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One file of a client."""

    client: Client
    file: Path
    entries: tuple[Entry, ...] = ()
    fault: Fault | None = None
    """Why it cannot be read."""


def look(environ: Mapping[str, str], cwd: Path, platform: str = sys.platform) -> tuple[Found, ...]:
    """The files of clients that are there."""
    known = bases(environ, platform)
    return tuple(
        _found(client, file)
        for client in CLIENTS
        for file in dict.fromkeys(_files(client, known, cwd))
        if file.is_file()
    )


def bases(environ: Mapping[str, str], platform: str) -> dict[str, Path]:
    """The folders that the table speaks of; without those that this platform does not have."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    known = {
        "HOME": home,
        "CONFIG": Path(environ.get("XDG_CONFIG_HOME") or home / ".config"),
        "CLAUDE": Path(environ.get("CLAUDE_CONFIG_DIR") or home),
        "CODEX": Path(environ.get("CODEX_HOME") or home / ".codex"),
        "COPILOT": Path(environ.get("COPILOT_HOME") or home / ".copilot"),
    }
    if platform == "darwin":
        known["SUPPORT"] = home / "Library" / "Application Support"
    if platform == "win32" and "APPDATA" in environ:
        known["APPDATA"] = Path(environ["APPDATA"])
    return known


def _files(client: Client, known: Mapping[str, Path], cwd: Path) -> Iterator[Path]:
    for place in client.user:
        base, _, rest = place.partition("/")
        if base in known:
            yield known[base] / rest
    yield from (cwd / place for place in client.project)


def _found(client: Client, file: Path) -> Found:
    document = read(file)
    if isinstance(document, Fault):
        return Found(client=client, file=file, fault=document)
    return Found(client=client, file=file, entries=tuple(_entries(client, document)))


def _entries(client: Client, document: Document) -> Iterator[Entry]:
    top = dict(document.root.items())
    tables = [top[root] for root in client.roots if root in top]
    if client.name == "Claude Code" and isinstance(document.root.value.get("projects"), dict):
        projects = dict(top["projects"].items()).values()
        for project in projects:
            if isinstance(project.value, dict):
                tables += [spot for key, spot in project.items() if key in client.roots]
    for table in tables:
        if isinstance(table.value, dict):
            for name, spot in table.items():
                if isinstance(spot.value, dict):
                    yield _entry(name, spot)


def _entry(name: str, spot: Spot) -> Entry:
    entry: Mapping[str, Any] = spot.value
    command: Any = entry.get("command")
    args: Any = entry.get("args")
    if isinstance(command, dict):  # As Zed writes it.
        command, args = command.get("path"), command.get("args")
    elif isinstance(command, list):  # As OpenCode writes it.
        command, *args = command or [None]
    headers = next((entry[key] for key in ("headers", "http_headers") if key in entry), None)
    names = {str(key).lower() for key in headers} if isinstance(headers, dict) else set()
    elsewhere = ("bearer_token_env_var", "env_http_headers", "headersHelper", "oauth", "auth")
    return Entry(
        name=name,
        place=spot.place,
        command=command if isinstance(command, str) else None,
        args=tuple(map(str, args)) if isinstance(args, list) else (),
        url=next((entry[key] for key in URL_KEYS if isinstance(entry.get(key), str)), None),
        authorized="authorization" in names or any(key in entry for key in elsewhere),
        disabled=entry.get("disabled") is True or entry.get("enabled") is False,
    )
