"""Recorded exchanges put together into conversations that can be held again.

On the client's side those of one session belong together; on the server's side, those since its
last handshake. A request that says its revision itself belongs to no session.
"""

from dataclasses import dataclass, field

from anyport.cli.replaying.case import Case, Opening, Part, opening_of, read_opening, revision_of
from anyport.cli.replaying.recording import CLIENT, SERVER, Unplayable, cases_of, unplayable
from anyport.cli.replaying.selection import Handshakes, Selection
from anyport.record.row import Row


@dataclass(slots=True)
class _Draft:
    """A conversation while it is put together."""

    row: Row
    """Of its first exchange."""
    cases: list[Case] = field(default_factory=list)


def parts_of(selection: Selection, side: str) -> tuple[list[Part], list[Unplayable]]:
    """The conversations in which all this can be said again, and what cannot be."""
    drafts: list[_Draft] = []
    latest: dict[tuple[str, bool], _Draft] = {}
    declared: dict[str | None, set[bytes]] = {}
    left_out: list[Unplayable] = []
    for detail in selection.exchanges:
        found = cases_of(detail, side)
        if isinstance(found, list) and side == SERVER:
            found = _doubted(detail.row, found, declared.setdefault(detail.row.server, set()))
        if isinstance(found, Unplayable):
            left_out.append(found)
            continue
        row = detail.row
        whose = row.client.session if side == CLIENT else row.server
        key = (whose or "", revision_of(found[0]) is not None)
        begins = side == SERVER and row.method == "initialize"
        if key not in latest or (begins and latest[key].cases):
            latest[key] = _Draft(row)
            drafts.append(latest[key])
        latest[key].cases += found
    return [_part(draft, side, selection.handshakes) for draft in drafts], left_out


def _doubted(row: Row, cases: list[Case], declared: set[bytes]) -> list[Case] | Unplayable:
    """What the gateway asked for itself is not sent again where nobody knows on which connection.

    A server may tell one of them more than another, by what was declared on it.
    """
    if row.method == "initialize":
        declared.add(read_opening(cases[0].params).capabilities)
    elif row.profile is None and len(declared) > 1 and revision_of(cases[0]) is None:
        words = "the gateway had several connections; which one this was on is not recorded"
        return unplayable(row, SERVER, words)
    return cases


def _part(draft: _Draft, side: str, handshakes: Handshakes) -> Part:
    row, cases = draft.row, draft.cases
    revision = row.client.revision if side == CLIENT else row.upstream.revision
    opening = opening_of(cases, revision)
    greeted = any(case.method == "initialize" for case in cases)
    if not greeted and revision_of(cases[0]) is None:
        opening = _recorded_opening(row, side, handshakes) or opening
    return Part(server=row.server or "", opening=opening, cases=cases)


def _recorded_opening(row: Row, side: str, handshakes: Handshakes) -> Opening | None:
    """How the conversation was opened in which something was said, if that was recorded."""
    whose = row.client.session if side == CLIENT else row.server
    if whose is None:
        return None
    asked = f"session:{whose}" if side == CLIENT else f"server:{whose}"
    for detail in reversed(handshakes(asked, row.timestamp)):
        found = cases_of(detail, side)
        if isinstance(found, list):
            return read_opening(found[0].params)
    return None
