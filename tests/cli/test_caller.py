"""A client for commands, in front of a gateway that is played in the same process."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from anyport.cli.caller import Caller, ErrorAnswer
from anyport.cli.inside import inside
from anyport.protocol.exchange import (
    Answered,
    Exchange,
    NeedInput,
    Notice,
    Progress,
    Question,
    Refused,
    Session,
)
from anyport.protocol.exchange import Caller as Asker
from anyport.protocol.front import Aside
from anyport.protocol.legacy_front import Description
from anyport.wire.frame import Failure, Notification, Result

Play = Callable[[Exchange], None]


class Played:
    """A gateway that does with every exchange what the test says."""

    identity = b'{"name":"played","version":"1"}'

    def __init__(self, play: Play) -> None:
        self._play = play
        self.journal = self
        self.flushed = 0
        self.sessions: list[Session] = []
        self.closings = 0

    def flush(self) -> None:
        self.flushed += 1

    def begin(self, exchange: Exchange) -> None:
        self._play(exchange)

    def again(self, *what: object) -> None:
        """Nothing was done before."""

    def describe(self, profile: str) -> Description:
        return Description(self.identity, None)

    def opened(self, session: Session) -> None:
        self.sessions.append(session)

    def closed(self, session: Session) -> None:
        self.closings += 1

    def heard(self, session: Session | None, notification: Notification) -> None:
        raise AssertionError(f"nobody sends {notification.method}")

    def aside(self, caller: Asker, said: Aside, answer: Result | Failure | None = None) -> None:
        """There is no record here."""


def params_of(exchange: Exchange) -> dict[str, Any]:
    params: dict[str, Any] = msgspec.json.decode(exchange.params)
    return params


def test_it_opens_a_session_and_gets_an_answer_once_that_is_in_the_journal() -> None:
    played = Played(lambda exchange: exchange.end(Answered(b'{"tools":[]}')))

    async def converse() -> bytes:
        caller = Caller(inside(played, "default"))
        await caller.open()
        before = played.flushed
        result = await caller.request("tools/list")
        assert played.flushed > before
        await caller.close()
        return result

    assert asyncio.run(converse()) == b'{"tools":[]}'
    (session,) = played.sessions
    assert session.revision.name == "2025-11-25"
    assert not session.capabilities.interactive
    assert played.closings == 1


def test_an_error_is_raised_as_it_came() -> None:
    raw = b'{"code":-7,"message":"Not today","data":1.10}'

    async def converse() -> None:
        caller = Caller(inside(Played(lambda exchange: exchange.end(Refused(raw))), "default"))
        await caller.open()
        await caller.request("tools/call", {"name": "x"})

    with pytest.raises(ErrorAnswer, match="Not today") as caught:
        asyncio.run(converse())
    assert (caught.value.code, caught.value.raw) == (-7, raw)


def test_progress_goes_to_the_one_who_asked_and_log_messages_to_their_listener() -> None:
    told: list[dict[str, Any]] = []
    logged: list[dict[str, Any]] = []

    def play(exchange: Exchange) -> None:
        exchange.tell(exchange, Progress(b'{"progressToken":0,"progress":1}'))
        exchange.tell(exchange, Notice("notifications/message", b'{"data":"hm"}'))
        exchange.tell(exchange, Notice("notifications/progress", b'{"progressToken":"odd"}'))
        exchange.end(Answered(b"{}"))

    async def converse() -> None:
        caller = Caller(inside(Played(play), "default"), on_log=logged.append)
        await caller.open()
        await caller.request("tools/call", {"name": "x"}, told.append)
        await caller.request("tools/call", {"name": "x"})

    asyncio.run(converse())
    assert [params["progress"] for params in told] == [1]
    assert logged == [{"data": "hm"}] * 2


def test_a_log_level_goes_with_every_request_of_the_session() -> None:
    levels: list[tuple[str, str | None]] = []

    def play(exchange: Exchange) -> None:
        levels.append((exchange.method.name, exchange.caller.log_level))
        if exchange.method.name == "logging/setLevel":
            assert params_of(exchange) == {"level": "debug"}
            played.sessions[0].log_level = "debug"
        exchange.end(Answered(b"{}"))

    played = Played(play)

    async def converse() -> None:
        caller = Caller(inside(played, "default"), log_level="debug")
        await caller.open()
        await caller.request("tools/call", {"name": "x"})

    asyncio.run(converse())
    assert levels == [("logging/setLevel", None), ("tools/call", "debug")]


def test_pages_are_followed_to_the_last() -> None:
    def play(exchange: Exchange) -> None:
        cursor = params_of(exchange).get("cursor")
        first = b'{"tools":[{"n":1}],"nextCursor":""}'
        exchange.end(Answered(first if cursor is None else b'{"tools":[{"n":2}]}'))

    async def converse() -> list[msgspec.Raw]:
        caller = Caller(inside(Played(play), "default"))
        await caller.open()
        return await caller.list_all("tools/list", "tools")

    assert [bytes(tool) for tool in asyncio.run(converse())] == [b'{"n":1}', b'{"n":2}']


def test_a_cancelled_request_is_cancelled_at_the_gateway() -> None:
    cancelled: list[bytes | None] = []

    async def converse() -> None:
        begun = asyncio.Event()

        def play(exchange: Exchange) -> None:
            exchange.on_cancel = cancelled.append
            begun.set()

        caller = Caller(inside(Played(play), "default"))
        await caller.open()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(caller.request("tools/call", {"name": "x"}))
            await begun.wait()
            waiting.cancel()

    asyncio.run(converse())
    assert cancelled == [None]


def elicitation(answers: list[Result | Failure], **params: Any) -> Question:
    return Question("elicitation/create", msgspec.json.encode(params), answers.append, None)


def test_a_question_is_put_and_its_answer_goes_back_before_the_call_ends() -> None:
    answers: list[Result | Failure] = []

    def play(exchange: Exchange) -> None:
        def answered(frame: Result | Failure) -> None:
            answers.append(frame)
            exchange.end(Answered(b"{}"))

        params = msgspec.json.encode({"message": "Who?"})
        exchange.tell(exchange, NeedInput(Question("elicitation/create", params, answered, None)))

    async def ask(question: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"asked": question["message"]}}

    async def converse() -> Session:
        played = Played(play)
        caller = Caller(inside(played, "default"), ask=ask)
        await caller.open()
        await caller.request("tools/call", {"name": "x"})
        return played.sessions[0]

    session = asyncio.run(converse())
    assert session.capabilities.questions == {"elicitation"}
    (answer,) = answers
    assert isinstance(answer, Result)
    content = msgspec.json.decode(answer.result)["content"]
    assert content == {"asked": "Who?"}


@pytest.mark.parametrize("withdrawn", [True, False])
def test_a_question_that_nobody_needs_any_more_is_not_asked_any_longer(withdrawn: bool) -> None:
    """The server takes it back, or the call ends without it."""
    endings: list[str] = []

    async def converse() -> None:
        asked = asyncio.Event()
        questions: list[Question] = []
        exchanges: list[Exchange] = []

        async def ask(question: dict[str, Any]) -> dict[str, Any]:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                endings.append("no longer asked")
            raise AssertionError

        def play(exchange: Exchange) -> None:
            question = elicitation([])
            questions.append(question)
            exchanges.append(exchange)
            exchange.tell(exchange, NeedInput(question))

        caller = Caller(inside(Played(play), "default"), ask=ask)
        await caller.open()
        async with asyncio.TaskGroup() as group:
            group.create_task(caller.request("tools/call", {"name": "x"}))
            await asked.wait()
            if withdrawn:
                questions[0].withdraw()
            exchanges[0].end(Answered(b"{}"))

    asyncio.run(converse())
    assert endings == ["no longer asked"]


def test_a_question_of_another_kind_is_refused() -> None:
    answers: list[Result | Failure] = []

    def play(exchange: Exchange) -> None:
        exchange.tell(exchange, NeedInput(Question("roots/list", b"{}", answers.append, None)))
        exchange.end(Answered(b"{}"))

    async def ask(question: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError

    async def converse() -> None:
        caller = Caller(inside(Played(play), "default"), ask=ask)
        await caller.open()
        await caller.request("tools/call", {"name": "x"})

    asyncio.run(converse())
    (answer,) = answers
    assert isinstance(answer, Failure)
