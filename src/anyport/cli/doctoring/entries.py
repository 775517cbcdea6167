"""The entries of clients that lead to this gateway, and whether they do; those that could.

Only names, commands and places are told: what else stands in the files of clients may be secret.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from anyport.cli.doctoring.clients import Entry, Found
from anyport.cli.doctoring.configuration import is_our_address
from anyport.cli.doctoring.finding import (
    Finding,
    Section,
    good,
    hint,
    problem,
    some,
    warning,
)
from anyport.cli.doctoring.listening import Address
from anyport.cli.options import CONFIG, PROFILE, Given, read_plain
from anyport.cli.ready import main_profile
from anyport.cli.render import counted
from anyport.config.address import is_loopback
from anyport.config.faults import ConfigError
from anyport.config.schema import Config

NAME: Final = "clients"

PROGRAM: Final = "anyport"

_ENDPOINT: Final = re.compile(r"/mcp(?:/(?P<profile>[^/]+)(?:/sse)?)?/?")
_PYTHON: Final = re.compile(r"python(?:3(?:\.\d+)?)?(?:\.exe)?")

Load = Callable[[Sequence[Path]], Config]
"""Reads a configuration; raises ConfigError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What entries are held against."""

    config: Config | None
    """None where the configuration cannot be used."""
    address: Address | None
    """Who is where the gateway listens."""
    files: tuple[Path, ...]
    """Of the configuration."""
    environ: Mapping[str, str]
    load: Load


def judge(found: Sequence[Found], around: Around) -> Section:
    """What is to be said of the files of clients."""
    findings: list[Finding] = []
    pointing: list[str] = []
    for file in found:
        ours = [entry for entry in file.entries if is_ours(entry, around.config)]
        pointing += [file.client.name] if ours else []
        findings += _judge_file(file, ours, around)
    where = ", ".join(dict.fromkeys(pointing))
    if not pointing:
        findings.append(
            hint(
                code="no-entry",
                what="no client that is known here has an entry for this gateway",
                why="nobody uses it yet",
                mend="'anyport serve' says what to tell your client; docs/clients.md has them all",
            )
        )
    summary = f"{where} {'leads' if len(set(pointing)) == 1 else 'lead'} here"
    looked = f"{counted(len(found), 'file')} looked at"
    return Section(
        name=NAME,
        summary=f"{summary}; {looked}" if pointing else f"none leads here; {looked}",
        findings=tuple(findings),
    )


def is_ours(entry: Entry, config: Config | None) -> bool:
    """Whether an entry is meant to lead to this gateway."""
    if entry.command is not None:
        return _own_args(entry) is not None
    if entry.url is None:
        return False
    if config is not None and is_our_address(entry.url, config):
        return True
    return PROGRAM in entry.name.lower() and is_loopback(_host(entry.url))


def _judge_file(file: Found, ours: Sequence[Entry], around: Around) -> Iterator[Finding]:
    client = file.client.name
    if file.fault is not None:
        fault = file.fault
        yield hint(
            code="client-file",
            what=f"{fault.file}:{fault.line}:{fault.column}: {fault.message}",
            why="the client cannot read its servers either",
            mend=fault.hint or f"edit line {fault.line}",
            about=client,
        )
    for entry in ours:
        about = f"{client}: {entry.name}"
        faults = list(_judge_entry(file, entry, around, about))
        yield from faults
        if not faults:
            yield good(code="entry", what=f"it leads here ({entry.place})", about=about)
    yield from _judge_others(file, ours, around)


def _judge_entry(file: Found, entry: Entry, around: Around, about: str) -> Iterator[Finding]:
    if entry.disabled:
        yield hint(
            code="entry-disabled",
            what=f"the entry is switched off ({entry.place})",
            why="the client does not use it",
            mend="switch it on in the client",
            about=about,
        )
    elif entry.command is not None:
        yield from _judge_command(entry, around, about)
    elif entry.url is not None:
        if not file.client.takes_urls:
            yield problem(
                code="entry-url",
                what=f"{file.client.name} takes no url in this file ({entry.place})",
                why="the entry does nothing",
                mend='write "command": "/path/to/anyport", "args": ["stdio"] instead',
                about=about,
            )
            return
        yield from _judge_url(entry, entry.url, around, about)


def _judge_command(entry: Entry, around: Around, about: str) -> Iterator[Finding]:
    command = entry.command or ""
    if shutil.which(command, path=around.environ.get("PATH")) is None:
        yield problem(
            code="entry-command",
            what=f"its command {command} is not found ({entry.place})",
            why="the client cannot start the gateway",
            mend=f"write there what 'command -v {os.path.basename(command)}' prints",
            about=about,
        )
    elif not os.path.isabs(command):
        yield hint(
            code="entry-path",
            what=f"its command {command} is no full path ({entry.place})",
            why="a client that is started from a desktop may not find it",
            mend=f"write there what 'command -v {command}' prints",
            about=about,
        )
    args = _own_args(entry) or ()
    if args[:1] != ("stdio",):
        yield problem(
            code="entry-args",
            what=f"it does not run 'anyport stdio' ({entry.place})",
            why="nothing else speaks to a client that launches a command",
            mend='write "args": ["stdio"], and --config with the full path of your file',
            about=about,
        )
        return
    given = read_plain(args[1:])
    if given is None:
        yield problem(
            code="entry-args",
            what=f"its args have an option that 'anyport stdio' does not know ({entry.place})",
            why="the gateway ends at once",
            mend="anyport stdio --help",
            about=about,
        )
        return
    yield from _judge_given(given, entry, around, about)


def _judge_given(given: Given, entry: Entry, around: Around, about: str) -> Iterator[Finding]:
    config = around.config
    relative = [file for file in given.config if not file.is_absolute()]
    for file in relative:
        yield warning(
            code="entry-config",
            what=f"{CONFIG.name} {file} is no full path ({entry.place})",
            why="clients start commands in a directory of their own",
            mend=f"write {file.absolute()}",
            about=about,
        )
    if relative:
        return  # Nobody knows which file that will be.
    if given.config:
        try:
            config = around.load(given.config)
        except ConfigError as error:
            first = error.faults[0]
            yield problem(
                code="entry-config",
                what=f"{first.file}:{first.line}: {first.message} ({entry.place})",
                why="the gateway of this client does not start",
                mend=f"anyport check {' '.join(f'{CONFIG.name} {each}' for each in given.config)}",
                about=about,
            )
            return
    yield from _judge_profile(given.profile, config, entry, about)


def _judge_profile(
    profile: str | None, config: Config | None, entry: Entry, about: str
) -> Iterator[Finding]:
    if config is None:
        return
    if profile is None:
        if main_profile(config) is None:
            yield problem(
                code="entry-profile",
                what=f"it names no profile, and none is called default ({entry.place})",
                why="nobody can tell which is meant",
                mend=f"name one of {', '.join(config.profiles)}: {PROFILE.name}, or /mcp/NAME",
                about=about,
            )
    elif profile not in config.profiles:
        yield problem(
            code="entry-profile",
            what=f"there is no profile {profile!r} ({entry.place})",
            why="the client is turned away",
            mend=f"name one of {', '.join(config.profiles)}",
            about=about,
        )


def _judge_url(entry: Entry, url: str, around: Around, about: str) -> Iterator[Finding]:
    config = around.config
    if config is None:
        return
    if not is_our_address(url, config):
        yield warning(
            code="entry-address",
            what=f"its url leads to {_shown(url)}, and this gateway listens on "
            f"{config.gateway.listen} ({entry.place})",
            why="the client finds nobody, or somebody else",
            mend=f"write {config.gateway.listen} in its url",
            about=about,
        )
        return
    endpoint = _ENDPOINT.fullmatch(urlsplit(url).path)
    if endpoint is None:
        yield problem(
            code="entry-address",
            what=f"its url is {_shown(url)} ({entry.place})",
            why="clients are served at /mcp only",
            mend=f"write http://{config.gateway.listen}/mcp",
            about=about,
        )
        return
    yield from _judge_profile(endpoint["profile"], config, entry, about)
    if config.gateway.tokens and not entry.authorized:
        yield problem(
            code="entry-token",
            what=f"it sends no token, and this gateway wants one ({entry.place})",
            why="the client is turned away with HTTP 401",
            mend="add the header Authorization to the entry; docs/clients.md has its spelling",
            about=about,
        )
    if around.address is not None and around.address.occupant == "nobody":
        yield hint(
            code="entry-nobody",
            what="nobody listens at its url now",
            why="the client finds nothing until a gateway runs",
            mend="anyport serve",
            about=about,
        )


def _judge_others(file: Found, ours: Sequence[Entry], around: Around) -> Iterator[Finding]:
    """Servers that a client has for itself."""
    if file.file.absolute() in {each.absolute() for each in around.files}:
        return  # It is the configuration of the gateway, too.
    others = [entry for entry in file.entries if entry not in ours and not entry.disabled]
    known = set() if around.config is None else set(_reached(around.config))
    twice = [entry.name for entry in others if (entry.command, entry.args, entry.url) in known]
    if ours and twice:
        yield warning(
            code="twice",
            what=f"in {file.file}, and behind the gateway, too: {some(twice)}",
            why="the client starts them twice, and shows their tools twice",
            mend=f"remove them from {file.file}",
            about=file.client.name,
        )
    single = [entry.name for entry in others if entry.name not in twice or not ours]
    if single:
        yield hint(
            code="could-move",
            what=f"{counted(len(single), 'server')} of its own in {file.file}: {some(single)}",
            why="behind the gateway, every client would have them, and a record of their calls",
            mend=f"try it: anyport tools {CONFIG.name} {file.file}",
            about=file.client.name,
        )


def _reached(config: Config) -> Iterator[tuple[str | None, tuple[str, ...], str | None]]:
    for server in config.servers.values():
        yield server.command, server.args, server.url


def _own_args(entry: Entry) -> tuple[str, ...] | None:
    """What follows our program in a command line; None if it is not our program that is run."""
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


def _shown(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}{parts.path}"
