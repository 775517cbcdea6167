"""How long a client waits for connections, keeps them, and uses them."""

import asyncio
from math import inf

from anyport.protocol.timeouts import Timeout
from anyport.upstream.http.client import Client
from anyport.upstream.http.line import KEPT_SECONDS_MAX, Trouble, TroubleKind
from anyport.upstream.http.patience import Patience
from anyport.upstream.http.place import Place
from tests.rig.toxic import unreachable
from tests.upstream.fakes import run, until
from tests.upstream.http.test_client import Held, answering, asked, client_to
from tests.upstream.web import Web


def test_lines_that_nobody_uses_are_swept_away() -> None:
    async def scene() -> None:
        async with Web(answering) as web:
            client = Client(Place.parse(web.url), 1000, patience=Patience(stream_idle_seconds=0.1))
            await asked(client).end()
            client.idle[0].since -= KEPT_SECONDS_MAX + 1

            await until(lambda: not client.lines)

            assert not client.idle
            client.close()

    run(scene)


def test_a_line_that_is_used_all_the_time_is_renewed_between_two_requests() -> None:
    async def scene() -> None:
        late: list[Timeout] = []
        async with Web(answering) as web:
            client = Client(Place.parse(web.url), 1000, patience=Patience(tell=late.append))
            for _ in range(3):
                assert (await asked(client).end()).calls == ["answered"]
            assert web.connections == 1
            (line,) = client.lines
            line.until = asyncio.get_running_loop().time()

            assert (await asked(client).end()).calls == ["answered"], "nothing is cut short"
            await until(lambda: not client.lines)
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
            (line,) = client.lines
            line.until = 0.0
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
            patience = Patience(connect_seconds=0.1, tell=late.append)
            client = Client(Place.parse(f"http://127.0.0.1:{port}/"), 1000, patience=patience)

            told = await asked(client).end()

            assert told.trouble == Trouble(
                TroubleKind.CONNECT,
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
            patience = Patience(first_byte_seconds=1000.0)
            client = Client(Place.parse(web.url), 10_000, patience=patience)
            told = asked(client)
            await until(lambda: bool(site.waiting))
            (line,) = client.lines
            line.look(client._loop.time() - 1000.0)

            client._sweep(late=client._loop.time())
            assert told.calls == []
            site.answer_one()
            assert (await told.end()).calls == ["answered"]

            told = asked(client)
            line.look(client._loop.time() - 1000.0)
            client._sweep(late=inf)
            assert told.calls == ["failed"]
            client.close()

    run(scene)
