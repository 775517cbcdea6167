"""What servers offer, as clients get it: names, sizes, and whether it fits the rules of MCP."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from anyport.cli.doctoring.examination import Examined
from anyport.cli.doctoring.finding import Finding, hint, size, some, warning
from anyport.cli.render import counted
from anyport.config.schema import ProfileConfig
from anyport.protocol.method import Kind
from anyport.record.lint import tools as rules
from anyport.record.lint.judging import judge
from anyport.record.lint.model import Depth, Frame, Leg, Severity
from anyport.record.text import printable
from anyport.routing.catalog import Entry
from anyport.routing.names import NAME_MAX, Naming

DESCRIPTION_CHARS_MAX: Final = 2048
"""Claude Code cuts longer descriptions."""

TOOLS_COUNT_MAX: Final = 100
"""Windsurf takes no more, VS Code 128."""

TOOLS_BYTES_MAX: Final = 100 * 1024
"""Some 25,000 tokens in every conversation."""

CLIENT_PREFIX: Final = "mcp__anyport__"
"""What Claude Code and others put before the names of tools, where the entry is called so."""

TOKEN_BYTES: Final = 4
"""About so many bytes of a schema make one token."""


def judge_offers(server: Examined) -> Iterator[Finding]:
    """What there is to say of what one server offers."""
    tools = list(_tools(server))
    yield from _judge_descriptions(server.slug, tools)
    yield from _judge_rules(server, tools)


def judge_profile(profile: ProfileConfig, entries: Sequence[Entry]) -> Iterator[Finding]:
    """What there is to say of all tools that a client of a profile sees."""
    theirs = [entry for entry in entries if entry.slug]
    yield from _judge_names(profile, theirs)
    yield from _judge_clashes(profile, theirs)
    total = sum(len(entry.raw) for entry in entries)
    if total > TOOLS_BYTES_MAX:
        yield hint(
            code="large-list",
            what=f"its tools take {size(total)}, about {total // TOKEN_BYTES:,} tokens",
            why="a client has them in every conversation",
            mend=_shorten(profile),
            about=profile.slug,
        )
    if len(entries) > TOOLS_COUNT_MAX:
        yield hint(
            code="many-tools",
            what=f"it has {len(entries):,} tools",
            why="some clients take 100, others 128",
            mend=_shorten(profile),
            about=profile.slug,
        )


def _shorten(profile: ProfileConfig) -> str:
    return f'under [profiles.{profile.slug}], tools = {{ deny = ["server/tool"] }}'


def _judge_names(profile: ProfileConfig, entries: Iterable[Entry]) -> Iterator[Finding]:
    naming = Naming(prefix=profile.prefix, separator=profile.separator)
    changed, long = [], []
    for entry in entries:
        if entry.public not in (naming.head(entry.slug) + entry.native, entry.native):
            changed.append(f"{entry.slug}/{entry.native}")
        elif len(CLIENT_PREFIX) + len(entry.public) > NAME_MAX:
            long.append(entry.public)
    if changed:
        yield hint(
            code="shortened-names",
            what=f"{counted(len(changed), 'name')} did not fit and got a hash: {some(changed)}",
            why="models see a name that says less",
            mend="give the server a shorter name in mcpServers; 'anyport why NAME' tells more",
            about=profile.slug,
        )
    if long:
        yield hint(
            code="long-names",
            what=f"{counted(len(long), 'name')} with {CLIENT_PREFIX} in front would be longer than "
            f"{NAME_MAX} characters: {some(long)}",
            why="clients that put that there cut or refuse them",
            mend="give the server a shorter name in mcpServers, or call the client's entry gw",
            about=profile.slug,
        )


def _judge_clashes(profile: ProfileConfig, entries: Sequence[Entry]) -> Iterator[Finding]:
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
            what=f"several servers have {some(shown)}; they are told apart by their prefix",
            why="such a name changes when a server comes or goes",
            mend=f'under [profiles.{profile.slug}], prefix = "always"',
            about=profile.slug,
        )


def _tools(server: Examined) -> Iterator[Mapping[str, Any]]:
    listing = server.listings.get(Kind.TOOLS)
    for offer in () if listing is None else listing.offers:
        tool = msgspec.json.decode(offer.raw)
        if isinstance(tool, dict):
            yield tool


def _judge_descriptions(slug: str, tools: Iterable[Mapping[str, Any]]) -> Iterator[Finding]:
    long = [
        printable(str(tool.get("name")))
        for tool in tools
        if isinstance(tool.get("description"), str)
        and len(tool["description"]) > DESCRIPTION_CHARS_MAX
    ]
    if long:
        yield hint(
            code="long-descriptions",
            what=f"{counted(len(long), 'description')} longer than {DESCRIPTION_CHARS_MAX:,} "
            f"characters: {some(long)}",
            why="they fill the context, and some clients cut them there",
            mend="ask the server's author to shorten them, or deny the tools in a profile",
            about=slug,
        )


def _judge_rules(server: Examined, tools: list[Mapping[str, Any]]) -> Iterator[Finding]:
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
    found = judge([leg], rules.RULES).findings
    for rule, broken in groupby(found, key=lambda finding: finding.rule):
        if rule.severity is Severity.NOTE:
            continue
        level = warning if rule.severity is Severity.ERROR else hint
        yield level(
            code=f"lint-{rule.id}",
            what=some(printable(finding.fault.words) for finding in broken),
            why=f"the rule is: {rule.title}",
            mend=f"tell the server's author: {rule.advice}",
            about=server.slug,
        )
