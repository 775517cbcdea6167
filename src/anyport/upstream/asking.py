"""A request to a server that somebody waits for: a callback, turned into something to await."""

import asyncio
from collections.abc import Callable

from anyport.upstream.call import Answer, Concern, Lost
from anyport.upstream.connection import Connection


def awaited(
    connection: Connection, method: str, params: bytes | None
) -> tuple["asyncio.Future[Answer]", Callable[[Answer], None]]:
    """What somebody can wait for, and what brings the answer to it, and to the record."""
    answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    started = connection.clock()

    def settle(answer: Answer) -> None:
        if not answered.done():
            connection.noted((method, params), answer, connection.clock() - started)
            answered.set_result(answer)

    return answered, settle


async def ask(
    connection: Connection, method: str, params: bytes, name: str | None = None
) -> Answer:
    """Ask a server something; given up when nobody waits for its answer any more."""
    answered, settle = awaited(connection, method, params)
    call = connection.call(method, params, settle, None, Concern(name))
    if isinstance(call, Lost):
        return call
    try:
        return await answered
    except asyncio.CancelledError:
        connection.cancel(call, None)
        raise
