"""Replies over HTTP that no server should give, and what the caller of each must be told.

Each goes with the words that must stand in the error, and costs its own call alone.
"""

import gzip
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.journeys.scripted_http_server import ReceivedRequest, Reply, Script
from tests.rig.probe import MIB
from tests.rig.scale import scaled

MESSAGE_BYTES_MAX: Final = MIB
"""What a message of the servers here may have."""
BOMB_BYTES: Final = scaled(256, full=10 * 1024) * MIB
ENDLESS_BYTES: Final = 64 * MIB
FAR_SECONDS: Final = 10**9
TRICKLE_SECONDS: Final = 0.05
"""Between two bytes; nobody would wait for the thousands of them."""

JSON: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
EVENTS: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n\r\n"
GZIPPED: Final = b"Content-Encoding: gzip\r\n"

CUT: Final = "failed to answer: it closed the connection before its reply was complete"
NOT_HTTP: Final = "failed to answer: its response is not HTTP: "
TOO_LARGE: Final = f"failed to answer: its reply has more than {MESSAGE_BYTES_MAX} bytes"
MISCOMPRESSED: Final = "failed to answer: its response is not compressed as it says"
ENDLESS: Final = "bytes without an end"
TIMED_OUT: Final = "Tool execution timeout (1s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidReply:
    """One kind of reply."""

    play: Script
    words: str
    """What the error says of it."""


def sends(make: bytes | Callable[[], bytes], words: str) -> InvalidReply:
    """Sends this, and then waits for the gateway to hang up."""

    def play(_: ReceivedRequest, back: Reply) -> None:
        back.send(make if isinstance(make, bytes) else make())
        back.wait_gone()

    return InvalidReply(play=play, words=words)


def breaks_off(raw: bytes, words: str = CUT) -> InvalidReply:
    """Sends this, and hangs up."""

    def play(_: ReceivedRequest, back: Reply) -> None:
        back.send(raw)
        raise ConnectionError

    return InvalidReply(play=play, words=words)


def answers(status: int, body: bytes, kind: str, words: str, **fields: str) -> InvalidReply:
    """A whole reply, which is no message."""
    return InvalidReply(play=lambda _, back: back.whole(status, body, kind, **fields), words=words)


def goes_on(first: bytes, portion: bytes, words: str) -> InvalidReply:
    """Sends something, and then the same again and again."""

    def play(heard: ReceivedRequest, back: Reply) -> None:
        back.send(first)
        for _ in range(ENDLESS_BYTES // len(portion)):
            back.send(portion)
        back.wait_gone()

    return InvalidReply(play=play, words=words)


def trickles(raw: bytes) -> InvalidReply:
    """Sends this a byte at a time, slower than anybody would wait for."""

    def play(_: ReceivedRequest, back: Reply) -> None:
        for byte in raw:
            back.send(bytes([byte]))  # Fails once the gateway has hung up.
            time.sleep(TRICKLE_SECONDS)

    return InvalidReply(play=play, words=TIMED_OUT)


def redirects(status: int, where: str, words: str) -> InvalidReply:
    """Sends the caller elsewhere; `@` is where it was."""

    def play(heard: ReceivedRequest, back: Reply) -> None:
        back.whole(status, Location=where.replace("@", heard.target))

    return InvalidReply(play=play, words=words)


@cache
def bomb(size: int) -> bytes:
    """Next to nothing, which becomes this much."""
    squeezed = zlib.compressobj(1, wbits=31)
    portion = b" " * MIB
    parts = [squeezed.compress(portion) for _ in range(size // MIB)]
    return b"".join(parts) + squeezed.flush()


def of_length(raw: bytes) -> bytes:
    """A body behind its length."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(raw), raw)


PORTION: Final = b"x" * 65_536
NO_MESSAGE: Final = "which is no MCP message"
NOT_FOLLOWED: Final = "that is not followed"

INVALID_REPLIES: Final[Mapping[str, InvalidReply]] = {
    "half_a_head": breaks_off(b"HTTP/1.1 200 OK\r\nContent-"),
    "half_a_body": breaks_off(JSON + b'Content-Length: 100\r\n\r\n{"jsonrpc"'),
    "half_a_chunk": breaks_off(JSON + CHUNKED + b'ff\r\n{"jsonrpc"'),
    "half_a_stream": breaks_off(EVENTS + CHUNKED + b"6\r\ndata: "),
    "half_an_archive": sends(
        JSON + GZIPPED + of_length(gzip.compress(b'{"jsonrpc":"2.0"}' * 99)[:20]), MISCOMPRESSED
    ),
    "an_empty_stream": InvalidReply(
        play=lambda _, back: back.send(EVENTS + CHUNKED + b"0\r\n\r\n"),
        words="closed its stream before it had answered",
    ),
    "no_reply": breaks_off(b""),
    "another_protocol": sends(b"SSH-2.0-OpenSSH_9.7\r\n\r\n", NOT_HTTP),
    "two_lengths": sends(JSON + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", NOT_HTTP),
    "a_bomb": sends(lambda: JSON + GZIPPED + of_length(bomb(BOMB_BYTES)), TOO_LARGE),
    "a_bomb_of_events": sends(lambda: EVENTS + GZIPPED + b"\r\n" + bomb(BOMB_BYTES), ENDLESS),
    "no_archive": sends(JSON + GZIPPED + of_length(b"not at all"), MISCOMPRESSED),
    "a_page": answers(
        200, b"<!doctype html><title>Log in</title>", "text/html", f"text/html, {NO_MESSAGE}"
    ),
    "nothing": answers(200, b"", "", f"HTTP 200 and nothing, {NO_MESSAGE}"),
    "another_message": answers(200, b'{"hello": "world"}', "application/json", NO_MESSAGE),
    "an_array": answers(200, b"[]", "application/json", NO_MESSAGE),
    "a_promise": answers(202, b"", "", "accepted the request (HTTP 202) but did not answer it"),
    "a_wall": answers(401, b"", "", "wants authorization (HTTP 401): set headers"),
    "a_circle": redirects(307, "@", NOT_FOLLOWED),
    "a_longer_circle": redirects(308, "@?x", NOT_FOLLOWED),
    "elsewhere": redirects(307, "http://127.0.0.2:9/mcp", NOT_FOLLOWED),
    "found": redirects(302, "@", NOT_FOLLOWED),
    "see_other": redirects(303, "@", NOT_FOLLOWED),
    "a_head_without_end": goes_on(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 10_000, NOT_HTTP),
    "a_body_without_end": goes_on(JSON + b"\r\n", PORTION, TOO_LARGE),
    "chunks_without_end": goes_on(
        JSON + CHUNKED, b"%x\r\n%b\r\n" % (len(PORTION), PORTION), TOO_LARGE
    ),
    "interim_without_end": goes_on(b"", b"HTTP/1.1 102 Processing\r\n\r\n" * 1000, NOT_HTTP),
    "an_event_without_end": goes_on(EVENTS + b"\r\ndata: ", PORTION, ENDLESS),
    "a_comment_without_end": goes_on(EVENTS + b"\r\n:", PORTION, ENDLESS),
    "lines_without_end": goes_on(EVENTS + b"\r\n", b"data: x\n" * 8192, ENDLESS),
    "comments_for_ever": trickles(EVENTS + b"\r\n" + b":\n\n" * 10_000),
    "a_byte_at_a_time": trickles(JSON + of_length(b" " * 10_000)),
    "a_head_at_a_time": trickles(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000),
}

LATER: Final[Mapping[str, InvalidReply]] = {
    "much_later": answers(503, b"", "", "HTTP 503", Retry_After=f"{FAR_SECONDS}"),
    "too_often": answers(429, b"", "", "HTTP 429", Retry_After=f"{FAR_SECONDS}"),
}
"""Replies after which a server gets no calls for a while, because it has asked for that."""


def fine(other: Script) -> Script:
    """A server with a tool `fine`, which is answered well; what is called else is up to `other`."""

    def call(heard: ReceivedRequest, back: Reply) -> None:
        params = heard.message["params"]
        if heard.method != "tools/call":
            back.error(heard, -32601, "Method not found")
        elif params["name"] == "fine":
            content = [{"type": "text", "text": params["arguments"]["text"]}]
            back.result(heard, {"resultType": "complete", "content": content})
        else:
            other(heard, back)

    return call


def nothing_else(heard: ReceivedRequest, back: Reply) -> None:
    """There is no other tool."""
    back.error(heard, -32602, "Unknown tool")


@fine
def called(heard: ReceivedRequest, back: Reply) -> None:
    """Replies as the name of the tool that is called says."""
    INVALID_REPLIES[heard.message["params"]["name"]].play(heard, back)
