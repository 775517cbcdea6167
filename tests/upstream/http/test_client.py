"""Requests to one origin: connections are kept, shared out, and never more than allowed."""

import asyncio
import os
import socket
from collections import Counter
from math import inf

import pytest

from anyport.upstream.http import client as module
from anyport.upstream.http import connection_reuse
from anyport.upstream.http.client import UNTRIED_MAX, HttpClient
from anyport.upstream.http.connection import KEPT_SECONDS_MAX, ClientConnection, HttpFailureKind
from anyport.upstream.http.connection_reuse import (
    SINGLE_USE_SECONDS_MAX,
    SINGLE_USES_MAX,
    SINGLE_USES_OF_KEEPER_MAX,
    ConnectionReuse,
)
from anyport.upstream.http.url import HttpUrl
from tests.upstream.fakes import run, until
from tests.upstream.http.handlers import RecordingHandler, reuse_of_keep_alive
from tests.upstream.web import Heard, Reply, Web

HEAD = b"POST /mcp HTTP/1.1\r\nHost: x\r\n"


def answering(heard: Heard, reply: Reply) -> None:
    reply.whole(200, heard.body)


class Held:
    """A site that answers when it is told to."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Heard, Reply]] = []

    def __call__(self, heard: Heard, reply: Reply) -> None:
        self.waiting.append((heard, reply))

    def answer_one(self) -> None:
        answering(*self.waiting.pop(0))


def client_to(
    web: Web, bytes_max: int = 10_000, reuse: ConnectionReuse | None = None
) -> HttpClient:
    """A client; unless said otherwise, its server has been seen to keep its connections."""
    return HttpClient(HttpUrl.parse(web.url), bytes_max, reuse=reuse or reuse_of_keep_alive())


def asked(
    client: HttpClient, body: bytes | None = b"{}", *, repeatable: bool = False
) -> RecordingHandler:
    told = RecordingHandler(repeatable=repeatable)
    client.request(HEAD, body, told)
    return told


def test_requests_in_a_row_share_a_connection() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            for number in range(5):
                body = b'{"n":%d}' % number
                assert (await asked(client, body).end()).body == body

            assert web.connections == 1
            assert web.heard[0].raw == HEAD + b"Content-Length: 7\r\n\r\n"
            client.close()

    run(scene)


def test_a_request_without_a_body_says_nothing_of_its_length() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            await asked(client, None).end()

            assert web.heard[0].raw == HEAD + b"\r\n"
            client.close()

    run(scene)


def test_requests_at_a_time_have_connections_of_their_own_which_are_kept() -> None:
    async def scene() -> None:
        site = Held()
        async with Web(site) as web:
            client = client_to(web)
            for _ in range(2):
                told = [asked(client, b'{"n":%d}' % number) for number in range(4)]
                await until(lambda: len(site.waiting) == 4)
                while site.waiting:
                    site.answer_one()
                bodies = [(await each.end()).body for each in told]
                assert bodies == [b'{"n":%d}' % number for number in range(4)]

            assert web.connections == 4
            client.close()

    run(scene)


def test_a_request_that_comes_while_another_gets_its_connection_has_one_of_its_own() -> None:
    async def scene() -> None:
        site = Held()
        loop = asyncio.get_running_loop()
        second = RecordingHandler()

        class First(RecordingHandler):
            """As soon as it has its connection, and in the same turn, the next one comes."""

            def __setattr__(self, name: str, value: object) -> None:
                super().__setattr__(name, value)
                if name == "http_connection" and value is not None:
                    loop.call_soon(client.request, HEAD, b'{"n":2}', second)

        async with Web(site) as web:
            client = client_to(web)
            client.request(HEAD, b'{"n":1}', First())

            # The server has both, although it has answered neither.
            await until(lambda: len(site.waiting) == 2)
            client.close()

    run(scene)


def test_more_requests_than_connections_wait_for_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 2)

    async def scene() -> None:
        site = Held()
        async with Web(site) as web:
            client = client_to(web)
            told = [asked(client, b'{"n":%d}' % number) for number in range(6)]
            for each in told:
                await until(lambda: bool(site.waiting))
                assert web.connections <= 2
                site.answer_one()
                await each.end()

            assert {each.body for each in told} == {b'{"n":%d}' % n for n in range(6)}
            assert web.connections == 2
            client.close()

    run(scene)


def test_requests_that_would_wait_for_too_long_a_queue_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1)
    monkeypatch.setattr(module, "WAITING_REQUESTS_MAX", 2)

    async def scene() -> None:
        site = Held()
        async with Web(site) as web:
            client = client_to(web)
            first = asked(client)
            await until(lambda: bool(site.waiting))
            waiting = [asked(client) for _ in range(2)]

            refused = await asked(client).end()

            assert refused.calls == ["failed"]
            assert refused.trouble is not None
            assert not refused.trouble.sent
            assert not any(each.calls for each in (first, *waiting))
            client.close()

    run(scene)


def test_a_request_that_was_given_up_while_it_waited_is_never_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1)

    async def scene() -> None:
        site = Held()
        async with Web(site) as web:
            client = client_to(web)
            first, second, third = RecordingHandler(), RecordingHandler(), RecordingHandler()
            client.request(HEAD, b"1", first)
            await until(lambda: bool(site.waiting))
            client.request(HEAD, b"2", second)
            client.request(HEAD, b"3", third)

            client.cancel(second)
            site.answer_one()
            await until(lambda: bool(site.waiting))
            site.answer_one()
            await third.end()

            assert [heard.body for heard in web.heard] == [b"1", b"3"]
            assert second.calls == []
            client.close()

    run(scene)


def test_giving_up_closes_the_connection_so_that_the_server_knows() -> None:
    async def scene() -> None:
        site = Held()
        async with Web(site) as web:
            client = client_to(web)
            told = RecordingHandler()
            client.request(HEAD, b"{}", told)
            await until(lambda: bool(site.waiting))

            client.cancel(told)

            await until(web.replies[0].gone.is_set)
            await until(lambda: not client.connections)
            assert told.calls == []
            client.close()

    run(scene)


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            await asked(client).end()
            web.replies[0].writer.close()
            await until(lambda: not client.connections)

            assert (await asked(client).end()).calls == ["answered"]
            assert web.connections == 2
            client.close()

    run(scene)


def closing(heard: Heard, reply: Reply) -> None:
    """Answers, and closes the connection without having said so."""
    answering(heard, reply)
    reply.writer.close()


def test_no_connection_is_used_twice_once_a_server_closed_two_without_saying_so() -> None:
    async def scene() -> None:
        async with Web(closing) as web:
            client = client_to(web)
            for _ in range(SINGLE_USES_MAX):
                await asked(client).end()
                await until(lambda: not client.connections)
            web.site = answering

            for number in range(1, 4):
                assert (await asked(client).end()).calls == ["answered"]
                assert client.idle == []
                assert web.connections == SINGLE_USES_MAX + number
            client.close()

    run(scene)


def grow_old(line: ClientConnection) -> None:
    """Nothing has come on it for so long that the server seems to keep it open."""
    line.idle_since -= SINGLE_USE_SECONDS_MAX


def test_what_must_not_be_sent_twice_waits_for_a_connection_that_the_server_kept_for_a_while() -> (
    None
):
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web, reuse=ConnectionReuse())
            for _ in range(3):
                await asked(client, repeatable=True).end()
            assert web.connections == 1, "used again at once, which shows nothing"
            watched = client.idle[0]

            for number in range(3):
                assert (await asked(client).end()).calls == ["answered"]
                assert web.connections == 2 + number
            await asked(client, repeatable=True).end()
            assert web.connections == 4, "there are others for what may be sent twice"
            assert watched.uses == 3, "it is left alone"

            grow_old(watched)
            for _ in range(5):
                assert (await asked(client).end()).calls == ["answered"]
            assert web.connections == 4
            client.close()

    run(scene)


def test_a_connection_that_nobody_used_shows_that_the_server_keeps_it() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web, reuse=ConnectionReuse())
            await asked(client, repeatable=True).end()
            grow_old(client.idle[0])
            await asked(client).end()
            assert web.connections == 1

            reuse = ConnectionReuse()
            another = client_to(web, reuse=reuse)
            await asked(another, repeatable=True).end()
            another._sweep(late=inf)
            assert reuse.risky
            grow_old(another.idle[0])
            another._sweep(late=inf)
            assert not reuse.risky, "without a call"
            client.close()
            another.close()

    run(scene)


def test_no_call_is_lost_to_a_server_that_closes_a_connection_shortly_after_each_answer() -> None:
    """It is alive when it is used again at once, and being closed when the first call comes."""

    async def scene() -> None:
        kept: list[Reply] = []

        def hasty(heard: Heard, reply: Reply) -> None:
            if heard.body == b"call" and reply.writer in [each.writer for each in kept]:
                reply.cut()  # Its time was over when that came.
            else:
                kept.append(reply)
                answering(heard, reply)

        async with Web(hasty) as web:
            client = client_to(web, reuse=ConnectionReuse())
            for _ in range(3):
                await asked(client, repeatable=True).end()
            assert web.connections == 1

            for _ in range(3):
                assert (await asked(client, b"call").end()).calls == ["answered"]
            client.close()

    run(scene)


def test_no_more_connections_are_kept_than_are_of_use_until_that_is_known() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web, reuse=ConnectionReuse())
            for _ in range(2 * UNTRIED_MAX):
                await asked(client).end()
            await until(lambda: len(client.connections) <= UNTRIED_MAX + 1)
            client.close()

    run(scene)


class Once:
    """Answers the first request on each connection, and closes it when the next one comes."""

    def __init__(self, first: bytes = b"") -> None:
        self.first = first
        """What it says before it closes."""
        self.served: Counter[asyncio.StreamWriter] = Counter()

    def __call__(self, heard: Heard, reply: Reply) -> None:
        self.served[reply.writer] += 1
        if self.served[reply.writer] == 1:
            answering(heard, reply)
        else:
            reply.send(self.first)
            reply.writer.close()


def test_a_request_lost_on_a_used_connection_is_sent_again_on_a_fresh_one() -> None:
    async def scene() -> None:
        site = Once()
        async with Web(site) as web:
            client = client_to(web)
            first, second = asked(client), asked(client)
            for each in (first, second):
                await each.end()
            assert web.connections == len(client.idle) == 2

            told = await asked(client, b'{"n":1}', repeatable=True).end()

            assert (told.calls, told.body) == (["answered"], b'{"n":1}')
            assert [heard.body for heard in web.heard[2:]] == [b'{"n":1}'] * 2
            assert web.connections == 3, "not on the other used one"
            client.close()

    run(scene)


def test_a_request_may_have_another_body_when_it_is_sent_again() -> None:
    async def scene() -> None:
        async with Web(Once()) as web:
            client = client_to(web)
            await asked(client).end()

            told = asked(client, b"1\r\n\r\n2", repeatable=True)
            told.again = b"Content-Length: 5\r\n\r\nlonger"
            await told.end()

            assert (told.calls, told.body) == (["answered"], told.again)
            assert web.heard[-1].raw == HEAD + b"Content-Length: %d\r\n\r\n" % len(told.again)
            client.close()

    run(scene)


def test_a_request_that_may_have_been_carried_out_is_not_sent_again() -> None:
    async def scene() -> None:
        async with Web(Once()) as web:
            client = client_to(web)
            await asked(client).end()

            told = await asked(client, b'{"n":1}').end()

            assert told.calls == ["failed"]
            assert told.trouble is not None
            assert told.trouble.sent
            assert [heard.body for heard in web.heard[1:]] == [b'{"n":1}']
            client.close()

    run(scene)


def test_a_request_is_sent_again_once() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            await asked(client).end()
            web.site = lambda _, reply: reply.writer.close()

            assert (await asked(client, repeatable=True).end()).calls == ["failed"]
            assert len(web.heard) == 3

            assert (await asked(client, repeatable=True).end()).calls == ["failed"]
            assert len(web.heard) == 4, "a fresh connection that is closed means something else"
            client.close()

    run(scene)


@pytest.mark.parametrize("first", [b"HTTP", b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_a_request_of_whose_reply_anything_came_is_not_sent_again(first: bytes) -> None:
    async def scene() -> None:
        async with Web(Once(first)) as web:
            client = client_to(web)
            await asked(client).end()

            assert (await asked(client, repeatable=True).end()).calls == ["failed"]
            assert len(web.heard) == 2
            client.close()

    run(scene)


def test_a_request_to_be_sent_again_can_be_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with Web(Once()) as web:
            client = client_to(web)
            await asked(client).end()
            with monkeypatch.context() as meanwhile:
                meanwhile.setattr(module, "CONNECTIONS_MAX", 0)
                told = asked(client, repeatable=True)
                await until(lambda: told.http_connection is None)

                client.cancel(told)

            assert (await asked(client).end()).calls == ["answered"]
            assert told.calls == []
            assert len(web.heard) == 3
            client.close()

    run(scene)


def test_a_request_to_be_sent_again_is_told_that_the_server_is_gone() -> None:
    async def scene() -> None:
        async with Web(Once()) as web:
            client = client_to(web)
            await asked(client).end()
            web.deaf()

            told = await asked(client, repeatable=True).end()

            assert told.calls == ["failed"]
            assert told.trouble is not None
            assert told.trouble.kind is HttpFailureKind.CONNECT
            client.close()

    run(scene)


def test_one_to_be_sent_again_gets_its_connection_though_all_are_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1)

    async def scene() -> None:
        async with Web(Once()) as web:
            client = client_to(web)
            await asked(client).end()
            told = [asked(client, b'{"n":%d}' % number, repeatable=True) for number in range(4)]

            for number, each in enumerate(told):
                assert (await each.end()).body == b'{"n":%d}' % number
            client.close()

    run(scene)


def test_nothing_is_sent_on_a_connection_whose_end_has_come_and_was_not_read_yet() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            await asked(client).end()
            theirs = web.replies[0].writer.get_extra_info("socket")
            with socket.socket(fileno=os.dup(theirs.fileno())) as double:
                double.shutdown(socket.SHUT_WR)

            assert (await asked(client).end()).calls == ["answered"]
            assert web.connections == 2
            client.close()

    run(scene)


def test_what_one_client_has_learned_of_a_server_the_next_one_knows() -> None:
    async def scene() -> None:
        reuse = ConnectionReuse()
        async with Web(Once()) as web:
            for _ in range(SINGLE_USES_MAX):
                client = client_to(web, reuse=reuse)
                await asked(client).end()
                await asked(client, repeatable=True).end()
                client.close()

            client = client_to(web, reuse=reuse)
            for _ in range(3):
                assert (await asked(client).end()).calls == ["answered"]
                assert client.idle == []
            client.close()

    run(scene)


def test_that_we_close_connections_says_nothing_of_the_server() -> None:
    async def scene() -> None:
        reuse = ConnectionReuse()
        async with Web(answering) as web:
            for _ in range(SINGLE_USES_MAX + 1):
                client = client_to(web, reuse=reuse)
                await asked(client).end()
                client.close()
                await until(lambda client=client: not client.connections)  # type: ignore[misc]

            assert not reuse.doubtful

    run(scene)


def test_after_a_while_one_connection_is_tried_with_what_may_be_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_reuse, "SINGLE_USE_VERDICT_SECONDS", 0.0)

    async def scene() -> None:
        async with Web(Once()) as web:
            client = client_to(web)
            for _ in range(SINGLE_USES_MAX):
                await asked(client).end()
                await asked(client, repeatable=True).end()

            for _ in range(3):
                assert (await asked(client).end()).calls == ["answered"]
                assert len(client.idle) == 1
            assert (await asked(client, repeatable=True).end()).calls == ["answered"]
            assert client.reuse.doubtful

            web.site = answering
            await asked(client, repeatable=True).end()
            assert not client.reuse.doubtful
            client.close()

    run(scene)


def test_what_is_lost_on_connections_that_were_being_closed_teaches_the_same() -> None:
    """The server closes them only when the next request is already on its way."""

    async def scene() -> None:
        async with Web(Once()) as web:
            client = client_to(web)
            await asked(client).end()
            assert (await asked(client).end()).calls == ["failed"]
            for _ in range(3):
                assert (await asked(client).end()).calls == ["answered"], "nothing is risked now"
            before = web.connections

            assert (await asked(client, repeatable=True).end()).calls == ["answered"]
            assert web.connections == before + 1
            assert (await asked(client).end()).calls == ["answered"]
            assert client.idle == []
            client.close()

    run(scene)


def test_a_server_that_keeps_connections_may_close_some() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            await asked(client).end()
            await asked(client).end()
            for _ in range(SINGLE_USES_OF_KEEPER_MAX - 1):
                await asked(client).end()
                web.replies[-1].writer.close()
                await until(lambda: not client.connections)

            await asked(client).end()
            assert len(client.idle) == 1
            client.close()

    run(scene)


def test_a_connection_unused_for_too_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            await asked(client).end()
            client.idle[0].idle_since -= KEPT_SECONDS_MAX + 1

            assert (await asked(client).end()).calls == ["answered"]
            assert web.connections == 2
            client.close()

    run(scene)


def test_the_connection_used_last_is_used_first() -> None:
    async def scene() -> None:
        site = Held()
        async with Web(site) as web:
            client = client_to(web)
            told = [asked(client) for _ in range(3)]
            await until(lambda: len(site.waiting) == 3)
            while site.waiting:
                site.answer_one()
            for each in told:
                await each.end()
            newest = client.idle[-1]

            last = asked(client)
            assert newest not in client.idle
            await until(lambda: bool(site.waiting))
            site.answer_one()
            await last.end()

            assert client.idle[-1] is newest
            client.close()

    run(scene)


def test_closing_tells_everyone_and_nothing_can_be_asked_afterwards() -> None:
    async def scene() -> None:
        site = Held()
        async with Web(site) as web:
            client = client_to(web)
            sent = asked(client)
            await until(lambda: bool(site.waiting))
            dialling = asked(client)

            client.close()
            late = asked(client)

            for told in (sent, dialling, late):
                assert (await told.end()).calls == ["failed"]
            await until(web.replies[0].gone.is_set)
            assert web.connections <= 2

    run(scene)


def test_a_plain_request_through_a_proxy_names_the_whole_url() -> None:
    async def scene() -> None:
        async with Web(answering) as proxy:
            place = HttpUrl.parse("http://example.test:81/mcp", proxy=proxy.url)
            client = HttpClient(place, 1000)

            assert (await asked(client).end()).body == b"{}"

            assert proxy.heard[0].target == "http://example.test:81/mcp"
            assert proxy.heard[0].fields["host"] == "x"
            client.close()

    run(scene)


def test_heads_of_replies_are_remembered_but_bodies_are_not() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            for body in (b"[1]", b"[2]", b"[3]"):
                assert (await asked(client, body).end()).body == body

            assert len(client.heads.cached) == 1
            client.close()

    run(scene)
