"""A line straight into a conversation."""

import asyncio

from anyport.cli.inside import Inside
from anyport.protocol.exchange import Answered, Exchange, Progress, Session
from tests.cli.test_caller import Played


def test_an_answer_is_heard_only_once_it_is_in_the_journal() -> None:
    heard: list[tuple[int, bytes]] = []

    def play(exchange: Exchange) -> None:
        exchange.progress_token = b"1"
        exchange.tell(exchange, Progress(b'{"progressToken":0,"progress":1}'))
        exchange.end(Answered(b"{}"))

    async def converse() -> list[Session]:
        played = Played(play)
        line = Inside(played, "default", lambda frame: heard.append((played.flushed, frame)))
        line.tell(b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}')
        await line.arrived()
        await line.listen()
        await line.close()
        return played.sessions

    assert asyncio.run(converse()) == []
    (_, progress), (flushed, answer) = heard
    assert b"notifications/progress" in progress
    assert (flushed, answer) == (1, b'{"jsonrpc":"2.0","id":1,"result":{}}')
