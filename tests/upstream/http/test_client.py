"""Requests to one origin: connections are kept, shared out, and never more than allowed."""

import asyncio

import pytest

from anyport.upstream.http import client as module
from anyport.upstream.http.client import Client
from anyport.upstream.http.line import KEPT_SECONDS_MAX
from anyport.upstream.http.place import Place
from tests.upstream.fakes import run, until
from tests.upstream.http.takers import Told
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


def client_to(web: Web, bytes_max: int = 10_000) -> Client:
    return Client(Place.parse(web.url), bytes_max)


def asked(client: Client, body: bytes | None = b"{}") -> Told:
    told = Told()
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
        second = Told()

        class First(Told):
            """As soon as it has its connection, and in the same turn, the next one comes."""

            def __setattr__(self, name: str, value: object) -> None:
                super().__setattr__(name, value)
                if name == "line" and value is not None:
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
            first, second, third = Told(), Told(), Told()
            client.request(HEAD, b"1", first)
            await until(lambda: bool(site.waiting))
            client.request(HEAD, b"2", second)
            client.request(HEAD, b"3", third)

            client.give_up(second)
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
            told = Told()
            client.request(HEAD, b"{}", told)
            await until(lambda: bool(site.waiting))

            client.give_up(told)

            await until(web.replies[0].gone.is_set)
            await until(lambda: not client.lines)
            assert told.calls == []
            client.close()

    run(scene)


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            await asked(client).end()
            web.replies[0].writer.close()
            await until(lambda: not client.lines)

            assert (await asked(client).end()).calls == ["answered"]
            assert web.connections == 2
            client.close()

    run(scene)


def test_a_connection_unused_for_too_long_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            await asked(client).end()
            client.idle[0].since -= KEPT_SECONDS_MAX + 1

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
            place = Place.parse("http://example.test:81/mcp", proxy=proxy.url)
            client = Client(place, 1000)

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

            assert len(client.heads.known) == 1
            client.close()

    run(scene)
