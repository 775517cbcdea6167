"""Every way over HTTP against a server that is not made for these tests."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from anyport.upstream.pending_call import Answer, PendingCall
from anyport.wire.jsonrpc import Failure, Result
from tests.harness import DEMO
from tests.upstream.fakes import run, until
from tests.upstream.web import Scene

WAYS = {
    "modern": ((), "2026-07-28", "streamable-http"),
    "modern, JSON only": (("--json-only",), "2026-07-28", "streamable-http"),
    "modern, streams only": (("--sse-only",), "2026-07-28", "streamable-http"),
    "legacy": (("--legacy-only",), "2025-11-25", "streamable-http"),
    "legacy, JSON only": (("--legacy-only", "--json-only"), "2025-11-25", "streamable-http"),
    "legacy, streams only": (("--legacy-only", "--sse-only"), "2025-11-25", "streamable-http"),
    "2025-03-26": (("--revision", "2025-03-26"), "2025-03-26", "streamable-http"),
    "forgetful": (("--legacy-only", "--lose-sessions", "3"), "2025-11-25", "streamable-http"),
    "HTTP+SSE": (("--transport", "sse"), "2025-11-25", "sse"),
}


@asynccontextmanager
async def demo(*options: str) -> AsyncIterator[str]:
    """A server of its own, and its URL."""
    process = await asyncio.create_subprocess_exec(
        *(*DEMO, "--http", "0", *options),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    assert "listening on" in line, line
    try:
        yield line.split()[-1]
    finally:
        process.kill()
        await process.communicate()


async def asked(scene: Scene, name: str, **arguments: Any) -> Answer:
    connection = await scene.connected()
    assert connection.peer is not None
    params = json.dumps({"name": name, "arguments": arguments}).encode()
    answers: list[Answer] = []
    connection.call("tools/call", connection.peer.adapter.gateway_params(params), answers.append)
    await until(lambda: bool(answers))
    return answers[0]


def text(found: Answer) -> str:
    assert isinstance(found, Result), found
    return str(json.loads(found.result)["content"][0]["text"])


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_real_server_is_found_and_called(way: str) -> None:
    options, revision, transport = WAYS[way]

    async def scene() -> None:
        async with demo(*options) as url, Scene(url) as at:
            connection = await at.connected()
            assert connection.peer is not None
            assert connection.peer.revision.name == revision
            assert at.supervisor.transport.transport_name == transport
            for number in range(10):
                assert (
                    text(await asked(at, "echo", text=f"{number} \u2028 ä")) == f"{number} \u2028 ä"
                )
            many = 2 if way == "forgetful" else 50
            answers = await asyncio.gather(*(asked(at, "echo", text=str(n)) for n in range(many)))
            assert [text(found) for found in answers] == [str(n) for n in range(many)]
            assert len(text(await asked(at, "big", bytes=300_000))) >= 300_000
            assert isinstance(await asked(at, "nothing like it"), Failure)
            assert at.broken == []

    run(scene)


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--legacy-only",), ("--transport", "sse")])
def test_progress_comes_and_a_call_can_be_cancelled(options: tuple[str, ...]) -> None:
    async def scene() -> None:
        async with demo(*options) as url, Scene(url) as at:
            connection = await at.connected()
            assert connection.peer is not None
            steps: list[bytes] = []
            answers: list[Answer] = []
            params = b'{"name":"slow","arguments":{"seconds":60,"steps":600}}'
            stamped = connection.peer.adapter.gateway_params(params)
            sent = connection.call("tools/call", stamped, answers.append, steps.extend)
            assert isinstance(sent, PendingCall)
            await until(lambda: len(steps) >= 2)

            connection.cancel(sent, None)
            assert text(await asked(at, "echo", text="next")) == "next"
            assert answers == []

    run(scene)


@pytest.mark.slow
def test_streams_that_are_dropped_are_taken_up_again() -> None:
    async def scene() -> None:
        async with demo("--legacy-only", "--drop-streams") as url, Scene(url) as at:
            for _ in range(3):
                found = await asked(at, "slow", seconds=0.3, steps=3)
                assert "3 steps" in text(found)
            assert at.broken == []

    run(scene)


@pytest.mark.slow
def test_annotated_arguments_reach_a_server_that_insists_on_their_headers() -> None:
    async def scene() -> None:
        async with demo("--modern-only") as url, Scene(url) as at:
            refused = await asked(at, "regional", region="eu-1 ü", shard=7)
            assert isinstance(refused, Failure)
            assert at.owner.refreshes == 1

            at.owner.annotations_by_tool["regional"] = {"Region": ("region",), "Shard": ("shard",)}
            found = await asked(at, "regional", region="eu-1 ü", shard=7)
            assert text(found) == "Region eu-1 ü, shard 7."

    run(scene)
