"""Rows of the traffic for people: one line each."""

from datetime import UTC, datetime, tzinfo
from typing import Final

from anyport.cli.render import GAP, cell, milliseconds
from anyport.cli.results import size
from anyport.record.row import EXCHANGE, Row
from anyport.record.text import cut

TITLES: Final = ("TIME", "CLIENT → SERVER", "METHOD", "TARGET", "OUTCOME", "TOOK", "OF WHICH",
                 "SIZES", "ID", "MESSAGE")  # fmt: skip
WHOLE: Final = ("TIME", "OUTCOME", "TOOK", "OF WHICH", "SIZES", "ID")

TYPICAL: Final = (
    "07-28 12:00:00.250",
    "a-client → a-server",
    "notifications/progress",
    "a-tool-of-a-server",
    "server-notification",
    "100.0 ms",
    "g 0.2 q 0.0 s 99.8",
    "100 B → 1.0 kB",
    "4bf92f35",
)
"""What a row of one who follows has room for: the rows that will come are not known yet."""

BRIEF: Final = ("TIME", "CLIENT → SERVER", "METHOD TARGET", "OUTCOME", "TOOK", "ID", "MESSAGE")
"""What is shown where there is no room for all: `anyport show` tells the rest."""
CLOCK: Final = slice(len("07-28 "), len("07-28 12:00:00"))
"""Of a time, what tells rows apart that are looked at together."""
BRIEF_WHOLE: Final = ("TIME", "OUTCOME", "TOOK", "ID")
BRIEF_CHARS_MIN: Final = 8
"""Of a name in a terminal that is too narrow even for that."""

SHORT_ID_CHARS: Final = 8
"""Of an id: enough to tell it from its neighbours, and `anyport show` takes it."""

YEAR_CHARS: Final = len("2026-")
"""Left out: lines are narrow, and people ask about yesterday."""

NOBODY: Final = "-"
ARROW: Final = " → "


def cells(row: Row, zone: tzinfo | None = None) -> tuple[str, ...]:
    """A row as the cells of a table. Times are those of the zone, else the machine's."""
    return tuple(
        cell(text)
        for text in (
            moment(row, zone)[YEAR_CHARS:],
            way(row),
            row.method or "",
            row.target or "",
            outcome(row),
            milliseconds(row.timings.total_ms),
            split(row),
            sizes(row),
            (row.id or "")[:SHORT_ID_CHARS],
            message(row),
        )
    )


def brief(cells: tuple[str, ...]) -> tuple[str, ...]:
    """The cells that a narrow terminal has room for."""
    of = dict(zip(TITLES, cells, strict=True))
    asked = f"{of['METHOD']} {of['TARGET']}".strip()
    ended = (of["OUTCOME"], of["TOOK"], of["ID"], of["MESSAGE"])
    return (of["TIME"][CLOCK], of["CLIENT → SERVER"], asked, *ended)


def brief_typical(width: int) -> tuple[str, ...]:
    """What a brief row of one who follows has room for, but for its message."""
    clock, *ended = "12:00:00", "server_error", "100.0 ms", "4bf92f35"
    room = width - len(GAP.join((clock, "", "", *ended)))
    names = max(BRIEF_CHARS_MIN, room * 9 // 20)
    return (clock, "-" * names, "-" * max(BRIEF_CHARS_MIN, room - names), *ended)


def shortened(way: str, chars_max: int) -> str:
    """Who asked whom, with something of either name."""
    asking, arrow, asked = way.partition(ARROW)
    room = max(2, chars_max - len(arrow))
    first = max(room - len(asked), room // 2)
    return cut(
        f"{cut(asking, first)}{arrow}{cut(asked, room - min(len(asking), first))}", chars_max
    )


def moment(row: Row, zone: tzinfo | None = None) -> str:
    """When it ended, to the millisecond."""
    try:
        ended = datetime.fromisoformat(row.timestamp)
    except ValueError:  # Of another writer.
        return row.timestamp
    ended = ended if ended.tzinfo else ended.replace(tzinfo=UTC)
    return ended.astimezone(zone).replace(tzinfo=None).isoformat(" ", "milliseconds")


def way(row: Row) -> str:
    """Who asked whom; of a frame, in whose conversation it was, and which way it went."""
    client = (row.client.name or NOBODY).partition(" ")[0]
    server = row.server or NOBODY
    if row.kind == EXCHANGE:
        # The gateway itself asks servers, too: who they are, what they offer.
        asking = client if row.profile is not None else "gateway"
        return f"{asking} → {server}" if row.server else f"{asking} → gateway"
    peer = client if row.side == "client" else server
    return f"gateway → {peer}" if is_outgoing(row.side, row.kind) else f"{peer} → gateway"


def is_outgoing(side: str | None, kind: str) -> bool:
    """Whether the gateway sent such a frame in the conversation with this side."""
    of_clients = kind in ("request", "client-notification", "client-response")
    return of_clients is (side == "server") and kind not in ("stderr", "not-json-rpc")


def outcome(row: Row) -> str:
    """How an exchange ended; of a frame, what it is."""
    if row.kind != EXCHANGE:
        return row.kind
    return row.outcome or row.status


def split(row: Row) -> str:
    """Whose time it was, in milliseconds: the gateway's, the queue's, the server's."""
    times = row.timings
    parts = (("g", times.gateway_ms), ("q", times.queue_ms), ("s", times.server_ms))
    return " ".join(f"{letter} {part:.1f}" for letter, part in parts if part is not None)


def sizes(row: Row) -> str:
    """What the client sent and what it got; of a frame, how much it is."""
    if row.kind != EXCHANGE:
        return "" if row.sizes.frame_bytes is None else size(row.sizes.frame_bytes)
    sent, got = row.sizes.params_bytes, row.sizes.result_bytes
    if sent is None and got is None:
        return ""
    return " → ".join("?" if count is None else size(count) for count in (sent, got))


def message(row: Row) -> str:
    """What went wrong, in words."""
    if row.error is None:
        return row.text or ""
    words = row.error.message or ""
    return words if row.error.code is None else f"{words} (error {row.error.code})".strip()
