"""`anyport show`: an exchange with both its sides, frame by frame."""

from typing import Final

import msgspec
from msgspec import UNSET, Raw

from anyport.cli.ending import GOOD
from anyport.cli.options import Given
from anyport.cli.paper import Paper, bar
from anyport.cli.recorded import recorded
from anyport.cli.render import STYLES, milliseconds, out
from anyport.cli.results import size
from anyport.cli.rows import is_outgoing, message, moment, outcome
from anyport.record.detail import Detail, PayloadFrame
from anyport.record.row import EXCHANGE, ClientSide, Pieces, Row, ServerSide
from anyport.record.text import escape_line

BAR_CHARS: Final = 50
PARTS: Final = (("gateway", "█", "cyan"), ("queue", "▒", "yellow"), ("server", "░", "green"))
"""What a wait is made of, and how that is drawn."""

HOW_TO_CAPTURE: Final = (
    'values are kept from now on with capture = "full" under [record], in a profile or in a server'
)
ARGUMENTS: Final = ("tools/call", "prompts/get")
"""Methods of whose params only the arguments have a shape."""

PAYLOAD_LINES_MAX: Final = 200
"""Of one payload, unless all of it is wanted: what people scroll through, not past."""


def show(given: Given, asked: str, *, full: bool) -> int:
    """Show what an id means: one exchange or frame, or all of a trace; the exit code.

    Of a payload only the beginning, unless it is wanted in full.
    """
    with recorded(given) as source:
        details = source.details(asked)
    if given.json:
        for detail in details:
            out(escape_line(msgspec.json.encode(detail)).decode())
        return GOOD
    paper = Paper()
    for number, detail in enumerate(details):
        if number:
            paper.line("")
        out_detail(paper, detail, full=full)
    return GOOD


def out_detail(paper: Paper, detail: Detail, *, full: bool = False) -> None:
    """Write all that is known of a row."""
    row = detail.row
    _out_head(paper, row)
    _out_sides(paper, row)
    _out_wait(paper, row)
    _out_sizes(paper, row)
    if detail.frames:
        for frame in detail.frames:
            _out_frame(paper, frame, full=full)
        return
    _out_shapes(paper, row)


def _out_head(paper: Paper, row: Row) -> None:
    ended = outcome(row)
    title = " ".join(part for part in (row.method, row.public_name or row.target) if part)
    paper.line((title or row.kind, "bold"), "  ", (ended, STYLES.get(ended, "")))
    if told := message(row):
        paper.line("  ", (told, "red" if row.error else ""))
    kind = "" if row.kind == EXCHANGE else f"  in the conversation with the {row.side}"
    paper.line(f"  id     {row.id or 'none'}  trace {row.trace_id}{kind}")
    paper.line(f"  ended  {moment(row)}")


def _out_sides(paper: Paper, row: Row) -> None:
    client, server = row.client, row.upstream
    if row.profile is not None or client != ClientSide():
        told = (
            client.name or "a client",
            _era(client.revision, client.era),
            client.transport,
            client.principal and f"principal {client.principal}",
            client.session and f"session {client.session}",
            row.profile and f"profile {row.profile}",
        )
        paper.line(f"  client {_listed(*told)}")
    if server != ServerSide():
        cached = "answered from the cache" if row.cached else None
        native = row.target if row.public_name else None
        named = native and f"known there as {native}"
        era = _era(server.revision, server.era)
        paper.line(f"  server {_listed(server.server, era, server.transport, named, cached)}")


def _out_wait(paper: Paper, row: Row) -> None:
    times = row.timings
    if times.total_ms is None:
        return
    known = (times.gateway_ms, times.queue_ms, times.server_ms)
    if times.gateway_ms is None:
        paper.line(f"  took   {milliseconds(times.total_ms)}")
        return
    widths = bar(tuple(part or 0.0 for part in known), BAR_CHARS)
    drawn = [(sign * width, style) for (_, sign, style), width in zip(PARTS, widths, strict=True)]
    paper.line(f"  took   {milliseconds(times.total_ms)}  ", *drawn)
    told = [
        (f"{sign} {name} {milliseconds(part)}   ", style)
        for (name, sign, style), part in zip(PARTS, known, strict=True)
        if part is not None
    ]
    paper.line("         ", *told)


def _out_sizes(paper: Paper, row: Row) -> None:
    sizes = row.sizes
    steps = (
        ("params", sizes.params_bytes),
        ("sent on", sizes.sent_bytes),
        ("answered", sizes.answer_bytes),
        ("result", sizes.result_bytes),
        ("frame", sizes.frame_bytes),
    )
    told = [f"{name} {size(count)}" for name, count in steps if count is not None]
    if told:
        paper.line(f"  sizes  {_listed(*told)}")
    hashes = row.hashes
    named = (("params", hashes.params), ("result", hashes.result), ("frame", hashes.frame))
    marks = [f"{name} {mark}" for name, mark in named if mark is not None]
    if marks:
        paper.line(f"  hashes {_listed(*marks)}")


def _out_frame(paper: Paper, frame: PayloadFrame, *, full: bool) -> None:
    _out_step(paper, frame.ms, frame.side, frame.kind, frame.method)
    lines_max = None if full else PAYLOAD_LINES_MAX
    if isinstance(frame.error, Raw):
        paper.json(bytes(frame.error), lines_max)
    elif isinstance(frame.payload, Raw):
        paper.json(bytes(frame.payload), lines_max)
    elif frame.same:
        paper.line("    the same as on the other side")
    elif frame.payload is UNSET:
        paper.line("    nothing was kept of it")


def _out_shapes(paper: Paper, row: Row) -> None:
    """What is known without the values: shapes, and what came between."""
    shapes = row.shapes
    if row.kind == EXCHANGE:
        if shapes.params is not None:
            _out_step(paper, 0.0, _asking_side(row), "request", row.method)
            of_arguments = row.profile is not None and row.method in ARGUMENTS
            paper.line("    ", "arguments " if of_arguments else "", shapes.params)
        for between in row.frames:
            _out_step(paper, between.ms, None, between.kind, between.method)
        if row.frames_more:
            paper.line(f"  and {row.frames_more} more frames")
        _out_answers(paper, row)
    elif shapes.frame is not None:
        paper.line("    ", shapes.frame)
    if row.payload_file is not None:
        paper.line("  what was said is not there any more: it was erased, or has grown too old")
    elif row.id is not None:
        kept = "nothing of what was said is kept" if shapes == Pieces() else "only shapes are kept"
        paper.line(f"  {kept}; {HOW_TO_CAPTURE}")


def _out_answers(paper: Paper, row: Row) -> None:
    """The shape is that of the server's answer, where it gave one; the client's is of a size."""
    shape, got = row.shapes.result, row.sizes.result_bytes
    answered = row.sizes.answer_bytes is not None
    if answered:
        _out_step(paper, None, "server", "response", None)
        paper.line("    ", shape or "")
    if shape is not None or answered:
        _out_step(paper, row.timings.total_ms or 0.0, _asking_side(row), "response", None)
        told = "" if got is None else size(got)
        paper.line("    ", told if answered else shape or "")


def _asking_side(row: Row) -> str:
    """Whose conversation an exchange began in; the gateway itself asks servers, too."""
    return "server" if row.profile is None else "client"


def _out_step(
    paper: Paper, ms: float | None, side: str | None, kind: str, method: str | None
) -> None:
    way = ""
    if side is not None:
        way = f"gateway → {side}" if is_outgoing(side, kind) else f"{side} → gateway"
    name = " ".join(part for part in (kind, method) if part)
    since = "" if ms is None else f"+{milliseconds(ms)}"
    paper.line(f"  {since:<11} {way:<18}", (name, "bold"))


def _era(revision: str | None, era: str | None) -> str | None:
    return revision and (f"{revision} ({era})" if era else revision)


def _listed(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)
