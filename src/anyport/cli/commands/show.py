"""`anyport show`: an exchange on both sides of the gateway, message by message."""

from typing import Final

import msgspec
from msgspec import UNSET, Raw

from anyport.cli.commands.traffic import ended_at_text, error_text_of, is_outgoing, outcome_of
from anyport.cli.connect.traffic import open_traffic
from anyport.cli.exit_codes import SUCCESS
from anyport.cli.options import SharedOptions
from anyport.cli.output import STYLES, StyledOutput, bar_widths, format_ms, out_raw
from anyport.cli.results import format_bytes
from anyport.record.traffic import (
    EXCHANGE,
    ClientSide,
    Detail,
    PayloadFrame,
    PayloadTexts,
    Row,
    ServerSide,
)

BAR_CHARS: Final = 50
TIMING_PARTS: Final = (("gateway", "█", "cyan"), ("queue", "▒", "yellow"), ("server", "░", "green"))
"""The parts of the bar."""

HOW_TO_CAPTURE: Final = (
    'to record values from now on, set capture = "full" under [record], in a profile or in a server'
)
METHODS_WITH_ARGUMENTS: Final = ("tools/call", "prompts/get")
"""Methods of which only the shape of `arguments` is recorded."""

PAYLOAD_LINES_MAX: Final = 200
"""Of one payload without `--full`."""


def show(options: SharedOptions, id: str, *, full: bool) -> int:
    """Print the exchange, the message or the trace with this id; the exit code."""
    with open_traffic(options) as source:
        details = source.details(id)
    if options.json:
        for detail in details:
            out_raw(msgspec.json.encode(detail))
        return SUCCESS
    output = StyledOutput()
    for number, detail in enumerate(details):
        if number:
            output.print_line("")
        out_detail(output, detail, full=full)
    return SUCCESS


def out_detail(output: StyledOutput, detail: Detail, *, full: bool = False) -> None:
    """Print everything that was recorded of a row."""
    row = detail.row
    _out_head(output, row)
    _out_sides(output, row)
    _out_timings(output, row)
    _out_sizes(output, row)
    if detail.frames:
        for frame in detail.frames:
            _out_frame(output, frame, full=full)
        return
    _out_shapes(output, row)


def _out_head(output: StyledOutput, row: Row) -> None:
    outcome = outcome_of(row)
    title = " ".join(part for part in (row.method, row.public_name or row.target) if part)
    output.print_line((title or row.kind, "bold"), "  ", (outcome, STYLES.get(outcome, "")))
    if error_text := error_text_of(row):
        output.print_line("  ", (error_text, "red" if row.error else ""))
    kind = "" if row.kind == EXCHANGE else f"  in the session with the {row.side}"
    output.print_line(f"  id     {row.id or 'none'}  trace {row.trace_id}{kind}")
    output.print_line(f"  ended  {ended_at_text(row)}")


def _out_sides(output: StyledOutput, row: Row) -> None:
    client, server = row.client, row.upstream
    if row.profile is not None or client != ClientSide():
        client_parts = (
            client.name or "a client",
            _era(client.revision, client.era),
            client.transport,
            client.principal and f"principal {client.principal}",
            client.session and f"session {client.session}",
            row.profile and f"profile {row.profile}",
        )
        output.print_line(f"  client {_join_parts(*client_parts)}")
    if server != ServerSide():
        cached = "answered from the cache" if row.cached else None
        native = row.target if row.public_name else None
        named = native and f"native name {native}"
        era = _era(server.revision, server.era)
        output.print_line(
            f"  server {_join_parts(server.server, era, server.transport, named, cached)}"
        )


def _out_timings(output: StyledOutput, row: Row) -> None:
    times = row.timings
    if times.total_ms is None:
        return
    parts = (times.gateway_ms, times.queue_ms, times.server_ms)
    if times.gateway_ms is None:
        output.print_line(f"  took   {format_ms(times.total_ms)}")
        return
    widths = bar_widths(tuple(part or 0.0 for part in parts), BAR_CHARS)
    drawn = [
        (sign * width, style) for (_, sign, style), width in zip(TIMING_PARTS, widths, strict=True)
    ]
    output.print_line(f"  took   {format_ms(times.total_ms)}  ", *drawn)
    legend = [
        (f"{sign} {name} {format_ms(part)}   ", style)
        for (name, sign, style), part in zip(TIMING_PARTS, parts, strict=True)
        if part is not None
    ]
    output.print_line("         ", *legend)


def _out_sizes(output: StyledOutput, row: Row) -> None:
    sizes = row.sizes
    steps = (
        ("params", sizes.params_bytes),
        ("sent on", sizes.sent_bytes),
        ("answered", sizes.answer_bytes),
        ("result", sizes.result_bytes),
        ("frame", sizes.frame_bytes),
    )
    size_texts = [f"{name} {format_bytes(count)}" for name, count in steps if count is not None]
    if size_texts:
        output.print_line(f"  sizes  {_join_parts(*size_texts)}")
    hashes = row.hashes
    named = (("params", hashes.params), ("result", hashes.result), ("frame", hashes.frame))
    marks = [f"{name} {mark}" for name, mark in named if mark is not None]
    if marks:
        output.print_line(f"  hashes {_join_parts(*marks)}")


def _out_frame(output: StyledOutput, frame: PayloadFrame, *, full: bool) -> None:
    _out_step(output, frame.ms, frame.side, frame.kind, frame.method)
    lines_max = None if full else PAYLOAD_LINES_MAX
    if isinstance(frame.error, Raw):
        output.print_json(bytes(frame.error), lines_max)
    elif isinstance(frame.payload, Raw):
        output.print_json(bytes(frame.payload), lines_max)
    elif frame.same:
        output.print_line("    same as on the other side")
    elif frame.payload is UNSET:
        output.print_line("    not recorded")


def _out_shapes(output: StyledOutput, row: Row) -> None:
    """Print what is known without payloads: shapes, and the messages in between."""
    shapes = row.shapes
    if row.kind == EXCHANGE:
        if shapes.params is not None:
            _out_step(output, 0.0, _asking_side(row), "request", row.method)
            of_arguments = row.profile is not None and row.method in METHODS_WITH_ARGUMENTS
            output.print_line("    ", "arguments " if of_arguments else "", shapes.params)
        for between in row.frames:
            _out_step(output, between.ms, None, between.kind, between.method)
        if row.frames_more:
            output.print_line(f"  and {row.frames_more} more messages")
        _out_answers(output, row)
    elif shapes.frame is not None:
        output.print_line("    ", shapes.frame)
    if row.payload_file is not None:
        output.print_line("  the payload is gone: it was erased, or removed by retention")
    elif row.id is not None:
        hint = (
            "no payload was recorded" if shapes == PayloadTexts() else "only shapes were recorded"
        )
        output.print_line(f"  {hint}; {HOW_TO_CAPTURE}")


def _out_answers(output: StyledOutput, row: Row) -> None:
    """Print the answers: the shape is of the server's answer if there is one."""
    shape, result_bytes = row.shapes.result, row.sizes.result_bytes
    has_answer = row.sizes.answer_bytes is not None
    if has_answer:
        _out_step(output, None, "server", "response", None)
        output.print_line("    ", shape or "")
    if shape is not None or has_answer:
        _out_step(output, row.timings.total_ms or 0.0, _asking_side(row), "response", None)
        size_text = "" if result_bytes is None else format_bytes(result_bytes)
        output.print_line("    ", size_text if has_answer else shape or "")


def _asking_side(row: Row) -> str:
    """The side that an exchange began on; the gateway has exchanges of its own with servers."""
    return "server" if row.profile is None else "client"


def _out_step(
    output: StyledOutput, ms: float | None, side: str | None, kind: str, method: str | None
) -> None:
    direction = ""
    if side is not None:
        direction = f"gateway → {side}" if is_outgoing(side, kind) else f"{side} → gateway"
    name = " ".join(part for part in (kind, method) if part)
    since = "" if ms is None else f"+{format_ms(ms)}"
    output.print_line(f"  {since:<11} {direction:<18}", (name, "bold"))


def _era(revision: str | None, era: str | None) -> str | None:
    return revision and (f"{revision} ({era})" if era else revision)


def _join_parts(*parts: str | None) -> str:
    return " · ".join(part for part in parts if part)
