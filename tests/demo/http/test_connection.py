"""Responses, and the connections that carry one after the other."""

import asyncio
import json

import pytest

from anyport.demo.http import connection as module
from anyport.demo.http.connection import JSON, UNREAD_BYTES_MAX, Response
from tests.demo.driver import MODERN
from tests.demo.http.driver import HttpDemo, modern, post_of
from tests.demo.http.fakes import FakeTransport

LIST = post_of(
    modern("tools/list"), f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/list"
).replace(b"Connection: close\r\n", b"")
BYE = b"GET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def test_a_whole_response_says_how_long_it_is() -> None:
    transport = FakeTransport()
    response = Response(transport, chunks=True, closes=False)

    response.whole(200, JSON, b"{}")
    response.whole(500, JSON, b"never")

    assert transport.written == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert response.over.is_set()


@pytest.mark.parametrize("chunks", [True, False])
def test_events_come_in_chunks_or_until_the_connection_is_closed(chunks: bool) -> None:
    transport = FakeTransport()
    response = Response(transport, chunks=chunks, closes=False)

    response.open_events({"X": "y"})
    response.event(b"data: 1\n\n")
    response.end()

    assert (b"Transfer-Encoding" in transport.written) is chunks
    assert (b"Connection: close" in transport.written) is not chunks
    expected = b"9\r\ndata: 1\n\n\r\n0\r\n\r\n" if chunks else b"data: 1\n\n"
    assert transport.body() == expected


def test_what_is_written_behind_the_client_is_dropped() -> None:
    transport = FakeTransport()
    response = Response(transport, chunks=True, closes=False)
    lost: list[str] = []
    response.on_lost = lambda: lost.append("lost")

    response.lose()
    response.lose()
    response.open_events({})
    response.event(b":\n\n")
    response.end()

    assert (lost, transport.written) == (["lost"], b"")


def test_a_client_that_does_not_read_is_cut_off() -> None:
    transport = FakeTransport()
    response = Response(transport, chunks=True, closes=False)
    response.open_events({})
    assert not transport.aborted

    transport.unread = UNREAD_BYTES_MAX + 1
    response.event(b":\n\n")

    assert transport.aborted


def test_streams_are_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_ALIVE_SECONDS", 0.001)

    class Ends(FakeTransport):
        def write(self, data: bytes | bytearray | memoryview) -> None:
            super().write(data)
            if b":\n\n" in self.written:
                response.over.set()

    response = Response(Ends(), chunks=True, closes=False)
    response.open_events({})

    asyncio.run(asyncio.wait_for(response.wait_over(), 20))


def test_requests_on_one_connection_are_answered_in_order() -> None:
    with HttpDemo() as demo:
        answers = demo.raw(LIST + LIST + BYE)

        assert [answers.count(status) for status in (b" 200 OK", b" 404 Not Found")] == [2, 1]
        assert answers.count(b"Connection: close") == 1


def test_what_is_no_request_gets_a_status_and_the_end_of_the_connection() -> None:
    with HttpDemo() as demo:
        assert demo.raw(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert demo.raw(LIST + b"\r\n" + LIST + b"?\r\n\r\n").count(b"HTTP/1.1 ") == 3


def test_a_client_that_says_too_much_is_told_so_while_it_still_speaks() -> None:
    with HttpDemo() as demo:
        head = b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n"

        assert demo.raw(head + b"x" * 3_000_000).startswith(b"HTTP/1.1 413 ")


def test_an_old_client_gets_a_stream_that_ends_with_the_connection() -> None:
    with HttpDemo() as demo:
        slow = {"name": "slow", "arguments": {"seconds": 0, "steps": 1}}
        request = post_of(
            modern("tools/call", slow, logLevel="info"),
            f"MCP-Protocol-Version: {MODERN}",
            "Mcp-Method: tools/call",
            "Mcp-Name: slow",
        )
        head, _, body = demo.raw(request.replace(b"HTTP/1.1", b"HTTP/1.0")).partition(b"\r\n\r\n")

        assert b"chunked" not in head
        messages = [json.loads(line[6:]) for line in body.splitlines() if line[:5] == b"data:"]
        assert [message.get("id") for message in messages] == [None, None, "m"]
