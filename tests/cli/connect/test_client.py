"""The MCP client of the commands, with a fake gateway in the same process."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from anyport.catalog.catalog import CatalogEntry
from anyport.cli.connect import connect_gateway
from anyport.cli.connect.client import (
    ErrorAnswer,
    FrameHandler,
    GatewayClient,
    GatewayTransport,
    explain_missing,
)
from anyport.cli.connect.local import connect_in_process
from anyport.cli.exit_codes import WrongUsage
from anyport.cli.options import SharedOptions
from anyport.config import ConfigError, UnknownProfile
from anyport.gateway.gateway import Gateway
from anyport.protocol.adapters.client import UnroutedMessage
from anyport.protocol.adapters.legacy_client import GatewayDescription
from anyport.protocol.exchange import (
    Answered,
    ErrorAnswered,
    Exchange,
    NeedInput,
    Progress,
    Question,
    ServerNotification,
    Session,
)
from anyport.protocol.exchange import Caller as Asker
from anyport.wire.jsonrpc import Failure, Notification, Result
from tests.cli.stage import Stage

Play = Callable[[Exchange], None]


class FakeGateway:
    """A gateway that does with every exchange what the test says."""

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

    def prepare_fast_call(self, *what: object) -> None:
        """Nothing was done before."""

    def server_info(self, profile: str) -> bytes:
        return b'{"name":"gateway","version":"1"}'

    def find_unknown_method(self, client: Asker, method: str) -> None:
        """What no revision has, does not exist."""

    def describe(self, profile: str) -> GatewayDescription:
        return GatewayDescription(self.server_info(profile), None)

    def on_session_opened(self, session: Session) -> None:
        self.sessions.append(session)

    def on_session_closed(self, session: Session) -> None:
        self.closings += 1

    def on_notification(self, client: Asker, notification: Notification) -> None:
        raise AssertionError(f"nobody sends {notification.method}")

    def record_message(
        self, client: Asker, said: UnroutedMessage, answer: Result | Failure | None = None
    ) -> None:
        """There is no record here."""


def params_of(exchange: Exchange) -> dict[str, Any]:
    params: dict[str, Any] = msgspec.json.decode(exchange.params)
    return params


def connect_to(gateway: FakeGateway) -> Callable[[FrameHandler], GatewayTransport]:
    return connect_in_process(cast(Gateway, gateway), "default")


def test_it_opens_a_session_and_gets_an_answer_once_that_is_in_the_journal() -> None:
    gateway = FakeGateway(lambda exchange: exchange.end(Answered(b'{"tools":[]}')))

    async def converse() -> bytes:
        client = GatewayClient(connect_to(gateway))
        await client.open()
        before = gateway.flushed
        result = await client.request("tools/list")
        assert gateway.flushed > before
        await client.close()
        return result

    assert asyncio.run(converse()) == b'{"tools":[]}'
    (session,) = gateway.sessions
    assert session.revision.name == "2025-11-25"
    assert not session.capabilities.interactive
    assert gateway.closings == 1


def test_an_error_is_raised_as_it_came() -> None:
    raw = b'{"code":-7,"message":"Not today","data":1.10}'

    async def converse() -> None:
        client = GatewayClient(
            connect_to(FakeGateway(lambda exchange: exchange.end(ErrorAnswered(raw))))
        )
        await client.open()
        await client.request("tools/call", {"name": "x"})

    with pytest.raises(ErrorAnswer, match="Not today") as caught:
        asyncio.run(converse())
    assert (caught.value.code, caught.value.raw) == (-7, raw)


def test_progress_goes_to_the_one_who_asked_and_log_messages_to_their_listener() -> None:
    told: list[dict[str, Any]] = []
    logged: list[dict[str, Any]] = []

    def play(exchange: Exchange) -> None:
        exchange.deliver(exchange, Progress(b'{"progressToken":0,"progress":1}'))
        exchange.deliver(exchange, ServerNotification("notifications/message", b'{"data":"hm"}'))
        exchange.deliver(
            exchange, ServerNotification("notifications/progress", b'{"progressToken":"odd"}')
        )
        exchange.end(Answered(b"{}"))

    async def converse() -> None:
        client = GatewayClient(connect_to(FakeGateway(play)), on_log=logged.append)
        await client.open()
        await client.request("tools/call", {"name": "x"}, told.append)
        await client.request("tools/call", {"name": "x"})

    asyncio.run(converse())
    assert [params["progress"] for params in told] == [1]
    assert logged == [{"data": "hm"}] * 2


def test_a_log_level_goes_with_every_request_of_the_session() -> None:
    levels: list[tuple[str, str | None]] = []

    def play(exchange: Exchange) -> None:
        levels.append((exchange.method.name, exchange.caller.log_level))
        if exchange.method.name == "logging/setLevel":
            assert params_of(exchange) == {"level": "debug"}
            gateway.sessions[0].log_level = "debug"
        exchange.end(Answered(b"{}"))

    gateway = FakeGateway(play)

    async def converse() -> None:
        client = GatewayClient(connect_to(gateway), log_level="debug")
        await client.open()
        await client.request("tools/call", {"name": "x"})

    asyncio.run(converse())
    assert levels == [("logging/setLevel", None), ("tools/call", "debug")]


def test_pages_are_followed_to_the_last() -> None:
    def play(exchange: Exchange) -> None:
        cursor = params_of(exchange).get("cursor")
        first = b'{"tools":[{"n":1}],"nextCursor":""}'
        exchange.end(Answered(first if cursor is None else b'{"tools":[{"n":2}]}'))

    async def converse() -> list[msgspec.Raw]:
        client = GatewayClient(connect_to(FakeGateway(play)))
        await client.open()
        return await client.list_all("tools/list", "tools")

    assert [bytes(tool) for tool in asyncio.run(converse())] == [b'{"n":1}', b'{"n":2}']


def test_a_cancelled_request_is_cancelled_at_the_gateway() -> None:
    cancelled: list[bytes | None] = []

    async def converse() -> None:
        begun = asyncio.Event()

        def play(exchange: Exchange) -> None:
            exchange.on_cancel = cancelled.append
            begun.set()

        client = GatewayClient(connect_to(FakeGateway(play)))
        await client.open()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(client.request("tools/call", {"name": "x"}))
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
        exchange.deliver(
            exchange, NeedInput(Question("elicitation/create", params, answered, None))
        )

    async def ask(question: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"asked": question["message"]}}

    async def converse() -> Session:
        gateway = FakeGateway(play)
        client = GatewayClient(connect_to(gateway), ask=ask)
        await client.open()
        await client.request("tools/call", {"name": "x"})
        return gateway.sessions[0]

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
            exchange.deliver(exchange, NeedInput(question))

        client = GatewayClient(connect_to(FakeGateway(play)), ask=ask)
        await client.open()
        async with asyncio.TaskGroup() as group:
            group.create_task(client.request("tools/call", {"name": "x"}))
            await asked.wait()
            if withdrawn:
                questions[0].withdraw()
            exchanges[0].end(Answered(b"{}"))

    asyncio.run(converse())
    assert endings == ["no longer asked"]


def test_a_question_of_another_kind_is_refused() -> None:
    answers: list[Result | Failure] = []

    def play(exchange: Exchange) -> None:
        exchange.deliver(exchange, NeedInput(Question("roots/list", b"{}", answers.append, None)))
        exchange.end(Answered(b"{}"))

    async def ask(question: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError

    async def converse() -> None:
        client = GatewayClient(connect_to(FakeGateway(play)), ask=ask)
        await client.open()
        await client.request("tools/call", {"name": "x"})

    asyncio.run(converse())
    (answer,) = answers
    assert isinstance(answer, Failure)


ENTRIES = [
    CatalogEntry("tiny__add", "tiny", "add", b"{}"),
    CatalogEntry("tiny__picture", "tiny", "picture", b"{}"),
    CatalogEntry("a__same", "a", "same", b"{}"),
    CatalogEntry("b__same", "b", "same", b"{}"),
]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("zzz", "there is no tool 'zzz'; 'anyport tools' lists all tools"),
        ("pictur", "there is no tool 'pictur'; did you mean tiny__picture?"),
        ("off__x", "there is no tool 'off__x'; server 'off' is disabled in the configuration"),
        ("same", "two servers have 'same': a__same, b__same"),
    ],
)
def test_a_missing_tool_is_explained(name: str, told: str) -> None:
    assert explain_missing(name, ENTRIES, disabled=["off"], separator="__") == told


def test_what_is_wrong_is_told_before_anything_is_started(stage: Stage) -> None:
    with pytest.raises(UnknownProfile):
        connect_gateway(SharedOptions(profile="zzz"))
    with pytest.raises(ConfigError):
        connect_gateway(SharedOptions(config=(Path("absent.toml"),)))
    with pytest.raises(WrongUsage):
        connect_gateway(SharedOptions(url="http://127.0.0.1", config=(Path("absent.toml"),)))
    assert not stage.state.exists()
