"""A gateway for the time of one command."""

import asyncio
from dataclasses import replace

import pytest

from anyport.cli import occasion as module
from anyport.cli.occasion import describe_trouble, occasion
from anyport.cli.options import Given
from anyport.cli.setup import read_setup
from anyport.config.schema import HookConfig
from tests.cli.stage import Stage
from tests.harness import read_events

MUTE = {"command": "sh", "args": ["-c", "cat >/dev/null"], "protocol": "legacy"}
"""Reads everything and never answers."""


def test_servers_have_told_what_they_offer_when_it_is_settled(stage: Stage) -> None:
    stage.configure()

    async def visit() -> list[bytes]:
        async with occasion(read_setup(Given())) as here:
            await here.settle()
            return [bytes(tool) for tool in await here.caller.list_all("tools/list", "tools")]

    assert any(b"tiny__add" in tool for tool in asyncio.run(visit()))
    kinds = [event["event_type"] for event in read_events(stage.state)]
    assert kinds[0] == "gateway.started"
    assert kinds[-1] == "gateway.stopped"


def test_what_one_command_does_sets_no_hook_off(stage: Stage) -> None:
    stage.configure()
    hook = HookConfig(name="h", on="type:*", run=("nothing",))

    async def visit() -> None:
        setup = read_setup(Given())
        hooked = replace(setup, config=replace(setup.config, hooks=(hook,)))
        async with occasion(hooked) as here:
            assert here.gateway.config.hooks == ()

    asyncio.run(visit())


def test_the_wait_for_a_slow_server_is_bounded_and_explained(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.configure(tiny={"command": "x", "disabled": True}, mute=MUTE)
    monkeypatch.setattr(module, "SETTLE_SECONDS_MAX", 0.05)
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.0)

    async def visit() -> None:
        async with occasion(read_setup(Given())) as here:
            await here.settle()
            here.tell_troubles()

    asyncio.run(visit())
    told = capsys.readouterr().err.splitlines()
    assert "anyport: waiting for mute" in told[-2]
    assert told[-1] == "anyport: server 'mute' has not started in 0.05 s"


def test_what_happens_in_the_block_passes_as_it_is_and_the_journal_is_closed(stage: Stage) -> None:
    stage.configure()

    async def visit() -> None:
        async with occasion(read_setup(Given())):
            raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        asyncio.run(visit())
    assert read_events(stage.state)[-1]["event_type"] == "gateway.stopped"


def test_a_server_that_runs_or_is_switched_off_is_no_trouble(stage: Stage) -> None:
    stage.configure(off={"command": "x", "disabled": True}, gone={"command": "./gone"})

    async def visit() -> list[str | None]:
        async with occasion(read_setup(Given())) as here:
            await here.settle()
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
        async with occasion(read_setup(Given())) as here:
            for name in ("tiny__add", "add"):
                entry = await here.find(name)
                assert entry is not None
                assert entry.public == "tiny__add"
            assert await here.find("zzz") is None
            return [here.explain_missing(name) for name in ("zzz", "off__x")]

    assert asyncio.run(look()) == [
        "there is no tool 'zzz'; 'anyport tools' lists what there is",
        "there is no tool 'off__x'; server 'off' is disabled in the configuration",
    ]
