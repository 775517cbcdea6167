"""What became of the servers when they were started, in words, and what to do about it."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from anyport.cli.check import obstacles, reached_by
from anyport.cli.doctoring.examination import EXAMINED_SECONDS_MAX, Examination, Examined
from anyport.cli.doctoring.finding import (
    Finding,
    Section,
    good,
    hint,
    passed_over,
    problem,
    size,
    warning,
)
from anyport.cli.doctoring.launchers import unpinned
from anyport.cli.doctoring.offers import TOKEN_BYTES, judge_offers, judge_profile
from anyport.cli.render import counted
from anyport.config.schema import Config, ServerConfig
from anyport.config.sections import LIST_SECONDS_MAX
from anyport.protocol.method import Kind

NAME: Final = "servers"

LAST_WORDS: Final = "; its last words on stderr: "
"""How a reason goes on where the server wrote something."""


def judge(
    config: Config | None,
    chosen: Collection[str],
    examination: Examination,
    environ: Mapping[str, str],
) -> Section:
    """What is to be said of the servers that were asked for."""
    if config is None:
        return passed_over(NAME)
    findings = [
        finding
        for slug, server in config.servers.items()
        if slug in chosen
        for finding in _judge_server(server, examination.servers.get(slug), config, environ)
    ]
    for slug, entries in examination.tools.items():
        findings += judge_profile(config.profiles[slug], entries)
    return Section(
        name=NAME, summary=_summary(config, chosen, examination), findings=tuple(findings)
    )


def _summary(config: Config, chosen: Collection[str], examination: Examination) -> str:
    wanted = [slug for slug in chosen if not config.servers[slug].disabled]
    examined = examination.servers.values()
    running = sum(server.condition == "running" for server in examined)
    tools = sum(server.count(Kind.TOOLS) for server in examined)
    taken = sum(server.tool_bytes for server in examined)
    if not wanted:
        return "none to start"
    start = "starts" if len(wanted) == 1 else "start"
    how_many = f"{running} of {len(wanted)} {start}"
    if not tools:
        return how_many
    tokens = taken // TOKEN_BYTES
    return f"{how_many}; {counted(tools, 'tool')}, {size(taken)}, about {tokens:,} tokens"


def _judge_server(
    server: ServerConfig, examined: Examined | None, config: Config, environ: Mapping[str, str]
) -> Iterator[Finding]:
    if server.disabled:
        yield good(code="disabled", what="it is disabled", about=server.slug)
        return
    yield from _judge_pin(server)
    if examined is None:
        what = "it was not started: see the configuration"
        yield good(code="not-examined", what=what, about=server.slug)
        return
    match examined.condition:
        case "running":
            yield good(code="server", what=_told(examined), about=server.slug)
        case "silent":
            yield problem(
                code="no-list",
                what=f"it runs, and has not told what it offers in {EXAMINED_SECONDS_MAX:g} s",
                why="clients see none of its tools",
                mend=_by_hand(server),
                about=server.slug,
                lines=examined.stderr,
            )
        case "starting":
            yield problem(
                code="no-start",
                what=f"it has not started in {EXAMINED_SECONDS_MAX:g} s",
                why="clients see none of its tools until it has",
                mend=_by_hand(server),
                about=server.slug,
                lines=examined.stderr,
            )
        case "failed":
            yield _judge_failure(server, examined, environ)
    yield from _judge_speed(examined, config)
    yield from _judge_manners(server, examined)
    yield from judge_offers(examined)


def _told(examined: Examined) -> str:
    revision = examined.revision
    spoken = "" if revision is None else f"{revision.era.value} {revision.name} over "
    parts = [
        f"{counted(examined.count(Kind.TOOLS), 'tool')} ({size(examined.tool_bytes)})",
        counted(examined.count(Kind.RESOURCES), "resource"),
        counted(examined.count(Kind.TEMPLATES), "template"),
        counted(examined.count(Kind.PROMPTS), "prompt"),
    ]
    return (
        f"{spoken}{examined.transport}; started in {examined.started_seconds or 0:.2f} s, listed "
        f"after {examined.listed_seconds or 0:.2f} s: {', '.join(parts)}"
    )


def _judge_failure(server: ServerConfig, examined: Examined, environ: Mapping[str, str]) -> Finding:
    reason = examined.reason or "no reason is known"
    if examined.stderr:
        reason = reason.partition(LAST_WORDS)[0]
    told = next(iter(obstacles(server, environ)), None)
    what = f"it does not start: {reason}"
    if told is not None:
        fault, _, mend = told.partition("; ")
        what = f"it does not start: {fault}"
    return problem(
        code="no-start",
        what=what,
        why="clients see none of its tools",
        mend=mend if told is not None and mend else _by_hand(server),
        about=server.slug,
        lines=examined.stderr,
    )


def _by_hand(server: ServerConfig) -> str:
    """How a person sees for themselves."""
    if server.url is None:
        return f"see what it says when it is run by hand: {reached_by(server)}"
    return f"see what answers there: curl -i {reached_by(server)}"


def _judge_pin(server: ServerConfig) -> Iterator[Finding]:
    found = None if server.command is None else unpinned(server.command, server.args)
    if found is not None:
        yield warning(
            code="unpinned",
            what=f"{found.launcher} runs whatever {found.package} is that day",
            why="another version, or another author, gets your secrets unasked",
            mend=f"write {found.pinned} in its args; '{found.newest}' tells the version",
            about=server.slug,
        )


def _judge_speed(examined: Examined, config: Config) -> Iterator[Finding]:
    waited, allowed = examined.listed_seconds, config.gateway.list_seconds
    if waited is None or waited <= allowed:
        return
    enough = min(float(int(waited) + 2), LIST_SECONDS_MAX)
    lazy = config.servers[examined.slug].start == "first-use"
    mend = f"under [gateway], listSeconds = {enough:g}"
    yield hint(
        code="slow-start",
        what=f"its tools came after {waited:.1f} s; clients wait {allowed:g} s for a list",
        why="the first list lacks them, unless they are known from an earlier run",
        mend=f'{mend}, or start = "eager" for it' if lazy else mend,
        about=examined.slug,
    )


def _judge_manners(server: ServerConfig, examined: Examined) -> Iterator[Finding]:
    if examined.noise_count:
        yield warning(
            code="noise",
            what=f"it wrote {counted(examined.noise_count, 'line')} to stdout that "
            f"{'is' if examined.noise_count == 1 else 'are'} not MCP",
            why="strict clients give up on such a server",
            mend="have it write that to stderr; many have an option, or a variable, to be quiet",
            about=server.slug,
            lines=(examined.noise,) if examined.noise else (),
        )
    for words in examined.warnings:
        yield warning(
            code="list",
            what=words,
            why="clients do not see all that it has",
            mend=f"tell the server's author; 'anyport tools --server {server.slug}' lists the rest",
            about=server.slug,
        )


def measured(examined: Examined) -> dict[str, Any]:
    """What was measured, for programs."""
    revision = examined.revision
    return {
        "condition": examined.condition,
        "transport": examined.transport,
        "era": None if revision is None else revision.era.value,
        "revision": None if revision is None else revision.name,
        "started_s": _rounded(examined.started_seconds),
        "listed_s": _rounded(examined.listed_seconds),
        "tools": examined.count(Kind.TOOLS),
        "resources": examined.count(Kind.RESOURCES),
        "resource_templates": examined.count(Kind.TEMPLATES),
        "prompts": examined.count(Kind.PROMPTS),
        "tool_bytes": examined.tool_bytes,
        "noise_lines": examined.noise_count,
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
