"""`anyport traffic`: exchanges between clients and servers, and messages outside of them."""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from typing import Final

import msgspec

from anyport.cli.connect.traffic import FilterQuery, open_traffic
from anyport.cli.exit_codes import SUCCESS, notify_user
from anyport.cli.options import SharedOptions
from anyport.cli.output import (
    COLUMN_GAP,
    JSON_INDENT,
    STYLES,
    Columns,
    StyledOutput,
    cell,
    flush,
    format_ms,
    out_raw,
    table,
    terminal_width,
)
from anyport.cli.results import format_bytes
from anyport.record.filter.ast import Filter, Text
from anyport.record.redact.escape import cut
from anyport.record.traffic import EXCHANGE, Row

TITLES: Final = ("TIME", "CLIENT → SERVER", "METHOD", "TARGET", "OUTCOME", "TOOK", "OF WHICH",
                 "SIZES", "ID", "MESSAGE")  # fmt: skip
NO_WRAP: Final = ("TIME", "OUTCOME", "TOOK", "OF WHICH", "SIZES", "ID")

SAMPLE_ROW: Final = (
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
"""Sets the column widths of `--follow`, since later rows are not known yet."""

BRIEF_TITLES: Final = (
    "TIME",
    "CLIENT → SERVER",
    "METHOD TARGET",
    "OUTCOME",
    "TOOK",
    "ID",
    "MESSAGE",
)
"""For a narrow terminal; `anyport show` has the rest."""
CLOCK_SLICE: Final = slice(len("07-28 "), len("07-28 12:00:00"))
"""The time of day, without date and milliseconds."""
BRIEF_NO_WRAP: Final = ("TIME", "OUTCOME", "TOOK", "ID")
BRIEF_CHARS_MIN: Final = 8
"""Least width of a name."""

SHORT_ID_CHARS: Final = 8
"""Of an id in a table; `anyport show` takes as little."""

YEAR_CHARS: Final = len("2026-")
"""Left out of times in tables."""

UNKNOWN_PEER: Final = "-"
ARROW: Final = " → "


def row_cells(row: Row, zone: tzinfo | None = None) -> tuple[str, ...]:
    """A row of the table, in this time zone or that of the machine."""
    return tuple(
        cell(text)
        for text in (
            ended_at_text(row, zone)[YEAR_CHARS:],
            describe_direction(row),
            row.method or "",
            row.target or "",
            outcome_of(row),
            format_ms(row.timings.total_ms),
            format_timings(row),
            format_sizes(row),
            (row.id or "")[:SHORT_ID_CHARS],
            error_text_of(row),
        )
    )


def brief_cells(cells: tuple[str, ...]) -> tuple[str, ...]:
    """A row of the table for a narrow terminal."""
    by_title = dict(zip(TITLES, cells, strict=True))
    method_and_target = f"{by_title['METHOD']} {by_title['TARGET']}".strip()
    return (
        by_title["TIME"][CLOCK_SLICE],
        by_title["CLIENT → SERVER"],
        method_and_target,
        *(by_title[title] for title in ("OUTCOME", "TOOK", "ID", "MESSAGE")),
    )


def brief_sample_row(width: int) -> tuple[str, ...]:
    """Sets the column widths of `--follow` on a narrow terminal; messages get their own lines."""
    clock, *ended = "12:00:00", "server_error", "100.0 ms", "4bf92f35"
    chars_left = width - len(COLUMN_GAP.join((clock, "", "", *ended)))
    names = max(BRIEF_CHARS_MIN, chars_left * 9 // 20)
    return (clock, "-" * names, "-" * max(BRIEF_CHARS_MIN, chars_left - names), *ended)


def shorten_direction(direction: str, chars_max: int) -> str:
    """Cut both names of a direction to fit."""
    source, arrow, target = direction.partition(ARROW)
    chars_left = max(2, chars_max - len(arrow))
    first = max(chars_left - len(target), chars_left // 2)
    return cut(
        f"{cut(source, first)}{arrow}{cut(target, chars_left - min(len(source), first))}", chars_max
    )


def ended_at_text(row: Row, zone: tzinfo | None = None) -> str:
    """When the exchange ended, to the millisecond."""
    try:
        ended = datetime.fromisoformat(row.timestamp)
    except ValueError:  # Written by another program.
        return row.timestamp
    ended = ended if ended.tzinfo else ended.replace(tzinfo=UTC)
    return ended.astimezone(zone).replace(tzinfo=None).isoformat(" ", "milliseconds")


def describe_direction(row: Row) -> str:
    """Sender and receiver."""
    client = (row.client.name or UNKNOWN_PEER).partition(" ")[0]
    server = row.server or UNKNOWN_PEER
    if row.kind == EXCHANGE:
        # The gateway sends requests of its own: handshakes, lists.
        sender = client if row.profile is not None else "gateway"
        return f"{sender} → {server}" if row.server else f"{sender} → gateway"
    peer = client if row.side == "client" else server
    return f"gateway → {peer}" if is_outgoing(row.side, row.kind) else f"{peer} → gateway"


def is_outgoing(side: str | None, kind: str) -> bool:
    """Whether the gateway sent a message of this kind to this side."""
    of_clients = kind in ("request", "client-notification", "client-response")
    return of_clients is (side == "server") and kind not in ("stderr", "not-json-rpc")


def outcome_of(row: Row) -> str:
    """The outcome of an exchange, or the kind of a message outside one."""
    if row.kind != EXCHANGE:
        return row.kind
    return row.outcome or row.status


def format_timings(row: Row) -> str:
    """Milliseconds in the gateway, in the queue and at the server."""
    times = row.timings
    parts = (("g", times.gateway_ms), ("q", times.queue_ms), ("s", times.server_ms))
    return " ".join(f"{letter} {part:.1f}" for letter, part in parts if part is not None)


def format_sizes(row: Row) -> str:
    """Sizes of request and result, or of a message outside an exchange."""
    if row.kind != EXCHANGE:
        return "" if row.sizes.frame_bytes is None else format_bytes(row.sizes.frame_bytes)
    sent, received = row.sizes.params_bytes, row.sizes.result_bytes
    if sent is None and received is None:
        return ""
    return " → ".join("?" if count is None else format_bytes(count) for count in (sent, received))


def error_text_of(row: Row) -> str:
    if row.error is None:
        return row.text or ""
    words = row.error.message or ""
    return words if row.error.code is None else f"{words} (error {row.error.code})".strip()


ONLY_ENDED: Final = (
    "traffic shows only what has ended; for open calls, run: anyport events status:pending"
)
_PENDING: Final = Text("pending")


def traffic(options: SharedOptions, words: tuple[str, ...], *, limit: int, follow: bool) -> int:
    """Print the newest rows that match, then new ones with `--follow`; the exit code."""
    query = FilterQuery(words)
    with open_traffic(options) as source:
        if follow:
            source.follow(query, limit, TrafficPrinter(as_json=options.json).append)
        rows = source.newest(query, limit)
    if not rows:
        notify_user(ONLY_ENDED if _wants_pending(query.filter) else "no traffic matches")
    if options.json:
        _out_json(rows)
    elif rows:
        _out_table([row_cells(row) for row in rows])
    return SUCCESS


def _wants_pending(filter: Filter) -> bool:
    status_values = (
        term.values for term in filter.terms if term.key == "status" and not term.negated
    )
    return any(_PENDING in values for values in status_values)


def _out_table(rows: list[tuple[str, ...]]) -> None:
    """Print all columns, or fewer on a narrow terminal."""
    width = terminal_width()
    # The last column, the message, can move below its row.
    if width is None or Columns(*(row[:-1] for row in (TITLES, *rows))).width <= width:
        table(TITLES, rows, no_wrap=NO_WRAP)
    else:
        table(BRIEF_TITLES, [brief_cells(row) for row in rows], no_wrap=BRIEF_NO_WRAP)


class TrafficPrinter:
    """Prints rows as they arrive."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._output = StyledOutput()
        self._columns: Columns | None = None
        width = terminal_width()
        self._width = None if width is None or Columns(SAMPLE_ROW).width <= width else width
        """None if the terminal has room for all columns."""

    def append(self, rows: list[Row]) -> None:
        if self._as_json:
            _out_json(rows)
        elif self._width is None:
            self._append([row_cells(row) for row in rows])
        else:
            self._append_brief([brief_cells(row_cells(row)) for row in rows], self._width)
        flush()

    def _append(self, rows: list[tuple[str, ...]]) -> None:
        if self._columns is None:
            self._columns = Columns(TITLES, SAMPLE_ROW, *rows)
            self._output.print_line((self._columns.line(TITLES), "bold"))
        for row in rows:
            self._print_row(self._columns, row)

    def _append_brief(self, rows: list[tuple[str, ...]], width: int) -> None:
        if self._columns is None:
            self._columns = Columns(brief_sample_row(width))
            self._output.print_line((self._columns.line(self._columns.cut(BRIEF_TITLES)), "bold"))
        names = len(brief_sample_row(width)[1])
        for time, direction, *row, message in rows:
            cut_row = self._columns.cut([time, shorten_direction(direction, names), *row])
            self._print_row(self._columns, cut_row)
            if message:
                self._output.print_line(
                    f"{JSON_INDENT}{cut(message, max(1, width - len(JSON_INDENT)))}"
                )

    def _print_row(self, columns: Columns, row: Sequence[str]) -> None:
        padded = zip(columns.padded(row), row, strict=True)
        pieces = [(f"{cell}{COLUMN_GAP}", STYLES.get(text, "")) for cell, text in padded]
        last, style = pieces.pop()
        self._output.print_line(*pieces, (last.rstrip(), style))


def _out_json(rows: list[Row]) -> None:
    for row in rows:
        out_raw(msgspec.json.encode(row))
