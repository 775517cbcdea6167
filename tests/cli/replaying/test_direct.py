"""A server, asked with no gateway in between."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from anyport.cli.ending import CommandFailed
from anyport.cli.replaying.case import Opening, Said
from anyport.cli.replaying.direct import direct
from anyport.cli.replaying.stand import Answer, Script, tools_of
from anyport.config.schema import ServerConfig
from anyport.upstream.call import Lost
from anyport.wire.frame import Result
from tests.cli.running import Running
from tests.cli.stage import TINY_SERVER


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


def asked(
    config: ServerConfig,
    method: str,
    params: object,
    *answers: Said,
    opening: Opening | None = None,
) -> Answer:
    async def ask() -> Answer:
        async with direct(config, opening or Opening(), str) as stand:
            return await stand.request(method, msgspec.json.encode(params), Script(answers))

    return asyncio.run(ask())


def test_a_server_is_asked_and_its_handshake_kept(tiny: ServerConfig) -> None:
    async def ask() -> tuple[Answer, Answer | None, list[str]]:
        async with direct(tiny, Opening(revision="2025-11-25"), str) as stand:
            params = b'{"name":"say","arguments":{"text":"hello"}}'
            answer = await stand.request("tools/call", params, Script())
            assert not stand.is_gateway
            return answer, stand.greeting, list(await tools_of(stand))

    answer, greeting, tools = asyncio.run(ask())
    assert isinstance(answer, Result)
    assert b'"hello"' in answer.result
    assert isinstance(greeting, Result)
    assert msgspec.json.decode(greeting.result)["serverInfo"] == {"name": "tiny", "version": "1"}
    assert "add" in tools


def test_what_it_asks_is_answered_as_before(tiny: ServerConfig) -> None:
    said = Said(method="elicitation/create", answer=b'{"action":"decline"}')
    answer = asked(tiny, "tools/call", {"name": "ask"}, said)

    assert isinstance(answer, Result)
    [block] = msgspec.json.decode(answer.result)["content"]
    assert msgspec.json.decode(block["text"]) == {"action": "decline"}


def test_a_call_that_asks_for_progress_gets_it_and_its_answer(tiny: ServerConfig) -> None:
    params = {"name": "steps", "_meta": {"progressToken": "recorded"}}
    assert isinstance(asked(tiny, "tools/call", params), Result)


def test_a_server_that_never_answers_is_given_up(tiny: ServerConfig) -> None:
    answer = asked(replace(tiny, timeout_seconds=0.05), "tools/call", {"name": "hang"})
    assert isinstance(answer, Lost)
    assert answer.reason == "did not answer within 0.05 s"


def test_a_server_that_cannot_be_asked_is_told(tiny: ServerConfig, tmp_path: Path) -> None:
    gone = replace(tiny, command=str(tmp_path / "gone"))
    with pytest.raises(CommandFailed, match="server 'tiny' cannot be asked: "):
        asked(gone, "ping", {})
    unresolved = replace(tiny, unresolved=("TOKEN is not set",))
    with pytest.raises(CommandFailed, match="TOKEN is not set"):
        asked(unresolved, "ping", {})


def test_a_gateway_at_a_url_is_known_as_one(there: Running) -> None:
    async def look() -> bool:
        async with direct(
            ServerConfig(slug="u", name="u", url=f"{there.url}/mcp/dev"), Opening(), str
        ) as it:
            return it.is_gateway

    assert asyncio.run(look())


def test_a_url_is_spoken_to_in_the_revision_that_is_asked_for(there: Running) -> None:
    config = ServerConfig(slug="u", name="u", url=f"{there.url}/mcp/dev")
    for revision in ("2024-11-05", "2026-07-28"):
        opening = Opening(revision=revision)
        params = {"name": "tiny__say", "arguments": {"text": "x"}}
        answer = asked(config, "tools/call", params, opening=opening)
        assert isinstance(answer, Result)
        assert (b'"resultType"' in answer.result) == (revision == "2026-07-28")
