"""A gateway started for the occasion, asked as a client would ask it."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from anyport.cli.caller import Hear, Line, Lost
from anyport.cli.ending import CommandFailed
from anyport.cli.options import Given
from anyport.cli.replaying.case import Opening, Said
from anyport.cli.replaying.stand import Answer, Script
from anyport.cli.replaying.within import Talk, talk, within
from anyport.cli.setup import read_setup
from anyport.config.schema import HookConfig
from anyport.upstream.call import Lost as NoAnswer
from anyport.wire.frame import Failure, Result
from tests.cli.stage import Stage


def asked(stage: Stage, opening: Opening, method: str, params: object, *said: Said) -> Answer:
    async def ask() -> Answer:
        setup = read_setup(Given())
        async with within(setup) as gateway, talk(gateway, setup.profile, opening) as talking:
            return await talking.request(method, msgspec.json.encode(params), Script(said))

    stage.configure()
    return asyncio.run(ask())


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28", None])
def test_it_is_asked_in_the_revision_that_is_wanted(stage: Stage, revision: str | None) -> None:
    params = {"name": "tiny__say", "arguments": {"text": "x"}}
    answer = asked(stage, Opening(revision=revision), "tools/call", params)

    assert isinstance(answer, Result)
    assert (b'"resultType"' in answer.result) == (revision == "2026-07-28")


def test_what_a_server_asks_is_answered_as_before(stage: Stage) -> None:
    opening = Opening(revision="2025-11-25", capabilities=b'{"elicitation":{}}')
    said = Said(method="elicitation/create", answer=b'{"action":"decline"}')
    answer = asked(stage, opening, "tools/call", {"name": "tiny__ask"}, said)

    assert isinstance(answer, Result)
    assert b"decline" in answer.result


def test_a_list_is_whole_when_it_is_asked_for(stage: Stage) -> None:
    answer = asked(stage, Opening(), "tools/list", {})
    assert isinstance(answer, Result)
    assert b'"tiny__add"' in answer.result


def test_an_error_is_an_answer(stage: Stage) -> None:
    answer = asked(stage, Opening(), "tools/call", {"name": "nobody"})
    assert isinstance(answer, Failure)


def test_hooks_are_left_out(stage: Stage) -> None:
    async def run() -> None:
        setup = read_setup(Given())
        hook = HookConfig(name="loud", on="type:tool_call", run=("touch", "heard"))
        async with within(replace(setup, config=replace(setup.config, hooks=(hook,)))) as gateway:
            assert gateway.config.hooks == ()

    stage.configure()
    asyncio.run(run())


class Silly:
    """A line to something that answers everything in one way."""

    def __init__(self, hear: Hear, answer: bytes | None) -> None:
        self._hear = hear
        self._answer = answer

    def tell(self, frame: bytes, on_lost: Lost | None = None) -> None:
        if self._answer is not None:
            self._hear(self._answer)
        elif on_lost is not None:
            on_lost(CommandFailed("the line is cut"))

    async def listen(self) -> None: ...
    async def arrived(self) -> None: ...
    async def close(self) -> None: ...


def silly(answer: bytes | None) -> Talk:
    def connect(hear: Hear) -> Line:
        return Silly(hear, answer)

    return Talk(connect, Opening())


def test_what_is_no_answer_ends_the_wait() -> None:
    async def ask(answer: bytes | None) -> Answer:
        return await silly(answer).request("ping", None, Script())

    assert asyncio.run(ask(None)) == NoAnswer("the line is cut")
    garbled = asyncio.run(ask(b"{"))
    assert isinstance(garbled, NoAnswer)
    assert "no message" in garbled.reason


def test_a_handshake_that_is_refused_is_told() -> None:
    refusal = b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"No"}}'
    with pytest.raises(CommandFailed, match="refused the handshake"):
        asyncio.run(silly(refusal).open())
