"""The trace in a head: taken out, so that the rest is a head like all others."""

from typing import Any

import pytest

from anyport.ingress.http.tracing import take_context
from anyport.wire.http import HEAD_BYTES_MAX, HEADS_REMEMBERED_MAX
from tests.ingress.http.stage import Stage, play, post, post_modern
from tests.protocol.fakes import request

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LINE, HOST, MORE = b"POST /mcp HTTP/1.1", b"\r\nHost: a", b"\r\nAccept: */*"


@pytest.mark.parametrize(
    ("fields", "context"),
    [
        (b"", {}),
        (b"\r\ntraceparent: p", {"traceparent": "p"}),
        (b"\r\nTraceParent:p", {"traceparent": "p"}),
        (b"\r\ntraceparent: \t p \t", {"traceparent": "p"}),
        (b"\r\ntraceparent: p\r\ntracestate: s", {"traceparent": "p", "tracestate": "s"}),
        (
            b"\r\ntracestate: s=1\r\ntraceparent: p\r\nTracestate: t=2",
            {"traceparent": "p", "tracestate": "s=1,t=2"},
        ),
        (b"\r\ntraceparent: p\r\nbaggage: k=1", {"traceparent": "p"}),
        (b"\r\nbaggage: k=1", {}),
        (b"\r\ntracestate: s", {}),
        (b"\r\ntraceparent: p\r\ntraceparent: q\r\ntracestate: s", {}),
    ],
)
def test_a_trace_is_taken_out_of_a_head(fields: bytes, context: dict[str, str]) -> None:
    assert take_context(LINE + HOST + fields + MORE) == (LINE + HOST + MORE, context)
    assert take_context(LINE + HOST + MORE + fields) == (LINE + HOST + MORE, context)


@pytest.mark.parametrize(
    "fields",
    [
        b"\r\nx-traceparent: p",
        b"\r\ntraceparents: p",
        b"\r\ntraceparent : p",
        b"\r\n traceparent: p",
        b"\ntraceparent: p",
        b"\r\ntraceparent: p\nHost: b",
        b"\r\ntraceparent: p\rHost: b",
        b"\r\ntraceparent: p\0",
        b"\r\ntraceparent: p\x7f",
        b"\r\ntraceparent: \xff",
    ],
)
def test_a_line_that_is_no_such_field_is_left_for_the_parser(fields: bytes) -> None:
    raw = LINE + HOST + fields + MORE
    assert take_context(raw) == (raw, {})


def test_a_head_that_is_too_long_stays_too_long() -> None:
    raw = LINE + HOST + b"\r\nbaggage: " + b"x" * HEAD_BYTES_MAX
    assert take_context(raw) == (raw, {})


def test_a_field_that_goes_on_in_the_next_line_is_refused_as_ever() -> None:
    async def scene(stage: Stage) -> None:
        raw = post(request("ping"), traceparent="p").replace(b"p\r\n", b"p\r\n q\r\n", 1)
        said = await stage.visitor().ask(raw)
        assert said.status == 400

    play(scene)


@pytest.mark.parametrize(
    "sent",
    [
        lambda **fields: post(request("tools/call", {"name": "a"}), **fields),
        lambda **fields: post_modern("tools/call", {"name": "a"}, **fields),
    ],
)
def test_a_request_brings_the_trace_of_its_head_along(sent: Any) -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        await visitor.ask(sent())
        assert dict(stage.last.carried) == {}
        await visitor.ask(sent(traceparent=PARENT, tracestate="v=1"))
        assert stage.last.carried == {"traceparent": PARENT, "tracestate": "v=1"}
        await visitor.ask(sent())
        assert dict(stage.last.carried) == {}

    play(scene)


def test_traces_do_not_push_other_heads_out_of_memory() -> None:
    async def scene(stage: Stage) -> None:
        stage.answer_at_once()
        visitor = stage.visitor()
        await visitor.ask(post(request("ping")))
        known = dict(stage.ingress.heads.known)
        for number in range(HEADS_REMEMBERED_MAX + 1):
            await visitor.ask(post(request("ping"), traceparent=f"{PARENT[:-7]}{number:04}-01"))
        assert stage.ingress.heads.known == known

    play(scene)
