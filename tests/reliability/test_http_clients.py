"""Clients over HTTP that send too much, too oddly, or all at once; others never notice."""

from contextlib import closing, suppress
from typing import Final

import pytest

from tests.reliability.conftest import Serve
from tests.rig.expensive_messages import LINE_BYTES_MAX, call_line
from tests.rig.probe import HOSTILE, MIB, text_of
from tests.rig.raw_http_client import (
    JSON,
    RawConnection,
    RawHttpClient,
    head,
    post,
    request,
    sending,
    tool_call,
)
from tests.rig.scale import scaled

pytestmark = pytest.mark.slow

HEAD_BYTES_MAX: Final = 32 * 1024
HEAD_FIELDS_MAX: Final = 100
CUT_BYTES_MAX: Final = 16 * MIB
"""What a connection's buffers on both sides may swallow of a body that nobody reads."""
PIPELINED_REQUESTS: Final = 5_000
ENDLESS_BODY_BYTES: Final = scaled(64, full=1024) * MIB


def call_of(size: int) -> bytes:
    """A call of exactly this many bytes."""
    empty = call_line("sized", "bad__mirror", b'{"value":""}')
    return call_line("sized", "bad__mirror", b'{"value":"%b"}' % (b"y" * (size - len(empty))))


def chunked(body: bytes, size: int) -> bytes:
    """A request whose body comes in chunks of this size."""
    fields = {"Content-Type": JSON, "Accept": JSON, "Transfer-Encoding": "chunked"}
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head("POST", "/mcp", fields) + chunks + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [LINE_BYTES_MAX - 1, LINE_BYTES_MAX])
@pytest.mark.parametrize("way", ["counted", "chunked"])
def test_a_body_up_to_the_limit_is_taken(serve: Serve, size: int, way: str) -> None:
    with serve({"bad": HOSTILE}) as there, RawConnection(there.port) as wire:
        body = call_of(size)
        answer = wire.ask(post(body) if way == "counted" else chunked(body, 65_521)).message
        assert len(answer["result"]["structuredContent"]["value"]) > size - 200
        there.calls_owed += 1


def test_a_body_that_says_it_is_too_large_is_refused_before_it_comes(serve: Serve) -> None:
    with serve({}) as there, RawConnection(there.port) as wire:
        fields = {"Content-Type": JSON, "Accept": JSON, "Content-Length": f"{LINE_BYTES_MAX + 1}"}
        wire.send(head("POST", "/mcp", fields))
        refusal = wire.reply()
        assert refusal.status == 413
        assert f"{LINE_BYTES_MAX}" in refusal.message["error"]["message"]
        assert wire.wait_closed() == b""


def test_a_client_that_sends_too_much_before_it_reads_still_learns_why(serve: Serve) -> None:
    with serve({}) as there, RawConnection(there.port) as wire:
        refusal = wire.ask(post(call_of(LINE_BYTES_MAX + MIB)))
        assert (refusal.status, refusal.get("connection")) == (413, "close")


@pytest.mark.parametrize("chunk_bytes", [8, 65_536])
def test_a_body_without_end_is_cut_at_the_limit(serve: Serve, chunk_bytes: int) -> None:
    chunk = b"%x\r\n%b\r\n" % (chunk_bytes, b"x" * chunk_bytes)
    portion = chunk * (MIB // len(chunk))
    with serve({}) as there, RawConnection(there.port) as wire, there.peak(2 * LINE_BYTES_MAX):
        fields = {"Content-Type": JSON, "Accept": JSON, "Transfer-Encoding": "chunked"}
        wire.send(head("POST", "/mcp", fields))
        sent = 0
        with suppress(ConnectionResetError, BrokenPipeError):
            while sent < ENDLESS_BODY_BYTES:
                wire.send(portion)
                sent += len(portion)
        overhead = len(chunk) / chunk_bytes
        assert sent <= LINE_BYTES_MAX * overhead + CUT_BYTES_MAX


@pytest.mark.parametrize("path", ["/mcp/default/messages", "/mcp"])
def test_a_message_beyond_the_limit_is_refused_on_every_transport(serve: Serve, path: str) -> None:
    with serve({}) as there, RawConnection(there.port) as wire:
        fields = {"Content-Type": JSON, "Accept": JSON, "Content-Length": f"{2**40}"}
        wire.send(head("POST", path, fields))
        assert wire.reply().status == 413


def padded(lines: list[str], size: int) -> bytes:
    """A head with these lines that has exactly this many bytes before its empty line."""
    raw = "\r\n".join([*lines, "X-Padding: "]).encode()
    return raw + b"p" * (size - len(raw)) + b"\r\n\r\n"


REQUEST_LINE: Final = "GET /healthz HTTP/1.1"
HOST: Final = "Host: 127.0.0.1"
MANY: Final = [f"X-{number}: {number}" for number in range(HEAD_FIELDS_MAX)]

HEADS: Final[dict[str, tuple[int, bytes]]] = {
    "as large as may be": (200, padded([REQUEST_LINE, HOST], HEAD_BYTES_MAX)),
    "one byte larger": (431, padded([REQUEST_LINE, HOST], HEAD_BYTES_MAX + 1)),
    "never ending": (431, b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * (4 * HEAD_BYTES_MAX)),
    "a target without end": (431, b"GET /" + b"x" * (4 * HEAD_BYTES_MAX)),
    "as many fields as may be": (
        200,
        "\r\n".join([REQUEST_LINE, HOST, *MANY[1:], "", ""]).encode(),
    ),
    "one field more": (431, "\r\n".join([REQUEST_LINE, HOST, *MANY, "", ""]).encode()),
    "twenty thousand fields": (431, b"GET /healthz HTTP/1.1\r\n" + b"A:\r\n" * 20_000 + b"\r\n"),
    "an empty line first": (200, b"\r\nGET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    "nothing but empty lines": (400, b"\r\n" * 120_000),
    "a folded field": (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n b\r\n\r\n"),
    "a folded first field": (400, b"GET /healthz HTTP/1.1\r\n Host: 127.0.0.1\r\n\r\n"),
    "a folded field with a tab": (400, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\r\n\tb\r\n\r\n"),
    "an underscore in a name": (
        400,
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent_Length: 3\r\n\r\n",
    ),
    "a NUL in a value": (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\0b\r\n\r\n"),
    "a NUL in a name": (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX\0Y: a\r\n\r\n"),
    "a NUL in the target": (400, b"GET /health\0z HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    "a bare line feed": (400, b"GET /healthz HTTP/1.1\nHost: 127.0.0.1\r\n\r\n"),
    "a bare line feed in a value": (
        400,
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\nHost: evil.example\r\n\r\n",
    ),
    "a bare carriage return": (
        400,
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\rb\r\n\r\n",
    ),
    "an escape in a value": (400, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: \x1b[31m\r\n\r\n"),
    "a space before the colon": (400, b"GET /healthz HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n"),
    "no colon": (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nnonsense\r\n\r\n"),
    "no name": (400, b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n: x\r\n\r\n"),
    "two lengths": (
        400,
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
    ),
    "a list of lengths": (
        400,
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3, 3\r\n\r\n",
    ),
    "a signed length": (
        400,
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: +3\r\n\r\n",
    ),
    "a length and chunks": (
        400,
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 3\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "chunks twice": (
        400,
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    "chunks in disguise": (
        400,
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
    ),
    "another protocol": (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    "the preface of HTTP/2": (505, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/0.9": (505, b"GET /healthz\r\n\r\n"),
    "a version to come": (400, b"GET /healthz HTTP/3.0\r\nHost: 127.0.0.1\r\n\r\n"),
    "bytes beyond ASCII in the target": (400, b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
}


def test_heads_are_held_to_the_rules_and_to_the_limits(serve: Serve) -> None:
    with serve({}) as there:
        for name, (status, raw) in HEADS.items():
            with RawConnection(there.port) as wire:
                wire.send(raw)
                reply = wire.reply()
                assert reply.status == status, (name, reply)
                if status != 200:
                    # Nobody knows where the next request would begin.
                    assert reply.get("connection") == "close", name
                    wire.wait_closed()


def test_what_follows_a_refused_head_is_not_taken_for_a_request(serve: Serve) -> None:
    """Both ends must agree where a message ends; a second opinion is how requests are smuggled."""
    smuggled = post(tool_call("neighbour__touch"))
    before = (
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Accept: application/json, text/event-stream\r\n"
    )
    with serve({}) as there:
        for fields in (
            b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n0\n\n",
            b"Transfer-Encoding: chunked\r\n\r\n0 x\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
            b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
            b"Content-Length: 0\r\nContent-Length: 7\r\n\r\n",
        ):
            with RawConnection(there.port) as wire:
                wire.send(before + fields + smuggled)
                said = wire.wait_closed()
                assert said.count(b"Content-Length: ") == 1, (fields, said)
                assert said.startswith(b"HTTP/1.1 400 "), (fields, said)
        with closing(RawHttpClient(there.port)) as visitor:
            assert text_of(visitor.call("neighbour__touch")).endswith("version 1.")


def test_requests_sent_without_waiting_are_answered_in_order(serve: Serve) -> None:
    with serve({}) as there, RawConnection(there.port) as wire:
        pings = [post(request("ping", id=number)) for number in range(PIPELINED_REQUESTS)]
        with sending(wire, b"".join(pings)):
            for number in range(PIPELINED_REQUESTS):
                assert wire.reply().message == {"jsonrpc": "2.0", "id": number, "result": {}}
