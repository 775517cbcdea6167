"""A gateway for the time of one command."""

import asyncio
from dataclasses import replace
from typing import cast

import pytest

from anyport.cli.connect import client as module
from anyport.cli.connect.local import InProcessTransport, describe_trouble, start_local_gateway
from anyport.cli.options import SharedOptions
from anyport.cli.setup import read_setup
from anyport.config.model import HookConfig
from anyport.gateway.gateway import Gateway
from anyport.protocol.exchange import Answered, Exchange, Progress, Session
from tests.cli.connect.test_client import FakeGateway
from tests.cli.stage import Stage
from tests.harness import read_events


def test_an_answer_is_heard_only_once_it_is_in_the_journal() -> None:
    heard: list[tuple[int, bytes]] = []

    def play(exchange: Exchange) -> None:
        exchange.progress_token = b"1"
        exchange.deliver(exchange, Progress(b'{"progressToken":0,"progress":1}'))
        exchange.end(Answered(b"{}"))

    async def converse() -> list[Session]:
        fake = FakeGateway(play)
        transport = InProcessTransport(
            cast(Gateway, fake), "default", lambda frame: heard.append((fake.flushed, frame))
        )
        transport.send(b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}')
        await transport.wait_sent()
        await transport.open_stream()
        await transport.close()
        return fake.sessions

    assert asyncio.run(converse()) == []
    (_, progress), (flushed, answer) = heard
    assert b"notifications/progress" in progress
    assert (flushed, answer) == (1, b'{"jsonrpc":"2.0","id":1,"result":{}}')


MUTE = {"command": "sh", "args": ["-c", "cat >/dev/null"], "protocol": "legacy"}
"""Reads everything and never answers."""


def test_servers_have_told_what_they_offer_when_it_is_settled(stage: Stage) -> None:
    stage.configure()

    async def visit() -> list[bytes]:
        async with start_local_gateway(read_setup(SharedOptions())) as here:
            await here.wait_settled()
            return [bytes(tool) for tool in await here.client.list_all("tools/list", "tools")]

    assert any(b"tiny__add" in tool for tool in asyncio.run(visit()))
    kinds = [event["event_type"] for event in read_events(stage.state)]
    assert kinds[0] == "gateway.started"
    assert kinds[-1] == "gateway.stopped"


def test_what_one_command_does_sets_no_hook_off(stage: Stage) -> None:
    stage.configure()
    hook = HookConfig(name="h", on="type:*", run=("nothing",))

    async def visit() -> None:
        setup = read_setup(SharedOptions())
        hooked = replace(setup, config=replace(setup.config, hooks=(hook,)))
        async with start_local_gateway(hooked) as here:
            assert here.gateway.config.hooks == ()

    asyncio.run(visit())


def test_the_wait_for_a_slow_server_is_bounded_and_explained(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.configure(tiny={"command": "x", "disabled": True}, mute=MUTE)
    monkeypatch.setattr(module, "SETTLE_SECONDS_MAX", 0.05)
    monkeypatch.setattr(module, "WAIT_NOTICE_SECONDS", 0.0)

    async def visit() -> None:
        async with start_local_gateway(read_setup(SharedOptions())) as here:
            await here.wait_settled()
            here.report_troubles()

    asyncio.run(visit())
    told = capsys.readouterr().err.splitlines()
    assert "anyport: waiting for mute" in told[-2]
    assert told[-1] == "anyport: server 'mute' has not started in 0.05 s"


def test_what_happens_in_the_block_passes_as_it_is_and_the_journal_is_closed(stage: Stage) -> None:
    stage.configure()

    async def visit() -> None:
        async with start_local_gateway(read_setup(SharedOptions())):
            raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        asyncio.run(visit())
    assert read_events(stage.state)[-1]["event_type"] == "gateway.stopped"


def test_a_server_that_runs_or_is_switched_off_is_no_trouble(stage: Stage) -> None:
    stage.configure(off={"command": "x", "disabled": True}, gone={"command": "./gone"})

    async def visit() -> list[str | None]:
        async with start_local_gateway(read_setup(SharedOptions())) as here:
            await here.wait_settled()
            return [describe_trouble(server) for server in here.gateway.servers.values()]

    tiny, off, gone = asyncio.run(visit())
    assert (tiny, off) == (None, None)
    assert gone is not None
    assert gone.startswith("is not running: ")


def test_only_the_server_that_a_name_begins_with_is_told_to_be_down(stage: Stage) -> None:
    stage.configure(gone={"command": "./gone"})

    assert "gone" not in stage.run("call", "typo__add").err
    assert "server 'gone' is not running: " in stage.run("call", "gone__add").err


def test_a_tool_is_found_by_both_of_its_names_and_a_missing_one_explained(stage: Stage) -> None:
    stage.configure(off={"command": "x", "disabled": True})

    async def look() -> list[str]:
        async with start_local_gateway(read_setup(SharedOptions())) as here:
            for name in ("tiny__add", "add"):
                entry = await here.find(name)
                assert entry is not None
                assert entry.public == "tiny__add"
            assert await here.find("zzz") is None
            return [here.explain_missing(name) for name in ("zzz", "off__x")]

    assert asyncio.run(look()) == [
        "there is no tool 'zzz'; 'anyport tools' lists all tools",
        "there is no tool 'off__x'; server 'off' is disabled in the configuration",
    ]
