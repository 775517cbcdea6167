"""Starts every server, and checks how it runs and what it offers."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import msgspec

from anyport.catalog.catalog import CatalogEntry
from anyport.catalog.names import NAME_MAX, Naming
from anyport.catalog.offers import Listing
from anyport.cli.connect.client import WAIT_NOTICE_SECONDS
from anyport.cli.connect.local import POLL_SECONDS, is_settled
from anyport.cli.doctor.findings import (
    DoctorFinding,
    Section,
    format_binary_bytes,
    good,
    hint,
    join_some,
    problem,
    skipped_section,
    warning,
)
from anyport.cli.doctor.launchers import find_unpinned
from anyport.cli.exit_codes import notify_user
from anyport.cli.output import pluralize
from anyport.cli.preflight import describe_server_target, server_obstacles
from anyport.config.gateway import LIST_SECONDS_MAX
from anyport.config.model import Config, ProfileConfig, ServerConfig, TelemetryConfig
from anyport.gateway.gateway import Gateway
from anyport.gateway.http_app import start_servers
from anyport.lint.engine import check_legs
from anyport.lint.model import Depth, Frame, Leg, Severity
from anyport.lint.rules import tools as rules
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Revision
from anyport.record.redact.escape import cut, make_printable
from anyport.upstream.server import Server
from anyport.upstream.stdio.transport import StdioTransport
from anyport.upstream.supervisor import ServerState

# Measurement: a gateway with a temporary state directory starts the servers, so that a running
# gateway is not disturbed and no list is known from an earlier run.

EXAMINED_SECONDS_MAX: Final = 30.0
"""A server that a launcher must download first takes about as long."""

STDERR_LINES_MAX: Final = 5
"""Of the end of stderr: the end of a stack trace says what happened."""

NOISE_CHARS_MAX: Final = 120
"""Of the quoted first line on stdout that is not MCP."""

ServerCondition: TypeAlias = Literal["running", "silent", "starting", "failed"]
"""`silent`: it runs, but does not answer list requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedServer:
    """Facts about one server."""

    slug: str
    condition: ServerCondition
    reason: str | None = None
    """Why it does not run."""
    stderr: tuple[str, ...] = ()
    transport: str = "stdio"
    revision: Revision | None = None
    started_seconds: float | None = None
    """Until the handshake was done."""
    listed_seconds: float | None = None
    """Until all lists were read, from the start of the server."""
    listings: Mapping[OfferKind, Listing] = field(default_factory=dict)
    noise_count: int = 0
    noise: str = ""
    """The first line on stdout that is not MCP."""
    warnings: tuple[str, ...] = ()

    def count(self, kind: OfferKind) -> int:
        listing = self.listings.get(kind)
        return 0 if listing is None else len(listing.offers)

    @property
    def tool_bytes(self) -> int:
        """The size of its tool list, which fills the context of a client's model."""
        listing = self.listings.get(OfferKind.TOOLS)
        return 0 if listing is None else sum(len(offer.raw) for offer in listing.offers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Facts about all servers, and the tools that clients would see."""

    servers: Mapping[str, ExaminedServer] = field(default_factory=dict)
    tools: Mapping[str, tuple[CatalogEntry, ...]] = field(default_factory=dict)
    """By profile."""


async def examine(
    config: Config,
    slugs: Collection[str],
    *,
    seconds_max: float = EXAMINED_SECONDS_MAX,
    clock: Callable[[], float] = time.monotonic,
) -> Examination:
    """Start these servers, wait until each has listed what it offers or failed, and stop them."""
    isolated = isolate_servers(config, slugs)
    if not isolated.servers:
        return Examination()
    with TemporaryDirectory(prefix="anyport-doctor-") as folder:
        async with Gateway(isolated, Path(folder), sole=True) as gateway:
            start_servers(gateway)
            times = await _wait_settled(gateway.servers, seconds_max, clock)
            return Examination(
                servers={
                    slug: _make_examined(server, times[slug])
                    for slug, server in gateway.servers.items()
                },
                tools={
                    slug: profile.catalog.entries(OfferKind.TOOLS)
                    for slug, profile in gateway.profiles.items()
                },
            )


def isolate_servers(config: Config, slugs: Collection[str]) -> Config:
    """The configuration with only these servers, started eagerly, without hooks and telemetry."""
    servers = {
        slug: _start_eagerly(config.servers[slug]) for slug in config.servers if slug in slugs
    }
    profiles = {
        slug: _limit_profile(profile, slugs)
        for slug, profile in config.profiles.items()
        if any(server in slugs for server in profile.servers)
    }
    return replace(
        config,
        servers=MappingProxyType(servers),
        profiles=MappingProxyType(profiles),
        hooks=(),
        telemetry=TelemetryConfig(),
        # An anchor is a file outside the state directory.
        record=replace(config.record, capture="off", anchor=None),
    )


def _start_eagerly(server: ServerConfig) -> ServerConfig:
    return replace(server, start="eager", idle_seconds=0.0, capture="off")


def _limit_profile(profile: ProfileConfig, slugs: Collection[str]) -> ProfileConfig:
    servers = tuple(slug for slug in profile.servers if slug in slugs)
    return replace(profile, servers=servers, capture="off")


@dataclass(slots=True)
class _Times:
    started: float | None = None
    listed: float | None = None


async def _wait_settled(
    servers: Mapping[str, Server], seconds_max: float, clock: Callable[[], float]
) -> dict[str, _Times]:
    """Wait until all have settled; the times until ready and until listed."""
    started_at = clock()
    notified = False
    times = {slug: _Times() for slug in servers}
    while True:
        waited = clock() - started_at
        for slug, server in servers.items():
            server_times = times[slug]
            if server_times.started is None and server.state is ServerState.READY:
                server_times.started = waited
            if server_times.listed is None and server.lists_ready:
                server_times.listed = waited
        waiting = [slug for slug, server in servers.items() if not _is_decided(server)]
        if not waiting or waited > seconds_max:
            return times
        if waited > WAIT_NOTICE_SECONDS and not notified:
            notified = True
            notify_user(f"waiting for {', '.join(waiting)}, {seconds_max:g} s at most")
        await asyncio.sleep(POLL_SECONDS)


def _make_examined(server: Server, times: _Times) -> ExaminedServer:
    connection = None if server.main is None else server.main.current_connection
    warnings = [server.warning, *(listing.warning for listing in server.listings.values())]
    return ExaminedServer(
        slug=server.slug,
        condition=_condition(server),
        reason=server.reason or server.last_error,
        stderr=_stderr_tail(server),
        transport=server.transport,
        revision=None if server.peer is None else server.peer.revision,
        started_seconds=times.started,
        listed_seconds=times.listed,
        listings=dict(server.listings),
        noise_count=0 if connection is None else connection.noise_count,
        noise="" if connection is None else _noise_text(connection.first_noise),
        warnings=tuple(warning for warning in warnings if warning is not None),
    )


def _is_decided(server: Server) -> bool:
    """Whether a server is settled or has failed once; the gateway would retry without end."""
    return is_settled(server) or (
        server.state is not ServerState.READY and server.last_error is not None
    )


def _condition(server: Server) -> ServerCondition:
    if server.state is ServerState.READY:
        return "running" if server.lists_ready else "silent"
    undecided = server.state is ServerState.STARTING and server.last_error is None
    return "starting" if undecided else "failed"


def _stderr_tail(server: Server) -> tuple[str, ...]:
    transport = None if server.main is None else server.main.transport
    if not isinstance(transport, StdioTransport):
        return ()
    # A server that crashes on the first request is started again, and prints the same again.
    return tuple(dict.fromkeys(transport.stderr.lines()))[-STDERR_LINES_MAX:]


def _noise_text(raw: bytes) -> str:
    return cut(make_printable(raw.decode("utf-8", "replace")), NOISE_CHARS_MAX)


# Checks of what servers offer: names, sizes, and the rules of MCP.

DESCRIPTION_CHARS_MAX: Final = 2048
"""Claude Code cuts longer descriptions."""

TOOLS_COUNT_MAX: Final = 100
"""The limit of Windsurf; that of VS Code is 128."""

TOOLS_BYTES_MAX: Final = 100 * 1024
"""Some 25,000 tokens in every conversation."""

CLIENT_PREFIX: Final = "mcp__anyport__"
"""The prefix of Claude Code and others for an entry named `anyport`."""

TOKEN_BYTES: Final = 4
"""Roughly, for JSON schemas."""


def check_offers(server: ExaminedServer) -> Iterator[DoctorFinding]:
    """Findings on the tools of one server."""
    tools = list(_tools(server))
    yield from _check_descriptions(server.slug, tools)
    yield from _check_rules(server, tools)


def check_profile(
    profile: ProfileConfig, entries: Sequence[CatalogEntry]
) -> Iterator[DoctorFinding]:
    """Findings on all tools that clients of a profile see."""
    server_entries = [entry for entry in entries if entry.slug]
    yield from _check_names(profile, server_entries)
    yield from _check_clashes(profile, server_entries)
    total = sum(len(entry.raw) for entry in entries)
    if total > TOOLS_BYTES_MAX:
        yield hint(
            code="large-list",
            what=f"its tools take {format_binary_bytes(total)}, "
            f"about {total // TOKEN_BYTES:,} tokens",
            why="clients add them to every conversation",
            fix=_shorten(profile),
            about=profile.slug,
        )
    if len(entries) > TOOLS_COUNT_MAX:
        yield hint(
            code="many-tools",
            what=f"it has {len(entries):,} tools",
            why="some clients accept only 100, others 128",
            fix=_shorten(profile),
            about=profile.slug,
        )


def _shorten(profile: ProfileConfig) -> str:
    return f'under [profiles.{profile.slug}], tools = {{ deny = ["server/tool"] }}'


def _check_names(
    profile: ProfileConfig, entries: Iterable[CatalogEntry]
) -> Iterator[DoctorFinding]:
    naming = Naming(prefix=profile.prefix, separator=profile.separator)
    changed, long = [], []
    for entry in entries:
        if entry.public not in (naming.prefix_of(entry.slug) + entry.native, entry.native):
            changed.append(f"{entry.slug}/{entry.native}")
        elif len(CLIENT_PREFIX) + len(entry.public) > NAME_MAX:
            long.append(entry.public)
    if changed:
        yield hint(
            code="shortened-names",
            what=f"{pluralize(len(changed), 'name')} did not fit and were shortened with a hash: "
            f"{join_some(changed)}",
            why="models see a less meaningful name",
            fix="give the server a shorter name in mcpServers; see 'anyport why NAME'",
            about=profile.slug,
        )
    if long:
        yield hint(
            code="long-names",
            what=f"{pluralize(len(long), 'name')} exceed {NAME_MAX} characters with the prefix "
            f"{CLIENT_PREFIX}: {join_some(long)}",
            why="clients that add this prefix cut or refuse such names",
            fix="give the server a shorter name in mcpServers, or rename the client's entry to gw",
            about=profile.slug,
        )


def _check_clashes(
    profile: ProfileConfig, entries: Sequence[CatalogEntry]
) -> Iterator[DoctorFinding]:
    if profile.prefix == "always":
        return
    counts = Counter(entry.native for entry in entries)
    clashing = [native for native, count in counts.items() if count > 1]
    if clashing:
        owners = {
            native: [entry.slug for entry in entries if entry.native == native]
            for native in clashing
        }
        shown = (f"{native} ({', '.join(slugs)})" for native, slugs in owners.items())
        yield warning(
            code="clashing-names",
            what=f"several servers have {join_some(shown)}; they get a prefix",
            why="such a name changes when a server is added or removed",
            fix=f'under [profiles.{profile.slug}], prefix = "always"',
            about=profile.slug,
        )


def _tools(server: ExaminedServer) -> Iterator[Mapping[str, Any]]:
    listing = server.listings.get(OfferKind.TOOLS)
    for offer in () if listing is None else listing.offers:
        tool = msgspec.json.decode(offer.raw)
        if isinstance(tool, dict):
            yield tool


def _check_descriptions(slug: str, tools: Iterable[Mapping[str, Any]]) -> Iterator[DoctorFinding]:
    long = [
        make_printable(str(tool.get("name")))
        for tool in tools
        if isinstance(tool.get("description"), str)
        and len(tool["description"]) > DESCRIPTION_CHARS_MAX
    ]
    if long:
        yield hint(
            code="long-descriptions",
            what=f"{pluralize(len(long), 'description')} longer than {DESCRIPTION_CHARS_MAX:,} "
            f"characters: {join_some(long)}",
            why="they fill the context, and some clients cut them",
            fix="ask the author of the server to shorten them, or deny the tools in a profile",
            about=slug,
        )


def _check_rules(server: ExaminedServer, tools: list[Mapping[str, Any]]) -> Iterator[DoctorFinding]:
    leg = Leg(
        id=server.slug,
        side="server",
        depth=Depth.FULL,
        method="tools/list",
        revision=server.revision,
        request=Frame(kind="request", method="tools/list", payload={}),
        answer=Frame(kind="response", payload={"tools": tools}),
        server=server.slug,
    )
    findings = check_legs([leg], rules.RULES).findings
    for rule, group in groupby(findings, key=lambda finding: finding.rule):
        if rule.severity is Severity.NOTE:
            continue
        level = warning if rule.severity is Severity.ERROR else hint
        yield level(
            code=f"lint-{rule.id}",
            what=join_some(make_printable(finding.fault.message) for finding in group),
            why=f"this violates a rule: {rule.title}",
            fix=f"report it to the author of the server: {rule.advice}",
            about=server.slug,
        )


NAME: Final = "servers"

STDERR_SEPARATOR: Final = "; last line on stderr: "
"""Of the last line in a reason; all lines are shown here instead."""


def check_servers(
    config: Config | None,
    chosen: Collection[str],
    examination: Examination,
    environ: Mapping[str, str],
) -> Section:
    """The findings on the chosen servers."""
    if config is None:
        return skipped_section(NAME)
    findings = [
        finding
        for slug, server in config.servers.items()
        if slug in chosen
        for finding in _check_server(server, examination.servers.get(slug), config, environ)
    ]
    for slug, entries in examination.tools.items():
        findings += check_profile(config.profiles[slug], entries)
    return Section(
        name=NAME, summary=_summary(config, chosen, examination), findings=tuple(findings)
    )


def _summary(config: Config, chosen: Collection[str], examination: Examination) -> str:
    enabled = [slug for slug in chosen if not config.servers[slug].disabled]
    examined = examination.servers.values()
    running = sum(server.condition == "running" for server in examined)
    tools = sum(server.count(OfferKind.TOOLS) for server in examined)
    bytes_used = sum(server.tool_bytes for server in examined)
    if not enabled:
        return "none to start"
    start = "starts" if len(enabled) == 1 else "start"
    how_many = f"{running} of {len(enabled)} {start}"
    if not tools:
        return how_many
    tokens = bytes_used // TOKEN_BYTES
    size = f"{pluralize(tools, 'tool')}, {format_binary_bytes(bytes_used)}"
    return f"{how_many}; {size}, about {tokens:,} tokens"


def _check_server(
    server: ServerConfig,
    examined: ExaminedServer | None,
    config: Config,
    environ: Mapping[str, str],
) -> Iterator[DoctorFinding]:
    if server.disabled:
        yield good(code="disabled", what="disabled", about=server.slug)
        return
    yield from _check_pin(server)
    if examined is None:
        what = "not started: see the configuration"
        yield good(code="not-examined", what=what, about=server.slug)
        return
    match examined.condition:
        case "running":
            yield good(code="server", what=_describe_running(examined), about=server.slug)
        case "silent":
            yield problem(
                code="no-list",
                what=f"it runs, but has not listed what it offers in {EXAMINED_SECONDS_MAX:g} s",
                why="clients do not see its tools",
                fix=_manual_check(server),
                about=server.slug,
                lines=examined.stderr,
            )
        case "starting":
            yield problem(
                code="no-start",
                what=f"it has not started in {EXAMINED_SECONDS_MAX:g} s",
                why="clients do not see its tools",
                fix=_manual_check(server),
                about=server.slug,
                lines=examined.stderr,
            )
        case "failed":
            yield _check_failure(server, examined, environ)
    yield from _check_speed(examined, config)
    yield from _check_output(server, examined)
    yield from check_offers(examined)


def _describe_running(examined: ExaminedServer) -> str:
    revision = examined.revision
    spoken = "" if revision is None else f"{revision.era.value} {revision.name} over "
    parts = [
        f"{pluralize(examined.count(OfferKind.TOOLS), 'tool')} "
        f"({format_binary_bytes(examined.tool_bytes)})",
        pluralize(examined.count(OfferKind.RESOURCES), "resource"),
        pluralize(examined.count(OfferKind.TEMPLATES), "template"),
        pluralize(examined.count(OfferKind.PROMPTS), "prompt"),
    ]
    return (
        f"{spoken}{examined.transport}; started in {examined.started_seconds or 0:.2f} s, listed "
        f"after {examined.listed_seconds or 0:.2f} s: {', '.join(parts)}"
    )


def _check_failure(
    server: ServerConfig, examined: ExaminedServer, environ: Mapping[str, str]
) -> DoctorFinding:
    reason = examined.reason or "the reason is not known"
    if examined.stderr:
        reason = reason.partition(STDERR_SEPARATOR)[0]
    obstacle = next(iter(server_obstacles(server, environ)), None)
    what = f"it does not start: {reason}"
    if obstacle is not None:
        fault, _, fix = obstacle.partition("; ")
        what = f"it does not start: {fault}"
    return problem(
        code="no-start",
        what=what,
        why="clients do not see its tools",
        fix=fix if obstacle is not None and fix else _manual_check(server),
        about=server.slug,
        lines=examined.stderr,
    )


def _manual_check(server: ServerConfig) -> str:
    """How to try the server by hand."""
    if server.url is None:
        return f"run it by hand to see its output: {describe_server_target(server)}"
    return f"check the response: curl -i {describe_server_target(server)}"


def _check_pin(server: ServerConfig) -> Iterator[DoctorFinding]:
    unpinned = None if server.command is None else find_unpinned(server.command, server.args)
    if unpinned is not None:
        yield warning(
            code="unpinned",
            what=f"{unpinned.launcher} runs the newest {unpinned.package} at every start",
            why="a new version, perhaps of another author, runs with your secrets",
            fix=f"use {unpinned.pinned} in its args; '{unpinned.newest}' prints the version",
            about=server.slug,
        )


def _check_speed(examined: ExaminedServer, config: Config) -> Iterator[DoctorFinding]:
    waited, allowed = examined.listed_seconds, config.gateway.list_seconds
    if waited is None or waited <= allowed:
        return
    enough = min(float(int(waited) + 2), LIST_SECONDS_MAX)
    lazy = config.servers[examined.slug].start == "first-use"
    fix = f"under [gateway], listSeconds = {enough:g}"
    yield hint(
        code="slow-start",
        what=f"it listed its tools after {waited:.1f} s; clients wait {allowed:g} s for a list",
        why="the first list lacks them, unless they are cached from an earlier run",
        fix=f'{fix}, or start = "eager" for it' if lazy else fix,
        about=examined.slug,
    )


def _check_output(server: ServerConfig, examined: ExaminedServer) -> Iterator[DoctorFinding]:
    if examined.noise_count:
        yield warning(
            code="noise",
            what=f"it wrote {pluralize(examined.noise_count, 'line')} to stdout that "
            f"{'is' if examined.noise_count == 1 else 'are'} not MCP",
            why="strict clients stop using such a server",
            fix="make it log to stderr; many servers have an option or a variable for less output",
            about=server.slug,
            lines=(examined.noise,) if examined.noise else (),
        )
    for text in examined.warnings:
        yield warning(
            code="list",
            what=text,
            why="clients do not see everything that it offers",
            fix="report it to the author of the server; for the rest, run "
            f"'anyport tools --server {server.slug}'",
            about=server.slug,
        )


def measurements(examined: ExaminedServer) -> dict[str, Any]:
    """The facts about a server for `--json`."""
    revision = examined.revision
    return {
        "condition": examined.condition,
        "transport": examined.transport,
        "era": None if revision is None else revision.era.value,
        "revision": None if revision is None else revision.name,
        "started_s": _round_seconds(examined.started_seconds),
        "listed_s": _round_seconds(examined.listed_seconds),
        "tools": examined.count(OfferKind.TOOLS),
        "resources": examined.count(OfferKind.RESOURCES),
        "resource_templates": examined.count(OfferKind.TEMPLATES),
        "prompts": examined.count(OfferKind.PROMPTS),
        "tool_bytes": examined.tool_bytes,
        "noise_lines": examined.noise_count,
    }


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
