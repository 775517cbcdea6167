"""Checks the configuration: faults, secrets in files, permissions and risky settings."""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from anyport.cli.doctor.findings import DoctorFinding, Section, good, hint, problem, warning
from anyport.cli.options import SharedOptions
from anyport.cli.output import pluralize
from anyport.cli.preflight import hook_obstacles, telemetry_obstacles
from anyport.cli.setup import WILDCARD_ADDRESSES, config_files, describe_nothing_found, read_config
from anyport.config.addresses import explain_exposure, is_local, is_loopback
from anyport.config.document import ConfigNode, Document, read_document
from anyport.config.faults import ConfigError, ConfigFault
from anyport.config.load import SERVER_ROOTS
from anyport.config.model import Config, ServerConfig
from anyport.record.redact.patterns import Secrecy, SecretNames
from anyport.record.redact.redactor import SECRET_CHARS_MIN, Redactor

# Literal secrets: recognised by their name or their form. A finding never contains the value.

_TABLES: Final = ("env", "headers", "http_headers")
_SCHEME: Final = re.compile(r"(?:Bearer|Basic|Token) ", re.IGNORECASE)

_names: Final = SecretNames()
_redact: Final = Redactor(())


@dataclass(frozen=True, slots=True, kw_only=True)
class LiteralSecret:
    """A secret in a configuration file, where a reference to a variable should be."""

    place: str
    """File and line."""
    name: str
    """The path of the key in the file."""
    reference: str
    """What to write instead."""
    variable: str
    """The variable in the reference."""


def find_literals(document: Document) -> Iterator[LiteralSecret]:
    """The literal secrets of the servers in a file."""
    for root, servers in document.root.items():
        if root in SERVER_ROOTS and isinstance(servers.value, dict):
            for name, entry in servers.items():
                if isinstance(entry.value, dict):
                    yield from _entry_literals(name, entry)


def _entry_literals(server: str, entry: ConfigNode) -> Iterator[LiteralSecret]:
    for key, spot in entry.items():
        if key in _TABLES and isinstance(spot.value, dict):
            for name, member in spot.items():
                if is_literal(name, member.value):
                    yield _make_literal(member, _variable_name(name, server))
        elif key == "args" and isinstance(spot.value, list):
            yield from _argument_literals(server, spot)
        elif key in ("url", "serverUrl", "httpUrl") and is_literal("", spot.value):
            yield _make_literal(spot, _variable_name("", server))


def _argument_literals(server: str, args: ConfigNode) -> Iterator[LiteralSecret]:
    option = ""
    for element in args.elements():
        if is_literal(option, element.value):
            yield _make_literal(element, _variable_name(option, server))
        word = element.value if isinstance(element.value, str) else ""
        is_option = word.startswith("--") and "=" not in word
        option = word.removeprefix("--") if is_option else ""


def is_literal(name: str, value: Any) -> bool:
    """Whether a value is a secret and not a reference."""
    if not isinstance(value, str) or "${" in value or len(value) < SECRET_CHARS_MIN:
        return False
    if _names.secrecy_of(name) is not Secrecy.NOTHING and not value.startswith("-"):
        return True
    return _redact(value) != value


def _make_literal(spot: ConfigNode, variable: str) -> LiteralSecret:
    scheme = _SCHEME.match(spot.value)
    return LiteralSecret(
        place=spot.location,
        name=spot.name,
        reference=f"{scheme[0] if scheme else ''}${{env:{variable}}}",
        variable=variable,
    )


def _variable_name(name: str, server: str) -> str:
    """A name for the variable: that of the key, or of the server if the key says too little."""
    if name.lower() in ("", "authorization"):
        name = f"{server}_TOKEN"
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")


NAME: Final = "configuration"

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSource:
    """One file of the configuration."""

    path: Path
    document: Document | None
    """None if it cannot be read."""
    mode: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigReading:
    """The configuration, or its faults."""

    config: Config | None
    """None if it has faults."""
    faults: tuple[ConfigFault, ...] = ()
    sources: tuple[ConfigSource, ...] = ()
    """Empty for the built-in demo server."""


def inspect_configuration(
    options: SharedOptions, environ: Mapping[str, str], cwd: Path
) -> ConfigReading:
    """Read the configuration, and each of its files."""
    sources = tuple(map(_read_source, config_files(options, environ, cwd)))
    try:
        return ConfigReading(config=read_config(options, environ, cwd), sources=sources)
    except ConfigError as error:
        return ConfigReading(config=None, faults=error.faults, sources=sources)


def check_configuration(reading: ConfigReading, environ: Mapping[str, str]) -> Section:
    """The findings."""
    files = ", ".join(str(source.path) for source in reading.sources)
    findings = [*_check_sources(reading, environ), *map(_check_fault, reading.faults)]
    config = reading.config
    if config is None:
        faults = pluralize(len(reading.faults), "fault")
        return Section(name=NAME, summary=f"{files}: {faults}", findings=tuple(findings))
    findings += [
        *_check_servers(config),
        *map(_check_warning, config.warnings),
        *_check_hooks(config, environ),
        *_check_listening(config),
    ]
    servers = pluralize(len(config.servers), "server")
    profiles = pluralize(len(config.profiles), "profile")
    where = files or "none; using the built-in demo server"
    counts = f": {servers}, {profiles}" if files else ""
    return Section(name=NAME, summary=f"{where}{counts}", findings=tuple(findings))


def _check_sources(reading: ConfigReading, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    if not reading.sources:
        yield hint(
            code="no-configuration",
            what=describe_nothing_found(environ),
            why="clients only get the demo server",
            fix="add your servers to anyport.toml, or use the file of a client: "
            "anyport serve --config ~/.cursor/mcp.json",
        )
    for source in reading.sources:
        yield good(code="file", what=f"{source.path} was read")
        written = () if source.document is None else tuple(find_literals(source.document))
        for literal in written:
            yield warning(
                code="literal-secret",
                what=f"{literal.place}: {literal.name} is a secret in plain text",
                why="everyone who can read the file has it",
                fix=f'use "{literal.reference}", and set the environment variable '
                f"{literal.variable}",
            )
        yield from _check_rights(source, secret=bool(written))


def _check_rights(source: ConfigSource, *, secret: bool) -> Iterator[DoctorFinding]:
    if source.mode is None:
        return
    if source.mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield warning(
            code="file-rights",
            what=f"{source.path} is writable by other users",
            why="they can choose the commands that the gateway runs",
            fix=f"chmod go-w {source.path}",
        )
    if secret and source.mode & (stat.S_IRGRP | stat.S_IROTH):
        yield warning(
            code="file-rights",
            what=f"{source.path} contains secrets and is readable by other users",
            why="they can use them",
            fix=f"chmod 600 {source.path}",
        )


def _check_fault(fault: ConfigFault) -> DoctorFinding:
    return problem(
        code="fault",
        what=f"{fault.file}:{fault.line}:{fault.column}: {fault.message}",
        why="the gateway cannot start",
        fix=fault.hint or f"check {fault.file}, or pass another file with --config",
        lines=tuple(fault.excerpt.splitlines()),
    )


def _check_warning(fault: ConfigFault) -> DoctorFinding:
    return warning(
        code="unwise",
        what=f"{fault.file}:{fault.line}:{fault.column}: {fault.message}",
        why="it works, but is risky",
        fix=fault.hint or f"edit line {fault.line} of {fault.file}",
    )


def _check_servers(config: Config) -> Iterator[DoctorFinding]:
    if not config.servers:
        yield warning(
            code="no-servers",
            what="no server is defined",
            why="clients get no tools",
            fix="define them under mcpServers",
        )
    for name, slug in config.renamed.items():
        yield hint(
            code="renamed",
            what=f"{name!r} is renamed to {slug}",
            why="clients see this name",
            fix=f"use {slug} in the file",
            about=slug,
        )
    for server in config.servers.values():
        if not server.disabled:
            yield from _check_server(server, config)


def _check_server(server: ServerConfig, config: Config) -> Iterator[DoctorFinding]:
    for reason in server.unresolved:
        yield problem(
            code="unresolved",
            what=f"{reason} ({server.origin})",
            why="the server is not started",
            fix=_fix_unresolved(reason, server),
            about=server.slug,
        )
    if server.url is None:
        return
    if server.url.startswith("http:") and server.headers and not is_local(server):
        yield warning(
            code="plain-http",
            what="its headers are sent unencrypted",
            why="everyone on the network path can read them",
            fix="use https: in its url",
            about=server.slug,
        )
    if is_our_address(server.url, config):
        yield problem(
            code="loop",
            what=f"its url is the address that this gateway listens on ({server.origin})",
            why="the gateway would call itself endlessly",
            fix="remove the server from the configuration",
            about=server.slug,
        )


def _fix_unresolved(reason: str, server: ServerConfig) -> str:
    _, _, after = reason.partition("needs the environment variable ")
    if after:
        return f"export {after.partition(',')[0]}=..., where the gateway is started"
    return f"edit the server in {server.origin}, or set disabled = true there"


def _check_hooks(config: Config, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    for obstacle in telemetry_obstacles(config, environ):
        what, _, fix = obstacle.partition(": ")
        why = "the collector gets no data"
        yield warning(code="telemetry", what=what, why=why, fix=fix)
    for hook in config.hooks:
        for obstacle in hook_obstacles(hook, environ):
            yield warning(
                code="hook",
                what=f"the hook '{hook.name}' will fail: {obstacle}",
                why="its action is not performed",
                fix="fix its run, or remove it",
            )


def _check_listening(config: Config) -> Iterator[DoctorFinding]:
    host = config.gateway.host
    refusal = explain_exposure(config, host)
    if refusal is not None:
        yield problem(
            code="exposed",
            what=refusal,
            why="'anyport serve' refuses to start",
            fix=f'under [gateway], listen = "127.0.0.1:{config.gateway.port}", or '
            'tokens = { me = "${env:ANYPORT_TOKEN}" }',
        )
    elif host in WILDCARD_ADDRESSES and not config.gateway.allowed_hosts:
        yield warning(
            code="allowed-hosts",
            what=f"it listens on {host}, and gateway.allowedHosts is empty",
            why="clients on other machines are refused",
            fix='under [gateway], allowedHosts = ["the.name.they.use"]',
        )


def is_our_address(url: str, config: Config) -> bool:
    """Whether a URL points to the address of this gateway."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return False
    host, ours = parts.hostname or "", config.gateway.host
    same = host == ours or (is_loopback(host) and (is_loopback(ours) or ours in WILDCARD_ADDRESSES))
    return same and port == config.gateway.port


def _read_source(path: Path) -> ConfigSource:
    document = read_document(path)
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        mode = None
    return ConfigSource(
        path=path, document=document if isinstance(document, Document) else None, mode=mode
    )
