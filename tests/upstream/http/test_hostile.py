"""Servers that misbehave below MCP: each costs one call, and a bounded amount of memory."""

import gzip
import tracemalloc
import zlib
from collections.abc import Callable, Sequence

import pytest

from anyport.protocol.errors import Situation
from anyport.upstream.pending_call import Answer
from anyport.upstream.supervisor import ServerState
from anyport.wire.jsonrpc import Result
from tests.upstream.fakes import run, until
from tests.upstream.web import Heard, Reply, Scene, Web, call, lost, modern

BYTES_MAX = 100_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def bomb(mebibytes: int) -> bytes:
    squeezed = zlib.compressobj(wbits=31)
    parts = [squeezed.compress(b" " * (1 << 20)) for _ in range(mebibytes)]
    return b"".join(parts) + squeezed.flush()


def _squeezed(body: bytes) -> bytes:
    return HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


ATTACKS: dict[str, tuple[bytes, bool]] = {
    # What the server sends, and whether it then closes the connection.
    "a truncated body": (HEAD + b'Content-Length: 100\r\n\r\n{"jsonrpc"', True),
    "a truncated head": (b"HTTP/1.1 200 OK\r\nContent-", True),
    "a truncated chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nff\r\n{", True),
    "a truncated stream": (STREAM + b"Transfer-Encoding: chunked\r\n\r\n6\r\ndata: ", True),
    "no HTTP at all": (b"SSH-2.0-OpenSSH_9.7\r\n\r\n", False),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, False),
    "no end of digits": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"0" * 2000, False),
    "no number": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", False),
    "two lengths": (HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", False),
    "a length and chunks": (
        HEAD + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        False,
    ),
    "a body over the limit": (
        HEAD + b"Content-Length: %d\r\n\r\n%b" % (2 * BYTES_MAX, b" " * 2 * BYTES_MAX),
        False,
    ),
    "chunks over the limit": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n%b\r\n" % (b" " * 1024) * 200,
        False,
    ),
    "a body without an end": (HEAD + b"\r\n" + b" " * 2 * BYTES_MAX, False),
    "a gzip bomb": (_squeezed(bomb(64)), False),
    "a gzip bomb in a stream": (
        STREAM + b"Content-Encoding: gzip\r\n\r\n" + bomb(64),
        False,
    ),
    "no gzip": (_squeezed(b"not at all"), False),
    "an unknown coding": (HEAD + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}", False),
    "an endless event": (STREAM + b"\r\ndata: " + b"x" * 3 * BYTES_MAX, False),
    "an endless comment": (STREAM + b"\r\n:" + b"x" * 3 * BYTES_MAX, False),
    "an event over the limit": (
        STREAM + b"\r\ndata: " + b"x" * (BYTES_MAX + 1) + b"\n\n",
        True,
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_reply_that_is_none_costs_that_call_alone(attack: str) -> None:
    raw, closes = ATTACKS[attack]

    def site(heard: Heard, reply: Reply) -> None:
        if heard.fields["mcp-name"] != "attack":
            reply.json({"id": heard.id, "result": {}})
            return
        reply.send(raw)
        if closes:
            reply.writer.close()

    async def scene() -> None:
        async with Web(modern(site)) as web, Scene(web.url, message_bytes_max=BYTES_MAX) as at:
            connection = await at.connected()
            tracemalloc.start()
            found = await lost(connection, "attack")
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()

            assert found.situation is Situation.MISBEHAVED
            assert found.reason.startswith(("failed to answer: ", "sent an event of", "closed its"))
            assert peak < 20 * BYTES_MAX
            assert at.supervisor.state is ServerState.READY
            assert isinstance(await call(connection), Result)
            assert at.broken == []

    run(scene)


def test_a_gzipped_answer_is_read() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        body = b'{"jsonrpc":"2.0","id":%d,"result":{}}' % heard.id
        reply.send(_squeezed(gzip.compress(body, mtime=0)))

    async def scene() -> None:
        async with Web(modern(site)) as web, Scene(web.url) as at:
            assert isinstance(await call(await at.connected()), Result)

    run(scene)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_an_answer_may_come_in_the_smallest_portions(size: int) -> None:
    async def site(heard: Heard, reply: Reply) -> None:
        body = b'data: {"jsonrpc":"2.0","id":%d,"result":{}}\r\n\r\n' % heard.id
        raw = STREAM + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
        whole = raw % (len(body), body)
        for start in range(0, len(whole), size):
            reply.send(whole[start : start + size])
            await reply.writer.drain()

    async def scene() -> None:
        async with Web(modern(site)) as web, Scene(web.url) as at:
            connection = await at.connected()
            for _ in range(3):
                assert isinstance(await call(connection), Result)

    run(scene)


@pytest.mark.parametrize(
    "say",
    [
        lambda reply: reply.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
        lambda reply: reply.cut(),
        lambda reply: reply.send(b"junk"),
    ],
)
def test_what_a_server_says_unasked_between_two_calls_harms_neither(
    say: Callable[[Reply], None],
) -> None:
    def site(heard: Heard, reply: Reply) -> None:
        reply.json({"id": heard.id, "result": {"n": heard.id}})

    async def scene() -> None:
        async with Web(modern(site)) as web, Scene(web.url) as at:
            connection = await at.connected()
            assert isinstance(await call(connection), Result)
            say(web.replies[-1])
            await until(web.replies[-1].gone.is_set)

            found = await call(connection)

            assert isinstance(found, Result)
            assert found.result == b'{"n": 3}'

    run(scene)


def test_events_that_are_no_messages_are_counted_and_passed_over() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        reply.stream()
        for odd in ("nonsense", "[]", '{"jsonrpc":"1.0"}', '{"id":99,"jsonrpc":"2.0","result":1}'):
            reply.event(odd)
        reply.event({"id": heard.id, "result": {}}, name="odd")
        reply.end()

    async def scene() -> None:
        async with Web(modern(site)) as web, Scene(web.url) as at:
            connection = await at.connected()
            assert isinstance(await call(connection), Result)
            assert connection.noise_count == 3
            assert connection.unsolicited_count == 1

    run(scene)


def test_a_taker_that_breaks_does_not_cost_the_events_after_it() -> None:
    def site(heard: Heard, reply: Reply) -> None:
        reply.stream()
        token = {"progressToken": heard.id}
        reply.event({"method": "notifications/progress", "params": token})
        reply.event({"id": heard.id, "result": {}})
        reply.end()

    async def scene() -> None:
        def breaks(reports: Sequence[bytes]) -> None:
            raise RuntimeError("broken")

        async with Web(modern(site)) as web, Scene(web.url) as at:
            connection = await at.connected()
            connection_loop_errors: list[object] = []
            at.loop.set_exception_handler(lambda _, told: connection_loop_errors.append(told))
            answers: list[Answer] = []
            connection.call("tools/call", b'{"name":"x"}', answers.append, breaks)
            await until(lambda: bool(answers))

            assert isinstance(answers[0], Result)
            assert len(connection_loop_errors) == 1

    run(scene)
