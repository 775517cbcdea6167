"""A request to a server that somebody waits for."""

import asyncio

from anyport.upstream.asking import ask
from anyport.upstream.call import Lost
from anyport.wire.frame import Result
from tests.upstream.fakes import LEGACY, connected, run, say, until


def test_whoever_waits_gets_what_the_server_says() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(ask(connection, "tools/list", b"{}"))
            await until(lambda: bool(channel.sent))
            say(connection, id=1, result={"tools": []})

        answer = waiting.result()
        assert isinstance(answer, Result)
        assert answer.result == b'{"tools": []}'

    run(scene)


def test_what_nobody_waits_for_any_more_is_cancelled() -> None:
    async def scene() -> None:
        connection, channel, _ = connected(LEGACY)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(ask(connection, "tools/list", b"{}"))
            await until(lambda: bool(channel.sent))
            waiting.cancel()

        assert waiting.cancelled()
        assert channel.sent[-1]["method"] == "notifications/cancelled"

    run(scene)


def test_a_connection_that_is_gone_answers_at_once() -> None:
    async def scene() -> None:
        connection, _, _ = connected(LEGACY)
        connection.end("exit code 1")

        assert isinstance(await ask(connection, "tools/list", b"{}"), Lost)

    run(scene)
