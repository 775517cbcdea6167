"""Connections that cannot be opened, and who has to pay for that."""

import asyncio
from collections.abc import Callable

import pytest

from anyport.upstream.http import client as module
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import ClientConnection, HttpFailureKind
from anyport.upstream.http.dial import DialFailure, dial
from anyport.upstream.http.url import HttpUrl
from tests.upstream.fakes import run, until
from tests.upstream.http.test_client import answering, asked, client_to
from tests.upstream.web import Web


def closing(how: Callable[[asyncio.StreamWriter], None]) -> Callable[..., None]:
    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        how(writer)

    return serve


@pytest.mark.parametrize(
    "how",
    [lambda writer: writer.transport.abort(), lambda writer: writer.close()],
    ids=["reset", "closed"],
)
def test_a_server_that_hangs_up_at_once_costs_each_request_one_answer(
    how: Callable[[asyncio.StreamWriter], None],
) -> None:
    async def scene() -> None:
        server = await asyncio.start_server(closing(how), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = HttpClient(HttpUrl.parse(f"http://127.0.0.1:{port}/"), 1000)
        for _ in range(20):
            told = [asked(client) for _ in range(3)]
            for each in told:
                assert (await each.end()).calls == ["failed"]
        await until(lambda: not client.connections)
        client.close()
        server.close()

    run(scene)


def test_a_line_that_is_lost_while_it_is_being_opened_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def dial(place: HttpUrl, line: ClientConnection, seconds: float) -> None:
        line.connection_lost(None)

    monkeypatch.setattr(module, "dial", dial)

    async def scene() -> None:
        client = HttpClient(HttpUrl.parse("http://127.0.0.1:1/"), 1000)

        told = await asked(client).end()

        assert told.calls == ["failed"]
        assert told.trouble is not None
        assert not told.trouble.sent
        assert not client.connections
        client.close()

    run(scene)


def test_nobody_listening_is_told_to_everyone_who_waits() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            web.deaf()
            told = [asked(client) for _ in range(3)]

            for each in told:
                await each.end()
                assert each.trouble is not None
                assert each.trouble.kind is HttpFailureKind.CONNECT
                assert not each.trouble.sent
            client.close()

    run(scene)


def test_a_failed_dial_costs_the_request_it_was_for_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fails = iter([True])

    async def flaky(place: HttpUrl, line: ClientConnection, seconds: float) -> DialFailure | None:
        if next(fails, False):
            return DialFailure(reason="no luck")
        return await dial(place, line, seconds)

    monkeypatch.setattr(module, "dial", flaky)

    async def scene() -> None:
        async with Web(answering) as web:
            client = client_to(web)
            told = [asked(client) for _ in range(3)]

            ends = [(await each.end()).calls for each in told]

            assert sorted(ends) == [["answered"], ["answered"], ["failed"]]
            assert (await asked(client).end()).calls == ["answered"]
            client.close()

    run(scene)


def test_who_waits_for_the_turn_of_others_gets_a_connection_when_theirs_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CONNECTIONS_MAX", 1)

    async def hopeless(place: HttpUrl, line: ClientConnection, seconds: float) -> DialFailure:
        return DialFailure(reason="no luck")

    monkeypatch.setattr(module, "dial", hopeless)

    async def scene() -> None:
        client = HttpClient(HttpUrl.parse("http://127.0.0.1:1/"), 1000)
        told = [asked(client) for _ in range(3)]

        for each in told:
            assert (await each.end()).calls == ["failed"]
        client.close()

    run(scene)
