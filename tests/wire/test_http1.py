"""HTTP/1.1 heads and chunked bodies: whatever two parsers could read differently is refused."""

from itertools import combinations_with_replacement

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.wire.http1 import (
    CHUNK_LINE_BYTES_MAX,
    HEAD_BYTES_CACHED_MAX,
    HEAD_BYTES_MAX,
    HEAD_FIELDS_MAX,
    HEADS_CACHED_MAX,
    LAST_CHUNK,
    TRAILER_BYTES_MAX,
    BadMessage,
    ChunkedDecoder,
    HeadCache,
    encode_chunk,
    encode_response_head,
    read_request_head,
    read_response_head,
)

POST = b"POST /mcp/dev?a=b HTTP/1.1\r\nHost: x"


def request_with(*lines: bytes) -> bytes:
    return b"\r\n".join([POST, *lines])


def status_of(raw: bytes) -> int:
    """The status of a refused head."""
    with pytest.raises(BadMessage) as refused:
        read_request_head(raw)
    assert str(refused.value)
    return refused.value.status


def test_a_head_is_read_in_order_with_names_in_lower_case() -> None:
    head = read_request_head(request_with(b"Accept:  a/b \t", b"ACCEPT: c/d", b"Content-Length: 7"))

    assert (head.method, head.target) == ("POST", "/mcp/dev?a=b")
    assert head.fields == (
        ("host", "x"),
        ("accept", "a/b"),
        ("accept", "c/d"),
        ("content-length", "7"),
    )
    assert head.get("accept") == "a/b"
    assert head.all("accept") == ["a/b", "c/d"]
    assert (head.get("none"), head.all("none")) == (None, [])
    assert head.body_length == 7


def test_a_value_may_be_empty_or_in_latin_letters() -> None:
    head = read_request_head(request_with(b"X-Empty:", b"X-Caf\x65: caf\xe9"))

    assert head.get("x-empty") == ""
    assert head.get("x-cafe") == "café"


@pytest.mark.parametrize(
    ("lines", "length"),
    [
        ([], 0),
        ([b"Content-Length: 0"], 0),
        ([b"content-length: 123"], 123),
        ([b"Transfer-Encoding: chunked"], None),
        ([b"transfer-encoding: CHUNKED"], None),
    ],
)
def test_a_body_is_counted_or_chunked(lines: list[bytes], length: int | None) -> None:
    assert read_request_head(request_with(*lines)).body_length == length


@pytest.mark.parametrize(
    ("raw", "kept"),
    [
        (request_with(), True),
        (request_with(b"Connection: keep-alive"), True),
        (request_with(b"Connection: close"), False),
        (request_with(b"Connection: Upgrade, Close"), False),
        (request_with(b"Connection: upgrade", b"Connection: close"), False),
        (b"GET / HTTP/1.0\r\nHost: x", False),
        (b"GET / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive", False),
    ],
)
def test_a_connection_is_kept_alive_unless_it_says_close(raw: bytes, kept: bool) -> None:
    assert read_request_head(raw).keep_alive is kept


@pytest.mark.parametrize(
    ("lines", "expects"),
    [
        ([b"Expect: 100-continue"], True),
        ([b"Expect: 100-Continue"], True),
        ([b"Expect: 200-maybe"], False),
        ([b"Expect: 100-continue", b"Expect: 100-continue"], False),
        ([], False),
    ],
)
def test_expect_continue_is_read_from_the_head(lines: list[bytes], expects: bool) -> None:
    assert read_request_head(request_with(*lines)).expects_continue is expects


@pytest.mark.parametrize(
    "line",
    [
        b"X-A: b\r\n folded",
        b"X-A: b\r\n\tfolded",
        b"X-A: b\nX-B: c",
        b"X-A: b\rX-B: c",
        b"X-A: b\r\r\nX-B: c",
        b"X-A: b\n\nGET / HTTP/1.1",
        b"X-A: b\0c",
        b"X-A: b\x01c",
        b"X-A: b\x7fc",
        b"X-A: \x1b[31m",
        b"X_A: b",
        b"content_length: 5",
        b"X A: b",
        b"X-A : b",
        b": b",
        b"X-A",
        b"X-\xe9: b",
        b'X-"A": b',
        b"Content-Length: 5\r\nContent-Length: 5",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 5, 5",
        b"Content-Length: +5",
        b"Content-Length: -5",
        b"Content-Length: 0x5",
        b"Content-Length: 5 5",
        b"Content-Length:",
        b"Content-Length: \xb2",
        b"Content-Length: 99999999999999999999",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    ],
)
def test_a_field_that_two_readers_could_understand_differently_is_refused(line: bytes) -> None:
    assert status_of(request_with(line)) == 400


@pytest.mark.parametrize(
    "coding", [b"gzip", b"gzip, chunked", b"chunked, chunked", b"identity", b"xchunked", b""]
)
def test_no_other_transfer_encoding_is_known(coding: bytes) -> None:
    assert status_of(request_with(b"Transfer-Encoding: " + coding)) in (400, 501)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"hello",
        b"GET /",
        b"GET  / HTTP/1.1\r\nHost: x",
        b"GET / HTTP/1.1 \r\nHost: x",
        b"GET /a b HTTP/1.1\r\nHost: x",
        b"get / HTTP/1.1\r\nHost: x",
        b"GET / HTTQ/1.1\r\nHost: x",
        b"GET /\xff HTTP/1.1\r\nHost: x",
        b" GET / HTTP/1.1\r\nHost: x",
        b"PRI * HTTP/2.0",
        b"GET / HTTP/2.0\r\nHost: x",
        b"GET / HTTP/0.9\r\nHost: x",
        b"GET / HTTP/1.2\r\nHost: x",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_request_of_ours_is_refused(raw: bytes) -> None:
    assert status_of(raw) in (400, 505)


def test_a_request_to_change_the_protocol_is_read_as_if_it_had_not_asked() -> None:
    head = read_request_head(request_with(b"Connection: Upgrade", b"Upgrade: websocket"))

    assert head.method == "POST"


def test_a_head_has_a_limit_in_bytes_and_in_fields() -> None:
    room = HEAD_BYTES_MAX - len(request_with(b"X: "))
    fits, long = (request_with(b"X: " + b"y" * size) for size in (room, room + 1))
    few, many = (
        request_with(*[b"X: y"] * count) for count in (HEAD_FIELDS_MAX - 1, HEAD_FIELDS_MAX)
    )

    assert len(fits) == HEAD_BYTES_MAX
    assert read_request_head(fits).get("x") == "y" * room
    assert status_of(long) == 431
    assert len(read_request_head(few).fields) == HEAD_FIELDS_MAX
    assert status_of(many) == 431


@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_refused(raw: bytes) -> None:
    for read in (read_request_head, read_response_head):
        for head in (raw, POST + b"\r\n" + raw, b"HTTP/1.1 200 OK\r\n" + raw):
            try:
                read(head)
            except BadMessage as refused:
                assert 400 <= refused.status < 600


@given(st.text(st.characters(codec="latin-1"), max_size=20), st.sampled_from(["a", "x-b", "mcp-c"]))
def test_a_field_never_becomes_two(value: str, name: str) -> None:
    raw = request_with(f"{name}: {value}".encode("latin-1"))
    try:
        head = read_request_head(raw)
    except BadMessage:
        return

    assert len(head.fields) == 2
    assert head.fields[1] == (name, value.strip(" \t"))


REPLY = b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    ("raw", "length", "chunked", "kept"),
    [
        (REPLY + b"\r\nContent-Length: 5", 5, False, True),
        (REPLY + b"\r\nContent-Length: 5\r\nConnection: close", 5, False, False),
        (REPLY + b"\r\nTransfer-Encoding: chunked", None, True, True),
        (REPLY, None, False, False),
        (b"HTTP/1.1 204 No Content", 0, False, True),
        (b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked", 0, False, True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99", 0, False, True),
        (b"HTTP/1.1 100 Continue", 0, False, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5", 5, False, False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive", 5, False, True),
    ],
)
def test_a_response_head_has_framing_and_keep_alive(
    raw: bytes, length: int | None, chunked: bool, kept: bool
) -> None:
    head = read_response_head(raw)

    assert (head.body_length, head.chunked, head.keep_alive) == (length, chunked, kept)


@pytest.mark.parametrize(
    ("line", "media_type"),
    [
        (b"Content-Type: application/json", "application/json"),
        (b"content-type: Text/Event-Stream; charset=utf-8", "text/event-stream"),
        (b"X: y", ""),
    ],
)
def test_the_media_type_of_a_response_has_no_parameters(line: bytes, media_type: str) -> None:
    assert read_response_head(REPLY + b"\r\n" + line).media_type == media_type


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1",
        b"HTTP/1.1 OK",
        POST,
        REPLY + b"\r\nContent-Length: 1\r\nContent-Length: 1",
        REPLY + b"\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        REPLY + b"\r\nTransfer-Encoding: gzip, chunked",
        REPLY + b"\r\nX: y\r\n folded",
        REPLY + b"\r\nX_Y: z",
    ],
)
def test_a_response_without_a_clear_end_is_refused(raw: bytes) -> None:
    with pytest.raises(BadMessage):
        read_response_head(raw)


class Maker:
    """Counts what it parses."""

    def __init__(self) -> None:
        self.made: list[bytes] = []

    def __call__(self, raw: bytes) -> int:
        if raw == b"bad":
            raise BadMessage(400, "bad")
        self.made.append(raw)
        return len(self.made)


def test_a_head_that_was_seen_is_not_read_again() -> None:
    maker = Maker()
    heads = HeadCache(maker)

    assert [heads.parse(raw) for raw in (b"a", b"b", b"a", b"a")] == [1, 2, 1, 1]
    assert maker.made == [b"a", b"b"]


def test_what_was_made_of_heads_can_be_forgotten() -> None:
    heads = HeadCache(Maker())
    known = heads.cached
    heads.parse(b"a")

    heads.clear()

    assert heads.parse(b"a") == 2
    assert heads.cached is known


def test_long_and_bad_heads_are_not_remembered() -> None:
    heads = HeadCache(Maker())
    fits, long = b"x" * HEAD_BYTES_CACHED_MAX, b"x" * (HEAD_BYTES_CACHED_MAX + 1)
    heads.parse(fits)
    heads.parse(long)
    with pytest.raises(BadMessage):
        heads.parse(b"bad")

    assert list(heads.cached) == [fits]


def test_the_memory_of_heads_is_bounded() -> None:
    heads = HeadCache(Maker())
    for number in range(3 * HEADS_CACHED_MAX):
        heads.parse(b"%d" % number)
        assert len(heads.cached) <= HEADS_CACHED_MAX


def test_a_reply_is_written_with_its_fields_and_its_length() -> None:
    raw = encode_response_head(404, (("x-a", "b"), ("allow", "POST")), b"Content-Length: 3\r\n")

    assert raw == (b"HTTP/1.1 404 Not Found\r\nx-a: b\r\nallow: POST\r\nContent-Length: 3\r\n\r\n")
    assert encode_response_head(299, (), b"") == b"HTTP/1.1 299 Unknown\r\n\r\n"


# Chunked bodies.


def test_chunks_can_be_written_and_read_back() -> None:
    raw = encode_chunk(b"hello ") + encode_chunk(b"x" * 300) + LAST_CHUNK

    chunks = ChunkedDecoder()

    assert b"".join(chunks.feed(raw)) == b"hello " + b"x" * 300
    assert chunks.done
    assert chunks.unused_data == b""


BODY = (
    b'5\r\nhello\r\n1 ;\tname="a b"\r\n,\r\n0006 \r\n world\r\n'
    b"0\r\nX-Digest: \xc3\xa4\r\nEmpty:\r\n\r\nGET /"
)


def test_a_chunked_body_split_anywhere_is_the_same_body() -> None:
    for first, second in combinations_with_replacement(range(len(BODY) + 1), 2):
        chunks = ChunkedDecoder()
        pieces = [
            piece
            for portion in (BODY[:first], BODY[first:second], BODY[second:])
            if not chunks.done
            for piece in chunks.feed(portion)
        ]

        assert b"".join(pieces) == b"hello, world"
        assert chunks.done
        assert b"GET /".startswith(chunks.unused_data)


def test_a_chunked_body_byte_by_byte_is_the_same_body() -> None:
    chunks = ChunkedDecoder()
    end = BODY.index(b"GET")
    pieces = [piece for at in range(end) for piece in chunks.feed(BODY[at : at + 1])]

    assert b"".join(pieces) == b"hello, world"
    assert chunks.done


@pytest.mark.parametrize(
    "raw",
    [
        b"\r\n",
        b"g\r\n",
        b"-5\r\nhello\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"5_0\r\n",
        b"\xb2\r\n",
        b"5 5\r\nhello\r\n",
        b"123456789\r\n",
        b";name=value\r\n",
        b"5\r\nhello!\r\n",
        b"5\r\nhello\n0\r\n\r\n",
        b"5\r\nhelloX\n",
        b"5\r\nhello\rX",
        b"5\r\nhello0\r\n\r\n",
        b"5\nhello\r\n0\n\n",
        b"0" * (CHUNK_LINE_BYTES_MAX + 1),
        b"5;" + b"x" * CHUNK_LINE_BYTES_MAX,
        b"0\r\n" + b"x" * (TRAILER_BYTES_MAX + 1),
        # A bare LF, which some parsers take for the end of the line; other control characters.
        b"5;a\nhello\r\nhello\r\n0\r\n\r\n",
        b"0;\n\r\n\r\n",
        b"5;a=\x00\r\nhello\r\n0\r\n\r\n",
        b"5;a\rb\r\nhello\r\n0\r\n\r\n",
        b"5;a\x7f\r\nhello\r\n0\r\n\r\n",
        b" 5\r\nhello\r\n0\r\n\r\n",
        b"\t5\r\nhello\r\n0\r\n\r\n",
        b"5\x0b\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n 0\r\n\r\n",
        # Trailer lines that are not fields, and fields that must not be trailers.
        b"0\r\nno field\r\n\r\n",
        b"0\r\nGET / HTTP/1.1\r\n\r\n",
        b"0\r\n: x\r\n\r\n",
        b"0\r\nName : x\r\n\r\n",
        b"0\r\n folded\r\n\r\n",
        b"0\r\nX: a\nY: b\r\n\r\n",
        b"0\r\nX: a\x00\r\n\r\n",
        b"0\r\nX_Y: a\r\n\r\n",
        b"0\r\nContent-Length: 5\r\n\r\n",
        b"0\r\ntransfer-encoding: chunked\r\n\r\n",
        b"0\r\nHost: other.example\r\n\r\n",
        b"0\r\nAuthorization: Bearer x\r\n\r\n",
        b"0\r\nMcp-Session-Id: x\r\n\r\n",
    ],
)
def test_what_is_no_chunked_body_is_refused(raw: bytes) -> None:
    for step in (1, 3, 100_000):
        chunks = ChunkedDecoder()

        with pytest.raises(BadMessage):
            for at in range(0, len(raw), step):
                chunks.feed(raw[at : at + step])
                assert not chunks.done


@pytest.mark.parametrize("step", [100, 100_000])
def test_trailers_are_bounded_however_they_come(step: int) -> None:
    raw = b"0\r\n" + b"X: y\r\n" * TRAILER_BYTES_MAX + b"\r\n"
    chunks = ChunkedDecoder()

    with pytest.raises(BadMessage):
        for at in range(0, len(raw), step):
            chunks.feed(raw[at : at + step])


@pytest.mark.parametrize("length", [b"5", b"5;" + b"x" * 2 * CHUNK_LINE_BYTES_MAX])
def test_extensions_are_bounded_even_when_they_come_with_the_chunk(length: bytes) -> None:
    raw = length + b"\r\nhello\r\n0\r\n\r\n"
    chunks = ChunkedDecoder()

    if len(length) == 1:
        assert chunks.feed(raw) == [b"hello"]
        return
    with pytest.raises(BadMessage):
        chunks.feed(raw)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=6), st.data())
def test_any_body_survives_any_cut(pieces: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(map(encode_chunk, pieces)) + LAST_CHUNK + b"rest"
    chunks, got = ChunkedDecoder(), b""
    while not chunks.done:
        size = data.draw(st.integers(1, len(raw)))
        portion, raw = raw[:size], raw[size:]
        got += b"".join(chunks.feed(portion))

    assert got == b"".join(pieces)
    assert chunks.unused_data + raw == b"rest"
