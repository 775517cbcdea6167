"""A conversation without any transport: messages in, and a channel for each."""

import asyncio
from collections.abc import Callable

import pytest

from anyport.demo.calls import World
from anyport.demo.conversation import Conversation
from anyport.demo.faults import Fault
from anyport.demo.legacy import LegacySession
from anyport.demo.messages import read_message
from anyport.demo.options import Options
from anyport.demo.revisions import Json
from anyport.demo.tools import start_tools
from tests.demo.driver import EVERYTHING
from tests.demo.fakes import new_tasks
from tests.demo.http.driver import INITIALIZE, legacy


class Kept:
    """A channel that keeps what goes through it."""

    def __init__(self) -> None:
        self.sent: list[Json] = []
        self.finished: list[Json | list[Json] | None] = []
        self.send = self.sent.append
        self.finish = self.finished.append


class Talk:
    def __init__(self, group: asyncio.TaskGroup, revision: str = "2025-11-25") -> None:
        self.told: list[Json] = []
        self.world = World(Options(), start_tools(0), new_tasks)
        session = LegacySession(self.world, self.told.append, Options().legacy)
        self.conversation = Conversation(self.world, group, legacy=session)
        params = {**INITIALIZE, "protocolVersion": revision, "capabilities": EVERYTHING}
        self.say(legacy(0, "initialize", params))

    def say(self, message: Json) -> Kept:
        channel = Kept()
        self.conversation.take(read_message(message), channel)
        return channel


def play(scene: Callable[[Talk], None], *, revision: str = "2025-11-25") -> Talk:
    """Plays a scene, and lets every call in it come to its end."""

    async def run() -> Talk:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            talk = Talk(group, revision)
            scene(talk)
            await asyncio.sleep(0)
            await talk.conversation.drain()
        return talk

    return asyncio.run(run())


def test_what_belongs_to_a_request_goes_its_way_and_the_rest_another() -> None:
    channels: list[Kept] = []

    def scene(talk: Talk) -> None:
        for tool in ("log", "grow"):
            arguments = {"level": "alert", "text": "x"} if tool == "log" else {}
            call = legacy(tool, "tools/call", {"name": tool, "arguments": arguments})
            channels.append(talk.say(call))

    talk = play(scene)

    log, grow = channels
    assert [message["method"] for message in log.sent] == ["notifications/message"]
    assert [message["method"] for message in talk.told] == ["notifications/tools/list_changed"]
    assert (len(log.finished), len(grow.finished), grow.sent) == (1, 1, [])


def test_every_message_is_finished_once() -> None:
    channels: list[Kept] = []

    def scene(talk: Talk) -> None:
        slow = {"name": "slow", "arguments": {"seconds": 0, "steps": 1}}
        messages: list[Json] = [
            legacy(1, "ping"),
            legacy(2, "no/such"),
            legacy(3, "tools/call", slow),
            {"jsonrpc": "2.0", "method": "notifications/none"},
            {"jsonrpc": "2.0", "id": 9, "result": {}},
        ]
        channels.extend(map(talk.say, messages))

    play(scene)

    kinds = [
        [sorted(each)[0] if isinstance(each, dict) else each for each in channel.finished]
        for channel in channels
    ]
    assert kinds == [["id"], ["error"], ["id"], [None], [None]]


def test_a_question_and_its_withdrawal_go_the_way_of_the_call() -> None:
    channels: list[Kept] = []

    async def run() -> Talk:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            talk = Talk(group)
            channels.append(talk.say(legacy("r", "tools/call", {"name": "roots"})))
            while not channels[0].sent:
                await asyncio.sleep(0)
            talk.conversation.abandon()
        return talk

    talk = asyncio.run(run())

    assert [m["method"] for m in channels[0].sent] == ["roots/list", "notifications/cancelled"]
    assert (channels[0].finished, talk.told, talk.world.watchers) == ([None], [], [])


def test_a_batch_is_finished_when_its_last_message_is() -> None:
    batch, silent = Kept(), Kept()

    def scene(talk: Talk) -> None:
        slow = {"name": "slow", "arguments": {"seconds": 0, "steps": 1}}
        talk.conversation.take_batch([legacy(1, "tools/call", slow), legacy(2, "ping")], batch)
        talk.conversation.take_batch([{"jsonrpc": "2.0", "method": "n"}], silent)
        assert (batch.finished, silent.finished) == ([], [None])

    play(scene, revision="2025-03-26")

    (answers,) = batch.finished
    assert isinstance(answers, list)
    assert [answer["id"] for answer in answers] == [2, 1]


def test_a_batch_where_there_are_none_is_a_fault() -> None:
    def scene(talk: Talk) -> None:
        with pytest.raises(Fault, match="one JSON object"):
            talk.conversation.take_batch([legacy(1, "ping")], Kept())

    play(scene)
