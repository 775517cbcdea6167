"""What is told about the servers of a gateway that has just started."""

import asyncio
import os
import sys
from collections.abc import Callable

import pytest

from anyport.catalog.offers import Listing
from anyport.cli.options import SharedOptions
from anyport.cli.serve import startup_report as module
from anyport.cli.serve.startup_report import StartupReport
from anyport.cli.setup import read_setup
from anyport.gateway.gateway import Gateway
from anyport.gateway.http_app import start_servers
from anyport.protocol.methods import OfferKind
from anyport.upstream.list_cache import CachedServer, ListCache
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS

MUTE = {"command": "sh", "args": ["-c", "cat >/dev/null"], "protocol": "legacy"}
"""Reads everything and never answers."""

HINT = "for their status, run 'anyport status --url http://here'"


def told() -> list[str]:
    """What is said about the servers of the configuration, until nothing more will be."""

    async def look() -> list[str]:
        setup = read_setup(SharedOptions())
        said: list[str] = []
        timers: asyncio.Queue[Callable[[], None]] = asyncio.Queue()
        async with Gateway(setup.config, setup.state_dir, sole=False) as gateway:
            start_servers(gateway)
            outlook = StartupReport(gateway, "http://here", said.append)
            outlook.start(os.environ, lambda _, then: timers.put_nowait(then))
            async with asyncio.timeout(WAIT_SECONDS):
                while not timers.empty():
                    await asyncio.sleep(module.REPORT_POLL_SECONDS)
                    timers.get_nowait()()
        return said

    return asyncio.run(look())


def test_nothing_is_said_of_servers_that_run_or_are_switched_off(stage: Stage) -> None:
    stage.configure(off={"command": "./absent", "disabled": True})
    assert told() == []


def test_a_server_that_cannot_start_here_is_told_once_with_all_its_reasons(stage: Stage) -> None:
    stage.configure(
        absent={"command": "./absent", "cwd": "./nowhere"},
        unset={"command": "x", "env": {"A": "${env:NOT_SET_ANYWHERE}"}},
    )
    absent, unset, hint = told()
    assert absent.startswith("server 'absent' will not start: the command ")
    assert "; the working directory " in absent
    assert unset.startswith("server 'unset' will not start: env.A needs the environment variable")
    assert hint == HINT


def test_a_server_that_fails_is_told_with_the_reason(stage: Stage) -> None:
    stage.configure(ends={"command": "false"})
    ends, hint = told()
    assert ends.startswith("server 'ends' is not running: ")
    assert "the reason is not known" not in ends
    assert hint == HINT


def test_a_server_that_takes_longer_is_still_starting(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REPORT_SECONDS_MAX", 0.15)
    stage.configure(tiny={"command": "x", "disabled": True}, mute=MUTE)
    assert told() == ["server 'mute' is still starting", HINT]


def test_nothing_is_said_any_more_by_a_gateway_that_stops(stage: Stage) -> None:
    stage.configure(absent={"command": "./absent"})

    async def look() -> list[str]:
        setup = read_setup(SharedOptions())
        said: list[str] = []
        async with Gateway(setup.config, setup.state_dir, sole=False) as gateway:
            gateway.draining = True
            StartupReport(gateway, "http://here", said.append).start(
                {}, lambda *_: said.append("later")
            )
        return said

    (only,) = asyncio.run(look())
    assert only.startswith("server 'absent' will not start: ")


def test_nothing_is_said_of_a_server_that_waits_to_be_used(stage: Stage) -> None:
    lazy = {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"], "start": "first-use"}
    stage.configure(lazy=lazy)
    setup = read_setup(SharedOptions())
    cache = ListCache(setup.state_dir)
    cache.save(setup.config.servers["lazy"], CachedServer(listings={OfferKind.TOOLS: Listing()}))

    assert told() == []
