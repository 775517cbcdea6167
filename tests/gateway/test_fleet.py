"""The servers of a gateway: made with what is known of them, and let go when they have finished."""

import asyncio
from pathlib import Path
from typing import Any

from anyport.gateway.runtime import Gateway
from anyport.upstream.key import SHARED
from tests.gateway.test_runtime import config_of, echo, until
from tests.harness import read_events

DEADLINE_SECONDS = 20.0


def play(path: Path, scene: Any, *servers: Any) -> list[dict[str, Any]]:
    async def whole() -> None:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            Gateway(config_of(*servers), path, sole=False) as gateway,
        ):
            await scene(gateway)

    asyncio.run(whole())
    return read_events(path)


def test_a_server_that_was_made_knows_what_it_offered_last_time(tmp_path: Path) -> None:
    async def first(gateway: Gateway) -> None:
        gateway.servers["s"].open(SHARED)
        await until(lambda: gateway.servers["s"].listed)

    async def second(gateway: Gateway) -> None:
        assert gateway.fleet.make([echo()])["s"].listings

    play(tmp_path, first, echo())
    play(tmp_path, second, echo())


def test_a_server_that_nobody_waits_for_is_stopped_at_once(tmp_path: Path) -> None:
    async def scene(gateway: Gateway) -> None:
        server = gateway.servers["s"]
        server.open(SHARED)
        await until(lambda: server.listed)
        mapping = gateway.servers

        gateway.fleet.replace({})

        assert mapping == {} and mapping is gateway.fleet.servers
        await until(lambda: not server.connections())

    events = play(tmp_path, scene, echo())
    assert "no longer in the configuration" in str(
        [e["metadata"] for e in events if e["event_type"] == "gateway.backend_stopped"]
    )


def test_one_that_was_made_for_nothing_is_ended(tmp_path: Path) -> None:
    async def scene(gateway: Gateway) -> None:
        made = gateway.fleet.make([echo("spare")])
        made["spare"].open(SHARED)
        await until(lambda: made["spare"].listed)
        gateway.fleet.discard(made.values())
        await until(lambda: not made["spare"].connections())

    play(tmp_path, scene)


def test_whoever_is_still_on_the_way_out_does_not_outlive_the_gateway(tmp_path: Path) -> None:
    kept: list[Any] = []

    async def scene(gateway: Gateway) -> None:
        server = gateway.servers["s"]
        server.open(SHARED)
        await until(lambda: server.listed)
        [(_, line)] = server.connections()
        line.call("tools/call", b'{"name":"never","arguments":{}}', lambda _: None)
        kept.append(server)
        gateway.fleet.replace({})

    play(tmp_path, scene, echo())
    assert kept[0].connections() == []
