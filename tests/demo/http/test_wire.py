"""Requests cut from bytes."""

import asyncio

import pytest

from anyport.demo.http import wire
from anyport.demo.http.wire import BadHttp, HttpRequest, parse_head, read_request

HOST = b"Host: here\r\n"


def read(text: bytes, *, more: bool = False) -> HttpRequest | None:
    """What is read from these bytes; unless there is `more` to come, nothing follows them."""

    async def run() -> HttpRequest | None:
        reader = asyncio.StreamReader(limit=wire.HEAD_BYTES_MAX)
        reader.feed_data(text)
        if not more:
            reader.feed_eof()
        return await read_request(reader, written.append)

    written: list[bytes] = []
    request = asyncio.run(run())
    assert written == ([b"HTTP/1.1 100 Continue\r\n\r\n"] if b"Expect" in text else [])
    return request


def test_a_request_is_read_to_its_end() -> None:
    request = read(b"POST /a/b?c=d&e=%20 HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\nhi")

    assert request is not None
    assert (request.method, request.path, request.query) == ("POST", "/a/b", {"c": "d", "e": " "})
    assert (request.body, request.headers.get("HOST")) == (b"hi", "here")
    assert request.keeps_alive and request.takes_chunks


def test_chunks_are_put_together() -> None:
    chunks = b"2;x=y\r\nhi\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
    request = read(b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: Chunked\r\n\r\n" + chunks)

    assert request is not None and request.body == b"hi0123456789"


def test_a_client_that_waits_to_be_told_so_is_told_to_go_on() -> None:
    fields = b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\nx"

    assert read(b"POST / HTTP/1.1\r\n" + HOST + fields) is not None


@pytest.mark.parametrize("text", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_a_connection_may_end_at_any_place(text: bytes) -> None:
    assert read(text) is None
    assert read(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99\r\n\r\n" + text) is None


@pytest.mark.parametrize(
    "head",
    [
        b"GET /\r\n\r\n",
        b"GET / HTTP/2\r\nHost: x\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"G(T / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET //[ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: x\r\nhost: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nspace : y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\nX: y\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: \x00\r\n\r\n",
    ],
)
def test_a_head_that_could_be_misread_is_refused(head: bytes) -> None:
    with pytest.raises(BadHttp) as refused:
        parse_head(head)

    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"Transfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        (b"Content-Length: -1\r\n\r\n", 400),
        (b"Content-Length: +1\r\n\r\n", 400),
        (b"Content-Length: \xb2\r\n\r\n", 400),
        (b"Content-Length: 999999999\r\n\r\n", 413),
        (b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 17 + b"\r\n", 400),
        (b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFF\r\n", 413),
        (b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 20_000, 431),
        (b"X: " + b"y" * 200_000, 431),
    ],
)
def test_a_body_whose_end_is_in_doubt_is_refused(rest: bytes, status: int) -> None:
    with pytest.raises(BadHttp) as refused:
        read(b"POST / HTTP/1.1\r\n" + HOST + rest, more=True)

    assert refused.value.status == status


def test_a_request_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "READ_SECONDS_MAX", 0.01)

    with pytest.raises(BadHttp) as refused:
        read(b"GET / HTTP/1.1\r\n", more=True)

    assert refused.value.status == 408


@pytest.mark.parametrize(
    ("version", "fields", "keeps"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: x, Close\r\n", False),
        (b"1.0", b"Connection: keep-alive\r\n", False),
    ],
)
def test_an_old_or_a_departing_client_is_not_kept(
    version: bytes, fields: bytes, keeps: bool
) -> None:
    request = parse_head(b"GET / HTTP/" + version + b"\r\n" + HOST + fields + b"\r\n")

    assert request.keeps_alive is keeps
