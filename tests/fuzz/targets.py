"""What must hold for any bytes at all, parser by parser.

Each target takes bytes and comes back, or raises: whatever a parser raises that it does not
declare is a fault, and so is an answer that another reader of the same bytes would not give. Who
makes the bytes is not known here.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from anyport.config import ConfigError, load
from anyport.record.filter.match import compile_filter
from anyport.record.filter.parser import BadFilter, parse_filter
from anyport.wire import jsonrpc
from anyport.wire.http1 import BadMessage, ChunkedDecoder, read_request_head, read_response_head
from anyport.wire.jsonrpc import BadFrame, Failure, Frame, Notification, Request, Result
from anyport.wire.lines import EDGE_BYTES, LineSplitter, Overlong
from anyport.wire.sse import EventSplitter, SseEvent

SECONDS_MAX: Final = 0.5
"""Of processor time for one input. The goal is a fifth of it; a tracer makes everything slower."""

LINE_BYTES_MAX: Final = 64
EVENT_BYTES_MAX: Final = 256
NOON: Final = 1_800_000_000.0

EVENT: Final[Mapping[str, Any]] = {
    "timestamp": "2027-01-15T08:00:00.000001+00:00",
    "trace_id": "0af7651916cd43dd8448eb211c80319c",
    "status": "failure",
    "event_type": "gateway.tool_call",
    "duration_ms": 12.5,
    "error_code": -32602,
    "error_message": "no such thing ⟨x⟩",
    "metadata": {"server": "github", "tool": "create_issue", "client": "cursor", "method": "x"},
}


def envelope(raw: bytes) -> None:
    """JSON-RPC: a frame, or a reason that can be answered with; and a frame is sound JSON."""
    for bounds in (jsonrpc.INBOUND, jsonrpc.OUTBOUND):
        frame = jsonrpc.decode(raw, bounds)
        if isinstance(frame, BadFrame):
            assert frame.code in (-32700, -32600), frame
            assert frame.message
            assert frame.id is None or jsonrpc.is_legal_id(frame.id)
        else:
            json.loads(raw.decode("utf-8"), parse_constant=_refuse, parse_int=str)
            assert jsonrpc.decode(_again(frame), bounds) == frame
    jsonrpc.id_at_edge(raw)
    if jsonrpc.is_batch(raw):
        messages = jsonrpc.split_batch(raw, batch_max=100)
        for message in [] if isinstance(messages, BadFrame) else messages:
            jsonrpc.decode_checked(message)


def _again(frame: Frame) -> bytes:
    match frame:
        case Request(id, method, params):
            return jsonrpc.encode_request(id, method, params)
        case Notification(method, params):
            return jsonrpc.encode_notification(method, params)
        case Result(id, result):
            return jsonrpc.encode_result(id, result)
        case Failure(id, error):
            return jsonrpc.encode_failure(id, error)


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is no JSON")


def framing(raw: bytes) -> None:
    """Lines: the same ones, in whatever portions they come."""
    assert _lines(portions(raw)) == _lines([raw[1:]])


def _same(found: list[Any]) -> list[Any]:
    """Of what was too long only the size: which bytes of it are kept depends on the portions."""
    return [one.size if isinstance(one, Overlong) else one for one in found]


def _lines(pieces: Any) -> list[bytes | int]:
    splitter = LineSplitter(LINE_BYTES_MAX)
    found = [line for piece in pieces for line in splitter.feed(piece)]
    assert splitter.buffered_bytes <= max(LINE_BYTES_MAX, 2 * EDGE_BYTES)
    found += splitter.finish()
    for line in found:
        assert isinstance(line, Overlong) or (line and b"\n" not in line)
    return _same(found)


def events(raw: bytes) -> None:
    """Event streams: the same events, in whatever portions they come."""
    one, two = EventSplitter(EVENT_BYTES_MAX), EventSplitter(EVENT_BYTES_MAX)
    pieces = [event for piece in portions(raw) for event in one.feed(piece)]
    whole = two.feed(raw[1:])
    assert _same(pieces) == _same(whole)
    if not any(isinstance(event, Overlong) for event in whole):
        # Of what is too long, how much was kept to be read depends on the portions.
        assert (one.last_id, one.retry_ms) == (two.last_id, two.retry_ms)
    for event in whole:
        assert isinstance(event, Overlong) or b"\r" not in event.data
    messages = [one for one in EventSplitter(EVENT_BYTES_MAX).messages(raw[1:]) if one]
    held = [event.data if isinstance(event, SseEvent) else event for event in whole]
    assert _same(messages) == _same([one for one in held if one])


def chunks(raw: bytes) -> None:
    """Chunked bodies and heads: the same bytes in whatever portions, or the same refusal."""
    assert _body(portions(raw)) == _body([raw[1:]])
    for read in (read_request_head, read_response_head):
        try:
            read(raw)
        except BadMessage as error:
            assert str(error)


def _body(pieces: Any) -> bytes | None:
    body = ChunkedDecoder()
    found: list[bytes] = []
    try:
        for piece in pieces:
            if body.done:
                break
            found += body.feed(piece)
    except BadMessage:
        return None
    return b"".join(found)


def filters(raw: bytes) -> None:
    """Filters: one that can be asked, or words with a mark under what is wrong."""
    text = raw.decode("utf-8", "replace")
    try:
        filter = parse_filter(text, NOON)
    except BadFilter as error:
        assert "^" in str(error)
        assert 0 <= error.at <= len(text)
        return
    assert compile_filter(filter)(EVENT) in (True, False)
    assert compile_filter(filter)({}) in (True, False)


_scratch: Final = Path(tempfile.gettempdir() if not os.path.isdir("/dev/shm") else "/dev/shm")


def configuration(raw: bytes) -> None:
    """Files: a configuration that can be shown, or faults with a place each."""
    suffix = "toml" if raw[:1] < b"\x80" else "json"
    file = _scratch / f"anyport-fuzz-{os.getpid()}.{suffix}"
    file.write_bytes(raw[1:])
    try:
        config = load([file], {"HOME": "/nowhere", "NAME": "value"})
    except ConfigError as error:
        assert error.faults
        for fault in error.faults:
            assert fault.line >= 1 and fault.column >= 1, fault
            assert fault.message
    else:
        assert repr(config)
    finally:
        file.unlink()


def portions(raw: bytes) -> Iterator[bytes]:
    """All but the first byte, in pieces whose sizes that byte decides."""
    step = 1 + (raw[0] if raw else 0) % 17
    for at in range(1, len(raw), step):
        yield raw[at : at + step]


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "envelope": envelope,
    "framing": framing,
    "events": events,
    "chunks": chunks,
    "filters": filters,
    "configuration": configuration,
}


def hold(target: str, raw: bytes) -> float:
    """Try one input; the processor time that it took.

    Raises:
        AssertionError: something does not hold, or it took too long.
    """
    begun = time.process_time()
    TARGETS[target](raw)
    took = time.process_time() - begun
    assert took < SECONDS_MAX, f"{took:.3f} s of processor time for {len(raw)} bytes"
    return took
