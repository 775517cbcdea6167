"""Selects what to replay: recorded exchanges, an export, or files with requests.

Recorded exchanges are grouped into conversations that can be held again: on the client's side by
session, on the server's side since its last handshake.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeAlias

from anyport.cli.connect.traffic import (
    FilterQuery,
    is_export,
    names_missing_file,
    open_traffic,
    read_export,
)
from anyport.cli.exit_codes import CommandFailed, WrongUsage
from anyport.cli.options import SharedOptions
from anyport.cli.replay.cases import (
    CLIENT,
    SERVER,
    ClientOpening,
    ReplayCase,
    ReplayConversation,
    Unplayable,
    cases_of,
    make_unplayable,
    opening_of,
    read_opening,
    revision_of,
    select_exchanges,
)
from anyport.record.fixtures import BadFixture, Fixture, read_fixtures
from anyport.record.traffic import Detail, Row

EXCHANGES_MAX: Final = 1000
"""Replayed at once; more would be a load test."""

_ID: Final = re.compile(r"[0-9a-f]{4,32}")

HANDSHAKES_MAX: Final = 10
"""Searched for the last valid one of a conversation."""

HandshakeFinder: TypeAlias = Callable[[str, str], list[Detail]]
"""Takes a filter and a time; the last recorded handshakes before it, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySelection:
    """Exchanges or fixtures to replay."""

    exchanges: Sequence[Detail] = ()
    handshakes: HandshakeFinder = lambda _, __: []
    fixtures: Sequence[Fixture] = ()


def select(options: SharedOptions, words: tuple[str, ...]) -> ReplaySelection:
    """The selection that the words of the command line describe.

    Raises:
        WrongUsage: the words are missing, or cannot be combined.
        CommandFailed: nothing or too much is selected, or it cannot be read.
    """
    if not words:
        raise WrongUsage("nothing to replay: pass an id, a filter, an export or request files")
    paths = [Path(word) for word in words if Path(word).exists()]
    for word in filter(names_missing_file, words):
        raise WrongUsage(f"file not found: {word}")
    if paths and len(paths) < len(words):
        raise WrongUsage(f"'{paths[0]}' is a file and cannot be combined with a filter")
    selection = _select_from_files(paths) if paths else _select_from_record(options, words)
    if len(selection.exchanges) > EXCHANGES_MAX:
        count = len(selection.exchanges)
        raise CommandFailed(f"{count} exchanges match; at most {EXCHANGES_MAX} are replayed")
    if not selection.exchanges and not selection.fixtures:
        raise CommandFailed("no recorded exchange matches")
    return selection


def _select_from_record(options: SharedOptions, words: tuple[str, ...]) -> ReplaySelection:
    # `--url` is where to send requests; the record is on this machine.
    local_options = replace(options, url=None)

    with open_traffic(local_options) as source:
        if len(words) == 1 and _ID.fullmatch(words[0]):
            exchanges = select_exchanges(source.details(words[0]))
        else:
            exchanges = select_exchanges(source.all_details(FilterQuery(words)))

    def handshakes(text: str, until: str) -> list[Detail]:
        query = FilterQuery((text, "method:initialize", f"until:{until}"))
        with open_traffic(local_options) as source:
            rows = source.newest(query, HANDSHAKES_MAX)
            return [detail for row in rows if row.id for detail in source.details(row.id)]

    return ReplaySelection(exchanges=exchanges, handshakes=handshakes)


def _select_from_files(paths: Sequence[Path]) -> ReplaySelection:
    exports = [path for path in paths if path.is_file() and is_export(path)]
    if not exports:
        try:
            fixtures = [fixture for path in paths for fixture in read_fixtures(path)]
        except BadFixture as error:
            raise WrongUsage(str(error)) from None
        return ReplaySelection(fixtures=fixtures)
    if len(exports) < len(paths):
        raise WrongUsage("an export and files with requests cannot be combined")
    exchanges = select_exchanges(detail for path in exports for detail in read_export(path))
    initializations = [detail for detail in exchanges if detail.row.method == "initialize"]

    def handshakes(text: str, until: str) -> list[Detail]:
        key, _, value = text.partition(":")
        return [
            each
            for each in initializations
            if value == (each.row.client.session if key == "session" else each.row.server)
            and each.row.timestamp <= until
        ]

    return ReplaySelection(exchanges=exchanges, handshakes=handshakes)


# Conversations. A modern request, which has its revision in `_meta`, belongs to no session.


@dataclass(slots=True)
class _ConversationDraft:
    """A conversation under construction."""

    row: Row
    """The first exchange."""
    cases: list[ReplayCase] = field(default_factory=list)


def conversations_of(
    selection: ReplaySelection, side: str
) -> tuple[list[ReplayConversation], list[Unplayable]]:
    """The conversations to hold again, and the exchanges that cannot be replayed."""
    drafts: list[_ConversationDraft] = []
    latest: dict[tuple[str, bool], _ConversationDraft] = {}
    capabilities: dict[str | None, set[bytes]] = {}
    unplayable: list[Unplayable] = []
    for detail in selection.exchanges:
        cases = cases_of(detail, side)
        if isinstance(cases, list) and side == SERVER:
            cases = _check_connection(
                detail.row, cases, capabilities.setdefault(detail.row.server, set())
            )
        if isinstance(cases, Unplayable):
            unplayable.append(cases)
            continue
        row = detail.row
        owner = row.client.session if side == CLIENT else row.server
        key = (owner or "", revision_of(cases[0]) is not None)
        is_handshake = side == SERVER and row.method == "initialize"
        if key not in latest or (is_handshake and latest[key].cases):
            latest[key] = _ConversationDraft(row)
            drafts.append(latest[key])
        latest[key].cases += cases
    return [_make_conversation(draft, side, selection.handshakes) for draft in drafts], unplayable


def _check_connection(
    row: Row, cases: list[ReplayCase], capabilities: set[bytes]
) -> list[ReplayCase] | Unplayable:
    """Leave out the gateway's own requests if there were connections with other capabilities.

    A server may answer by the capabilities of the connection, which is not recorded.
    """
    if row.method == "initialize":
        capabilities.add(read_opening(cases[0].params).capabilities)
    elif row.profile is None and len(capabilities) > 1 and revision_of(cases[0]) is None:
        reason = "the gateway had several connections; which one this used is not recorded"
        return make_unplayable(row, SERVER, reason)
    return cases


def _make_conversation(
    draft: _ConversationDraft, side: str, handshakes: HandshakeFinder
) -> ReplayConversation:
    row, cases = draft.row, draft.cases
    revision = row.client.revision if side == CLIENT else row.upstream.revision
    opening = opening_of(cases, revision)
    has_handshake = any(case.method == "initialize" for case in cases)
    if not has_handshake and revision_of(cases[0]) is None:
        opening = _recorded_opening(row, side, handshakes) or opening
    return ReplayConversation(server=row.server or "", opening=opening, cases=cases)


def _recorded_opening(row: Row, side: str, handshakes: HandshakeFinder) -> ClientOpening | None:
    """The recorded `initialize` of the conversation of an exchange."""
    owner = row.client.session if side == CLIENT else row.server
    if owner is None:
        return None
    filter_text = f"session:{owner}" if side == CLIENT else f"server:{owner}"
    for detail in reversed(handshakes(filter_text, row.timestamp)):
        cases = cases_of(detail, side)
        if isinstance(cases, list):
            return read_opening(cases[0].params)
    return None
