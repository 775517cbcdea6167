"""How long a client waits for connections, keeps them, and uses them."""

import asyncio
from math import inf

from anyport.protocol.errors import Timeout
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import (
    KEPT_SECONDS_MAX,
    HttpFailure,
    HttpFailureKind,
    HttpTimeouts,
)
from anyport.upstream.http.url import HttpUrl
from tests.rig.toxic_proxy import unreachable
from tests.upstream.fakes import run, until
from tests.upstream.http.handlers import reuse_of_keep_alive
from tests.upstream.http.test_client import Held, answering, asked, client_to
from tests.upstream.web import Web


def test_lines_that_nobody_uses_are_swept_away() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = HttpClient(
                HttpUrl.parse(web.url), 1000, timeouts=HttpTimeouts(stream_idle_seconds=0.1)
            )
            await asked(client).end()
            client.idle[0].idle_since -= KEPT_SECONDS_MAX + 1

            await until(lambda: not client.connections)

            assert not client.idle
            client.close()

    run(scene)


def test_a_line_that_is_used_all_the_time_is_renewed_between_two_requests() -> None:
    async def scene() -> None:
        late: list[Timeout] = []
        async with Web(answering) as web:
            client = HttpClient(
                HttpUrl.parse(web.url),
                1000,
                timeouts=HttpTimeouts(on_timeout=late.append),
                reuse=reuse_of_keep_alive(),
            )
            for _ in range(3):
                assert (await asked(client).end()).calls == ["answered"]
            assert web.connections == 1
            (line,) = client.connections
            line.expires_at = asyncio.get_running_loop().time()

            assert (await asked(client).end()).calls == ["answered"], "nothing is cut short"
            await until(lambda: not client.connections)
            assert (await asked(client).end()).calls == ["answered"]

            assert web.connections == 2
            assert late == [Timeout.AGE]
            client.close()

    run(scene)


def test_who_waits_for_a_line_that_is_renewed_gets_another() -> None:
    async def scene() -> None:
        site = Held()
        async with Web(site) as web:
            client = client_to(web)
            first = asked(client)
            await until(lambda: bool(site.waiting))
            (line,) = client.connections
            line.expires_at = 0.0
            second = asked(client)
            site.answer_one()

            assert (await first.end()).calls == ["answered"]
            await until(lambda: bool(site.waiting))
            site.answer_one()
            assert (await second.end()).calls == ["answered"]
            client.close()

    run(scene)


def test_a_connection_that_takes_too_long_is_told_by_its_name() -> None:
    async def scene() -> None:
        late: list[Timeout] = []
        with unreachable() as port:
            timeouts = HttpTimeouts(connect_seconds=0.1, on_timeout=late.append)
            client = HttpClient(HttpUrl.parse(f"http://127.0.0.1:{port}/"), 1000, timeouts=timeouts)

            told = await asked(client).end()

            assert told.trouble == HttpFailure(
                HttpFailureKind.CONNECT,
                "no connection within 0.1 s",
                sent=False,
                timeout=Timeout.CONNECT,
            )
            assert late == [Timeout.CONNECT]
            client.close()

    run(scene)


def test_a_gateway_that_was_held_up_itself_does_not_take_that_for_silence() -> None:
    async def scene() -> None:
        site = Held()
        async with Web(site) as web:
            timeouts = HttpTimeouts(first_byte_seconds=1000.0)
            client = HttpClient(
                HttpUrl.parse(web.url), 10_000, timeouts=timeouts, reuse=reuse_of_keep_alive()
            )
            told = asked(client)
            await until(lambda: bool(site.waiting))
            (line,) = client.connections
            line.check_timeouts(client._loop.time() - 1000.0)

            client._sweep(late=client._loop.time())
            assert told.calls == []
            site.answer_one()
            assert (await told.end()).calls == ["answered"]

            told = asked(client)
            line.check_timeouts(client._loop.time() - 1000.0)
            client._sweep(late=inf)
            assert told.calls == ["failed"]
            client.close()

    run(scene)
