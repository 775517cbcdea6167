"""Checks the configuration files of MCP clients: do their entries reach this gateway?

Only reads. The files hold secrets: findings name entries, commands and places, and no other values.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from anyport.cli.doctor.configuration import is_our_address
from anyport.cli.doctor.findings import (
    DoctorFinding,
    Section,
    good,
    hint,
    join_some,
    problem,
    warning,
)
from anyport.cli.doctor.listener import ListenAddress
from anyport.cli.options import CONFIG, PROFILE, SharedOptions, parse_plain
from anyport.cli.output import pluralize
from anyport.config.addresses import is_loopback
from anyport.config.document import ConfigNode, Document, read_document
from anyport.config.faults import ConfigError, ConfigFault
from anyport.config.model import Config
from anyport.gateway.http_app import default_profile

USUAL_ROOTS: Final = ("mcpServers",)
URL_KEYS: Final = ("url", "serverUrl", "httpUrl", "uri")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientApp:
    """A client, and the files with its servers."""

    name: str
    user: tuple[str, ...]
    """Files of the user; the first part of the path is a key of `base_dirs`."""
    project: tuple[str, ...] = ()
    """Files in a project directory."""
    roots: tuple[str, ...] = USUAL_ROOTS
    takes_urls: bool = True


CLIENTS: Final = (
    ClientApp(
        name="Claude Desktop",
        user=tuple(
            f"{base}/claude_desktop_config.json"
            for base in ("SUPPORT/Claude", "APPDATA/Claude", "CONFIG/Claude", "CONFIG/claude")
        ),
        takes_urls=False,
    ),
    ClientApp(name="Claude Code", user=("CLAUDE/.claude.json",), project=(".mcp.json",)),
    ClientApp(name="Cursor", user=("HOME/.cursor/mcp.json",), project=(".cursor/mcp.json",)),
    ClientApp(
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
    ClientApp(name="Copilot CLI", user=("COPILOT/mcp-config.json",), project=(".github/mcp.json",)),
    ClientApp(
        name="Windsurf",
        user=("HOME/.codeium/windsurf/mcp_config.json", "HOME/.codeium/mcp_config.json"),
    ),
    ClientApp(
        name="Zed",
        user=("CONFIG/zed/settings.json", "APPDATA/Zed/settings.json"),
        project=(".zed/settings.json",),
        roots=("context_servers",),
    ),
    ClientApp(
        name="Codex",
        user=("CODEX/config.toml",),
        project=(".codex/config.toml",),
        roots=("mcp_servers",),
    ),
    ClientApp(
        name="Gemini CLI", user=("HOME/.gemini/settings.json",), project=(".gemini/settings.json",)
    ),
    ClientApp(
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
    ClientApp(name="LM Studio", user=("HOME/.lmstudio/mcp.json", "HOME/.cache/lm-studio/mcp.json")),
    ClientApp(name="Junie", user=("HOME/.junie/mcp/mcp.json",), project=(".junie/mcp/mcp.json",)),
    ClientApp(
        name="OpenCode",
        user=("CONFIG/opencode/opencode.json", "CONFIG/opencode/opencode.jsonc"),
        project=("opencode.json", "opencode.jsonc"),
        roots=("mcp",),
    ),
    ClientApp(
        name="Kiro", user=("HOME/.kiro/settings/mcp.json",), project=(".kiro/settings/mcp.json",)
    ),
    ClientApp(name="Amp", user=("CONFIG/amp/settings.json",), roots=("amp.mcpServers",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEntry:
    """A server in a client's file."""

    name: str
    place: str
    """File and line."""
    command: str | None = None
    args: tuple[str, ...] = ()
    url: str | None = None
    authorized: bool = False
    """Whether it sends any authorization."""
    disabled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A file of a client, with its entries."""

    client: ClientApp
    file: Path
    entries: tuple[ClientEntry, ...] = ()
    fault: ConfigFault | None = None


def find_client_files(
    environ: Mapping[str, str], cwd: Path, platform: str = sys.platform
) -> tuple[ClientFile, ...]:
    """The files of clients that exist."""
    bases = base_dirs(environ, platform)
    return tuple(
        _read_client_file(client, file)
        for client in CLIENTS
        for file in dict.fromkeys(_files(client, bases, cwd))
        if file.is_file()
    )


def base_dirs(environ: Mapping[str, str], platform: str) -> dict[str, Path]:
    """The base directories of `CLIENTS` on this platform."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    bases = {
        "HOME": home,
        "CONFIG": Path(environ.get("XDG_CONFIG_HOME") or home / ".config"),
        "CLAUDE": Path(environ.get("CLAUDE_CONFIG_DIR") or home),
        "CODEX": Path(environ.get("CODEX_HOME") or home / ".codex"),
        "COPILOT": Path(environ.get("COPILOT_HOME") or home / ".copilot"),
    }
    if platform == "darwin":
        bases["SUPPORT"] = home / "Library" / "Application Support"
    if platform == "win32" and "APPDATA" in environ:
        bases["APPDATA"] = Path(environ["APPDATA"])
    return bases


def _files(client: ClientApp, bases: Mapping[str, Path], cwd: Path) -> Iterator[Path]:
    for place in client.user:
        base, _, rest = place.partition("/")
        if base in bases:
            yield bases[base] / rest
    yield from (cwd / place for place in client.project)


def _read_client_file(client: ClientApp, file: Path) -> ClientFile:
    document = read_document(file)
    if isinstance(document, ConfigFault):
        return ClientFile(client=client, file=file, fault=document)
    return ClientFile(client=client, file=file, entries=tuple(_entries(client, document)))


def _entries(client: ClientApp, document: Document) -> Iterator[ClientEntry]:
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
                    yield _to_client_entry(name, spot)


def _to_client_entry(name: str, spot: ConfigNode) -> ClientEntry:
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
    return ClientEntry(
        name=name,
        place=spot.location,
        command=command if isinstance(command, str) else None,
        args=tuple(map(str, args)) if isinstance(args, list) else (),
        url=next((entry[key] for key in URL_KEYS if isinstance(entry.get(key), str)), None),
        authorized="authorization" in names or any(key in entry for key in elsewhere),
        disabled=entry.get("disabled") is True or entry.get("enabled") is False,
    )


NAME: Final = "clients"

PROGRAM: Final = "anyport"

_ENDPOINT: Final = re.compile(r"/mcp(?:/(?P<profile>[^/]+)(?:/sse)?)?/?")
_PYTHON: Final = re.compile(r"python(?:3(?:\.\d+)?)?(?:\.exe)?")

LoadConfig = Callable[[Sequence[Path]], Config]
"""Reads a configuration; raises ConfigError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCheckContext:
    """The configuration and the machine that entries are checked against."""

    config: Config | None
    """None if the configuration is not valid."""
    address: ListenAddress | None
    """What listens on the address of the gateway."""
    files: tuple[Path, ...]
    """The files of the configuration."""
    environ: Mapping[str, str]
    load: LoadConfig


def check_clients(files: Sequence[ClientFile], context: ClientCheckContext) -> Section:
    """The findings on the files of clients."""
    findings: list[DoctorFinding] = []
    pointing: list[str] = []
    for file in files:
        ours = [entry for entry in file.entries if is_gateway_entry(entry, context.config)]
        pointing += [file.client.name] if ours else []
        findings += _check_file(file, ours, context)
    where = ", ".join(dict.fromkeys(pointing))
    if not pointing:
        findings.append(
            hint(
                code="no-entry",
                what="no known client has an entry for this gateway",
                why="no client uses it yet",
                fix=(
                    "'anyport serve' prints how to add it to a client; "
                    "docs/get-started/clients.md lists all clients"
                ),
            )
        )
    summary = f"{where} {'uses' if len(set(pointing)) == 1 else 'use'} this gateway"
    file_count = f"{pluralize(len(files), 'file')} checked"
    return Section(
        name=NAME,
        summary=f"{summary}; {file_count}" if pointing else f"none uses this gateway; {file_count}",
        findings=tuple(findings),
    )


def is_gateway_entry(entry: ClientEntry, config: Config | None) -> bool:
    """Whether an entry is meant for this gateway."""
    if entry.command is not None:
        return _own_args(entry) is not None
    if entry.url is None:
        return False
    if config is not None and is_our_address(entry.url, config):
        return True
    return PROGRAM in entry.name.lower() and is_loopback(_host(entry.url))


def _check_file(
    file: ClientFile, ours: Sequence[ClientEntry], context: ClientCheckContext
) -> Iterator[DoctorFinding]:
    client = file.client.name
    if file.fault is not None:
        fault = file.fault
        yield hint(
            code="client-file",
            what=f"{fault.file}:{fault.line}:{fault.column}: {fault.message}",
            why="the client cannot read its servers either",
            fix=fault.hint or f"edit line {fault.line}",
            about=client,
        )
    for entry in ours:
        about = f"{client}: {entry.name}"
        faults = list(_check_entry(file, entry, context, about))
        yield from faults
        if not faults:
            yield good(code="entry", what=f"it uses this gateway ({entry.place})", about=about)
    yield from _check_others(file, ours, context)


def _check_entry(
    file: ClientFile, entry: ClientEntry, context: ClientCheckContext, about: str
) -> Iterator[DoctorFinding]:
    if entry.disabled:
        yield hint(
            code="entry-disabled",
            what=f"the entry is disabled ({entry.place})",
            why="the client does not use it",
            fix="enable it in the client",
            about=about,
        )
    elif entry.command is not None:
        yield from _check_command(entry, context, about)
    elif entry.url is not None:
        if not file.client.takes_urls:
            yield problem(
                code="entry-url",
                what=f"{file.client.name} does not support url in this file ({entry.place})",
                why="the entry has no effect",
                fix='use "command": "/path/to/anyport", "args": ["stdio"] instead',
                about=about,
            )
            return
        yield from _check_url(entry, entry.url, context, about)


def _check_command(
    entry: ClientEntry, context: ClientCheckContext, about: str
) -> Iterator[DoctorFinding]:
    command = entry.command or ""
    if shutil.which(command, path=context.environ.get("PATH")) is None:
        yield problem(
            code="entry-command",
            what=f"its command {command} is not found ({entry.place})",
            why="the client cannot start the gateway",
            fix=f"use the path that 'command -v {os.path.basename(command)}' prints",
            about=about,
        )
    elif not os.path.isabs(command):
        yield hint(
            code="entry-path",
            what=f"its command {command} is not a full path ({entry.place})",
            why="a client that is started from a desktop may not find it",
            fix=f"use the path that 'command -v {command}' prints",
            about=about,
        )
    args = _own_args(entry) or ()
    if args[:1] != ("stdio",):
        yield problem(
            code="entry-args",
            what=f"it does not run 'anyport stdio' ({entry.place})",
            why="only this command serves a client on stdin and stdout",
            fix='use "args": ["stdio"], and --config with the full path of your file',
            about=about,
        )
        return
    options = parse_plain(args[1:])
    if options is None:
        yield problem(
            code="entry-args",
            what=f"its args have an option that 'anyport stdio' does not know ({entry.place})",
            why="the gateway exits at once",
            fix="anyport stdio --help",
            about=about,
        )
        return
    yield from _check_options(options, entry, context, about)


def _check_options(
    options: SharedOptions, entry: ClientEntry, context: ClientCheckContext, about: str
) -> Iterator[DoctorFinding]:
    config = context.config
    relative = [file for file in options.config if not file.is_absolute()]
    for file in relative:
        yield warning(
            code="entry-config",
            what=f"{CONFIG.name} {file} is not a full path ({entry.place})",
            why="clients start commands in another directory",
            fix=f"use {file.absolute()}",
            about=about,
        )
    if relative:
        return  # The file is unknown.
    if options.config:
        try:
            config = context.load(options.config)
        except ConfigError as error:
            first = error.faults[0]
            yield problem(
                code="entry-config",
                what=f"{first.file}:{first.line}: {first.message} ({entry.place})",
                why="the gateway of this client does not start",
                fix="anyport check" + "".join(f" {CONFIG.name} {file}" for file in options.config),
                about=about,
            )
            return
    yield from _check_profile(options.profile, config, entry, about)


def _check_profile(
    profile: str | None, config: Config | None, entry: ClientEntry, about: str
) -> Iterator[DoctorFinding]:
    if config is None:
        return
    if profile is None:
        if default_profile(config) is None:
            yield problem(
                code="entry-profile",
                what=f"it names no profile, and there is no default profile ({entry.place})",
                why="the gateway cannot choose a profile",
                fix=f"choose one of {', '.join(config.profiles)} with {PROFILE.name} or /mcp/NAME",
                about=about,
            )
    elif profile not in config.profiles:
        yield problem(
            code="entry-profile",
            what=f"there is no profile {profile!r} ({entry.place})",
            why="the client is refused",
            fix=f"use one of {', '.join(config.profiles)}",
            about=about,
        )


def _check_url(
    entry: ClientEntry, url: str, context: ClientCheckContext, about: str
) -> Iterator[DoctorFinding]:
    config = context.config
    if config is None:
        return
    if not is_our_address(url, config):
        yield warning(
            code="entry-address",
            what=f"its url is {_redact_url(url)}, but this gateway listens on "
            f"{config.gateway.listen} ({entry.place})",
            why="the client cannot connect, or connects to another server",
            fix=f"use {config.gateway.listen} in its url",
            about=about,
        )
        return
    endpoint = _ENDPOINT.fullmatch(urlsplit(url).path)
    if endpoint is None:
        yield problem(
            code="entry-address",
            what=f"its url is {_redact_url(url)} ({entry.place})",
            why="clients are only served at /mcp",
            fix=f"use http://{config.gateway.listen}/mcp",
            about=about,
        )
        return
    yield from _check_profile(endpoint["profile"], config, entry, about)
    if config.gateway.tokens and not entry.authorized:
        yield problem(
            code="entry-token",
            what=f"it sends no token, but this gateway requires one ({entry.place})",
            why="the client is refused with HTTP 401",
            fix=("add the header Authorization to the entry; see docs/get-started/clients.md"),
            about=about,
        )
    if context.address is not None and context.address.occupant == "free":
        yield hint(
            code="entry-nobody",
            what="no gateway listens at its url",
            why="the client cannot connect until a gateway runs",
            fix="anyport serve",
            about=about,
        )


def _check_others(
    file: ClientFile, ours: Sequence[ClientEntry], context: ClientCheckContext
) -> Iterator[DoctorFinding]:
    """Findings on servers that a client starts itself."""
    if file.file.absolute() in {each.absolute() for each in context.files}:
        return  # It is also the configuration of the gateway.
    others = [entry for entry in file.entries if entry not in ours and not entry.disabled]
    targets = set() if context.config is None else set(_server_targets(context.config))
    duplicates = [
        entry.name for entry in others if (entry.command, entry.args, entry.url) in targets
    ]
    if ours and duplicates:
        yield warning(
            code="twice",
            what=f"both in {file.file} and behind the gateway: {join_some(duplicates)}",
            why="they are started twice, and the client shows their tools twice",
            fix=f"remove them from {file.file}",
            about=file.client.name,
        )
    single = [entry.name for entry in others if entry.name not in duplicates or not ours]
    if single:
        yield hint(
            code="could-move",
            what=f"{pluralize(len(single), 'server')} only in {file.file}: {join_some(single)}",
            why="behind the gateway, all clients could use them, and calls would be recorded",
            fix=f"try it: anyport tools {CONFIG.name} {file.file}",
            about=file.client.name,
        )


def _server_targets(config: Config) -> Iterator[tuple[str | None, tuple[str, ...], str | None]]:
    for server in config.servers.values():
        yield server.command, server.args, server.url


def _own_args(entry: ClientEntry) -> tuple[str, ...] | None:
    """The arguments after `anyport` in a command line; None if it runs something else."""
    command = os.path.basename(entry.command or "").removesuffix(".exe")
    if entry.args[-1:] == ("demo-server",):
        return None
    if command == PROGRAM:
        return entry.args
    if _PYTHON.fullmatch(command) and entry.args[:2] == ("-m", PROGRAM):
        return entry.args[2:]
    if command in ("uvx", "pipx", "uv") and PROGRAM in entry.args:
        return entry.args[entry.args.index(PROGRAM) + 1 :]
    return None


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _redact_url(url: str) -> str:
    """A URL without user, password and query."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
