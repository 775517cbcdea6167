"""A server, asked with no gateway in between."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from anyport.cli.connect.client import FrameHandler, GatewayTransport, LostHandler
from anyport.cli.exit_codes import CommandFailed
from anyport.cli.options import SharedOptions
from anyport.cli.replay.cases import ClientOpening, RecordedAnswer
from anyport.cli.replay.targets import (
    Answer,
    AnswerScript,
    GatewayTarget,
    list_target_tools,
    open_gateway_target,
    open_server_target,
    prepare_params,
    start_replay_gateway,
)
from anyport.cli.setup import read_setup
from anyport.config.model import HookConfig, ServerConfig
from anyport.protocol import meta
from anyport.protocol.revisions import NEWEST_LEGACY, NEWEST_MODERN
from anyport.upstream.pending_call import NoAnswer
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure, Request, Result
from tests.cli.running import Running
from tests.cli.stage import TINY_SERVER, Stage


@pytest.fixture
def tiny(tmp_path: Path) -> ServerConfig:
    return ServerConfig(
        slug="tiny",
        name="tiny",
        command=sys.executable,
        args=("-I", "-S", str(TINY_SERVER)),
        env={"TINY_NOTES": str(tmp_path / "notes")},
        protocol="legacy",
    )


def ask_server(
    config: ServerConfig,
    method: str,
    params: object,
    *answers: RecordedAnswer,
    opening: ClientOpening | None = None,
) -> Answer:
    async def ask() -> Answer:
        async with open_server_target(config, opening or ClientOpening(), str) as stand:
            return await stand.request(method, msgspec.json.encode(params), AnswerScript(answers))

    return asyncio.run(ask())


def test_a_server_is_asked_and_its_handshake_kept(tiny: ServerConfig) -> None:
    async def ask() -> tuple[Answer, Answer | None, list[str]]:
        async with open_server_target(tiny, ClientOpening(revision="2025-11-25"), str) as stand:
            params = b'{"name":"say","arguments":{"text":"hello"}}'
            answer = await stand.request("tools/call", params, AnswerScript())
            assert not stand.is_gateway
            return answer, stand.handshake_answer, list(await list_target_tools(stand))

    answer, greeting, tools = asyncio.run(ask())
    assert isinstance(answer, Result)
    assert b'"hello"' in answer.result
    assert isinstance(greeting, Result)
    assert msgspec.json.decode(greeting.result)["serverInfo"] == {"name": "tiny", "version": "1"}
    assert "add" in tools


def test_what_it_asks_is_answered_as_before(tiny: ServerConfig) -> None:
    said = RecordedAnswer(method="elicitation/create", answer=b'{"action":"decline"}')
    answer = ask_server(tiny, "tools/call", {"name": "ask"}, said)

    assert isinstance(answer, Result)
    [block] = msgspec.json.decode(answer.result)["content"]
    assert msgspec.json.decode(block["text"]) == {"action": "decline"}


def test_a_call_that_asks_for_progress_gets_it_and_its_answer(tiny: ServerConfig) -> None:
    params = {"name": "steps", "_meta": {"progressToken": "recorded"}}
    assert isinstance(ask_server(tiny, "tools/call", params), Result)


def test_a_server_that_never_answers_is_given_up(tiny: ServerConfig) -> None:
    answer = ask_server(replace(tiny, timeout_seconds=0.05), "tools/call", {"name": "hang"})
    assert isinstance(answer, NoAnswer)
    assert answer.reason == "did not answer within 0.05 s"


def test_a_server_that_cannot_be_asked_is_told(tiny: ServerConfig, tmp_path: Path) -> None:
    gone = replace(tiny, command=str(tmp_path / "gone"))
    with pytest.raises(CommandFailed, match="cannot connect to server 'tiny': "):
        ask_server(gone, "ping", {})
    unresolved = replace(tiny, unresolved=("TOKEN is not set",))
    with pytest.raises(CommandFailed, match="TOKEN is not set"):
        ask_server(unresolved, "ping", {})


def test_a_gateway_at_a_url_is_known_as_one(there: Running) -> None:
    async def look() -> bool:
        async with open_server_target(
            ServerConfig(slug="u", name="u", url=f"{there.url}/mcp/dev"), ClientOpening(), str
        ) as it:
            return it.is_gateway

    assert asyncio.run(look())


def test_a_url_is_spoken_to_in_the_revision_that_is_asked_for(there: Running) -> None:
    config = ServerConfig(slug="u", name="u", url=f"{there.url}/mcp/dev")
    for revision in ("2024-11-05", "2026-07-28"):
        opening = ClientOpening(revision=revision)
        params = {"name": "tiny__say", "arguments": {"text": "x"}}
        answer = ask_server(config, "tools/call", params, opening=opening)
        assert isinstance(answer, Result)
        assert (b'"resultType"' in answer.result) == (revision == "2026-07-28")


class Paged:
    """A server whose list has two pages."""

    handshake_answer = None
    is_gateway = False

    async def request(self, method: str, params: bytes | None, script: AnswerScript) -> Answer:
        if params == b"{}":
            return Result(b"1", b'{"tools":[{"name":"a"}],"nextCursor":""}')
        assert params == b'{"cursor":""}'
        return Result(b"1", b'{"tools":[{"name":"b"}]}')

    def notify(self, method: str, params: bytes | None) -> None:
        raise AssertionError


class Refusing(Paged):
    async def request(self, method: str, params: bytes | None, script: AnswerScript) -> Answer:
        return Failure(b"1", jsonrpc.encode_error(-32601, "No"))


def test_all_pages_of_the_tools_are_read() -> None:
    assert list(asyncio.run(list_target_tools(Paged()))) == ["a", "b"]
    assert asyncio.run(list_target_tools(Refusing())) == {}


def test_a_question_is_answered_as_before_and_each_answer_is_given_once() -> None:
    script = AnswerScript(
        [
            RecordedAnswer(method="roots/list", answer=b'{"roots":[]}'),
            RecordedAnswer(
                method="sampling/createMessage", answer=b'{"code":1,"message":"No"}', failed=True
            ),
        ]
    )
    assert script.answer(Request(b"1", "ping")) == Result(b"1", b"{}")
    refused = script.answer(Request(b"2", "sampling/createMessage"))
    assert refused == Failure(b"2", b'{"code":1,"message":"No"}')
    assert script.answer(Request(b"3", "roots/list")) == Result(b"3", b'{"roots":[]}')
    last = script.answer(Request(b"4", "roots/list"))
    assert isinstance(last, Failure)
    assert b"No answer to roots/list was recorded" in last.error


def test_stamps_of_the_recording_become_those_of_this_conversation() -> None:
    about = {
        meta.PROTOCOL_VERSION: "2025-01-01",
        meta.CLIENT_CAPABILITIES: {"roots": {}},
        meta.TRACEPARENT: "00-1-1-00",
        meta.PROGRESS_TOKEN: "[redacted]",
        "vendor/own": 1,
    }
    params = msgspec.json.encode({"name": "a", "_meta": about})
    opening = ClientOpening(client_info=b'{"name":"x"}')

    modern = prepare_params(params, NEWEST_MODERN, opening, b"7")
    assert modern is not None
    assert msgspec.json.decode(modern)["_meta"] == {
        meta.PROTOCOL_VERSION: NEWEST_MODERN.name,
        meta.CLIENT_CAPABILITIES: {"roots": {}},
        meta.CLIENT_INFO: {"name": "x"},
        meta.PROGRESS_TOKEN: 7,
        "vendor/own": 1,
    }
    legacy = prepare_params(params, NEWEST_LEGACY, opening, b"7")
    assert legacy is not None
    assert msgspec.json.decode(legacy)["_meta"] == {meta.PROGRESS_TOKEN: 7, "vendor/own": 1}


def test_params_that_need_no_stamps_stay_as_they_are() -> None:
    assert prepare_params(None, NEWEST_LEGACY, ClientOpening(), b"1") is None
    assert (
        prepare_params(b'{ "a": 1e100 }', NEWEST_LEGACY, ClientOpening(), b"1") == b'{ "a": 1e100 }'
    )


def ask_gateway(
    stage: Stage, opening: ClientOpening, method: str, params: object, *said: RecordedAnswer
) -> Answer:
    async def ask() -> Answer:
        setup = read_setup(SharedOptions())
        async with (
            start_replay_gateway(setup) as gateway,
            open_gateway_target(gateway, setup.profile, opening) as talking,
        ):
            return await talking.request(method, msgspec.json.encode(params), AnswerScript(said))

    stage.configure()
    return asyncio.run(ask())


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28", None])
def test_it_is_asked_in_the_revision_that_is_wanted(stage: Stage, revision: str | None) -> None:
    params = {"name": "tiny__say", "arguments": {"text": "x"}}
    answer = ask_gateway(stage, ClientOpening(revision=revision), "tools/call", params)

    assert isinstance(answer, Result)
    assert (b'"resultType"' in answer.result) == (revision == "2026-07-28")


def test_what_a_server_asks_is_answered_as_before(stage: Stage) -> None:
    opening = ClientOpening(revision="2025-11-25", capabilities=b'{"elicitation":{}}')
    said = RecordedAnswer(method="elicitation/create", answer=b'{"action":"decline"}')
    answer = ask_gateway(stage, opening, "tools/call", {"name": "tiny__ask"}, said)

    assert isinstance(answer, Result)
    assert b"decline" in answer.result


def test_a_list_is_whole_when_it_is_asked_for(stage: Stage) -> None:
    answer = ask_gateway(stage, ClientOpening(), "tools/list", {})
    assert isinstance(answer, Result)
    assert b'"tiny__add"' in answer.result


def test_an_error_is_an_answer(stage: Stage) -> None:
    answer = ask_gateway(stage, ClientOpening(), "tools/call", {"name": "nobody"})
    assert isinstance(answer, Failure)


def test_hooks_are_left_out(stage: Stage) -> None:
    async def run() -> None:
        setup = read_setup(SharedOptions())
        hook = HookConfig(name="loud", on="type:tool_call", run=("touch", "heard"))
        async with start_replay_gateway(
            replace(setup, config=replace(setup.config, hooks=(hook,)))
        ) as gateway:
            assert gateway.config.hooks == ()

    stage.configure()
    asyncio.run(run())


class Silly:
    """A line to something that answers everything in one way."""

    def __init__(self, hear: FrameHandler, answer: bytes | None) -> None:
        self._hear = hear
        self._answer = answer

    def send(self, frame: bytes, on_lost: LostHandler | None = None) -> None:
        if self._answer is not None:
            self._hear(self._answer)
        elif on_lost is not None:
            on_lost(CommandFailed("the line is cut"))

    async def open_stream(self) -> None: ...
    async def wait_sent(self) -> None: ...
    async def close(self) -> None: ...


def silly(answer: bytes | None) -> GatewayTarget:
    def connect(hear: FrameHandler) -> GatewayTransport:
        return Silly(hear, answer)

    return GatewayTarget(connect, ClientOpening())


def test_what_is_no_answer_ends_the_wait() -> None:
    async def ask(answer: bytes | None) -> Answer:
        return await silly(answer).request("ping", None, AnswerScript())

    assert asyncio.run(ask(None)) == NoAnswer("the line is cut")
    garbled = asyncio.run(ask(b"{"))
    assert isinstance(garbled, NoAnswer)
    assert "not a JSON-RPC message" in garbled.reason


def test_a_handshake_that_is_refused_is_told() -> None:
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"No"}}'
    with pytest.raises(CommandFailed, match="refused the recorded handshake"):
        asyncio.run(silly(refusal).open())
