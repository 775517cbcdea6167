"""The configuration: where it was found, what is wrong with it, and what is unwise."""

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from anyport.cli.check import hook_obstacles, telemetry_obstacles
from anyport.cli.doctoring.finding import (
    Finding,
    Section,
    good,
    hint,
    problem,
    warning,
)
from anyport.cli.doctoring.literals import literals
from anyport.cli.options import Given
from anyport.cli.ready import EVERYWHERE
from anyport.cli.render import counted
from anyport.cli.setup import config_files, nothing_found, read_config
from anyport.config.address import exposure, is_local, is_loopback
from anyport.config.document import Document, read
from anyport.config.faults import ConfigError, Fault
from anyport.config.schema import Config, ServerConfig

NAME: Final = "configuration"

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file of the configuration."""

    path: Path
    document: Document | None
    """None for one that cannot be read."""
    mode: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What came of reading the configuration."""

    config: Config | None
    """None where it cannot be used."""
    faults: tuple[Fault, ...] = ()
    sources: tuple[Source, ...] = ()
    """None where nothing was found, and the demonstration is used."""


def look(given: Given, environ: Mapping[str, str], cwd: Path) -> Reading:
    """Read the configuration, and each of its files by itself."""
    sources = tuple(map(_source, config_files(given, environ, cwd)))
    try:
        return Reading(config=read_config(given, environ, cwd), sources=sources)
    except ConfigError as error:
        return Reading(config=None, faults=error.faults, sources=sources)


def judge(reading: Reading, environ: Mapping[str, str]) -> Section:
    """What is to be said of it."""
    files = ", ".join(str(source.path) for source in reading.sources)
    findings = [*_judge_sources(reading, environ), *map(_judge_fault, reading.faults)]
    config = reading.config
    if config is None:
        faults = counted(len(reading.faults), "fault")
        return Section(name=NAME, summary=f"{files}: {faults}", findings=tuple(findings))
    findings += [
        *_judge_servers(config),
        *map(_judge_warning, config.warnings),
        *_judge_hooks(config, environ),
        *_judge_listening(config),
    ]
    servers = counted(len(config.servers), "server")
    profiles = counted(len(config.profiles), "profile")
    where = files or "none; the built-in demo server is used"
    counts = f": {servers}, {profiles}" if files else ""
    return Section(name=NAME, summary=f"{where}{counts}", findings=tuple(findings))


def _judge_sources(reading: Reading, environ: Mapping[str, str]) -> Iterator[Finding]:
    if not reading.sources:
        yield hint(
            code="no-configuration",
            what=nothing_found(environ),
            why="only the demo server is there",
            mend="write your servers into anyport.toml, or name the file of a client: "
            "anyport serve --config ~/.cursor/mcp.json",
        )
    for source in reading.sources:
        yield good(code="file", what=f"{source.path} was read")
        written = () if source.document is None else tuple(literals(source.document))
        for literal in written:
            yield warning(
                code="literal-secret",
                what=f"{literal.place}: {literal.name} stands in the file as it is",
                why="whoever gets the file has it",
                mend=f'write "{literal.reference}" there, and put the value into the variable '
                f"{literal.variable}",
            )
        yield from _judge_rights(source, secret=bool(written))


def _judge_rights(source: Source, *, secret: bool) -> Iterator[Finding]:
    if source.mode is None:
        return
    if source.mode & (stat.S_IWGRP | stat.S_IWOTH):
        yield warning(
            code="file-rights",
            what=f"{source.path} can be changed by others",
            why="who can do that decides which commands you run",
            mend=f"chmod go-w {source.path}",
        )
    if secret and source.mode & (stat.S_IRGRP | stat.S_IROTH):
        yield warning(
            code="file-rights",
            what=f"{source.path} holds secrets, and others on this machine can read it",
            why="they can use them",
            mend=f"chmod 600 {source.path}",
        )


def _judge_fault(fault: Fault) -> Finding:
    return problem(
        code="fault",
        what=f"{fault.file}:{fault.line}:{fault.column}: {fault.message}",
        why="no gateway starts with this file",
        mend=fault.hint or f"see to {fault.file}, or name another with --config",
        lines=tuple(fault.excerpt.splitlines()),
    )


def _judge_warning(fault: Fault) -> Finding:
    return warning(
        code="unwise",
        what=f"{fault.file}:{fault.line}:{fault.column}: {fault.message}",
        why="it can be used, but should not stay so",
        mend=fault.hint or f"edit line {fault.line} of {fault.file}",
    )


def _judge_servers(config: Config) -> Iterator[Finding]:
    if not config.servers:
        yield warning(
            code="no-servers",
            what="no server is defined",
            why="clients find nothing to use",
            mend="define them under mcpServers",
        )
    for name, slug in config.renamed.items():
        yield hint(
            code="renamed",
            what=f"{name!r} is called {slug} here",
            why="that is how clients see it",
            mend=f"write {slug} in the file, so that it has one name only",
            about=slug,
        )
    for server in config.servers.values():
        if not server.disabled:
            yield from _judge_server(server, config)


def _judge_server(server: ServerConfig, config: Config) -> Iterator[Finding]:
    for reason in server.unresolved:
        yield problem(
            code="unresolved",
            what=f"{reason} ({server.origin})",
            why="the server is not started",
            mend=_mend_unresolved(reason, server),
            about=server.slug,
        )
    if server.url is None:
        return
    if server.url.startswith("http:") and server.headers and not is_local(server):
        yield warning(
            code="plain-http",
            what="its headers are sent unencrypted",
            why="whoever is on the way can read them",
            mend="write https: in its url",
            about=server.slug,
        )
    if is_our_address(server.url, config):
        yield problem(
            code="loop",
            what=f"its url is the address that this gateway listens on ({server.origin})",
            why="the gateway would ask itself, for ever",
            mend="remove the server from the configuration",
            about=server.slug,
        )


def _mend_unresolved(reason: str, server: ServerConfig) -> str:
    _, _, after = reason.partition("needs the environment variable ")
    if after:
        return f"export {after.partition(',')[0]}=..., where the gateway is started"
    return f"edit the server in {server.origin}, or set disabled = true there"


def _judge_hooks(config: Config, environ: Mapping[str, str]) -> Iterator[Finding]:
    for words in telemetry_obstacles(config, environ):
        what, _, mend = words.partition(": ")
        why = "nothing is told to the collector"
        yield warning(code="telemetry", what=what, why=why, mend=mend)
    for hook in config.hooks:
        for words in hook_obstacles(hook, environ):
            yield warning(
                code="hook",
                what=f"the hook '{hook.name}' will fail: {words}",
                why="nobody is told of what it is for",
                mend="mend its run, or remove it",
            )


def _judge_listening(config: Config) -> Iterator[Finding]:
    host = config.gateway.host
    refusal = exposure(config, host)
    if refusal is not None:
        yield problem(
            code="exposed",
            what=refusal,
            why="'anyport serve' refuses to start so",
            mend=f'under [gateway], listen = "127.0.0.1:{config.gateway.port}", or '
            'tokens = { me = "${env:ANYPORT_TOKEN}" }',
        )
    elif host in EVERYWHERE and not config.gateway.allowed_hosts:
        yield warning(
            code="allowed-hosts",
            what=f"it listens on {host}, and gateway.allowedHosts is empty",
            why="clients on other machines are turned away",
            mend='under [gateway], allowedHosts = ["the.name.they.use"]',
        )


def is_our_address(url: str, config: Config) -> bool:
    """Whether a URL leads to where this gateway listens."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return False
    host, ours = parts.hostname or "", config.gateway.host
    same = host == ours or (is_loopback(host) and (is_loopback(ours) or ours in EVERYWHERE))
    return same and port == config.gateway.port


def _source(path: Path) -> Source:
    document = read(path)
    try:
        mode = stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        mode = None
    return Source(
        path=path, document=document if isinstance(document, Document) else None, mode=mode
    )
