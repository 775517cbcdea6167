"""What a loss of power may take, as the operator has chosen.

No plug is pulled: a disk that fails to sync says which answers would have gone without their
record, and one that takes its time shows what a sync is shared by.
"""

import asyncio
import time
from pathlib import Path
from typing import Final

import pytest

from tests.harness import LineClient, Message, gateway
from tests.reliability.conftest import Serve
from tests.rig.faulty_disk import SYNCS, FaultyDisk
from tests.rig.load_clients import (
    BareLoadClient,
    LoadClient,
    ModernLoadClient,
    SessionLoadClient,
    SseLoadClient,
)
from tests.rig.raw_http_client import tool_call
from tests.rig.recorded import recovered
from tests.rig.scale import measured
from tests.rig.small_servers import text_of

pytestmark = pytest.mark.slow

RECORDED: Final = {"sync": "always", "onFailure": "block"}
ECHO: Final = {"name": "demo__echo", "arguments": {"text": "here"}}

SYNC_SECONDS: Final = 0.2
"""What each sync takes: by far the most that a call costs then, on a busy machine too."""
LATE_SECONDS: Final = 0.3
CALLERS: Final = 32
CALLS: Final = 5
"""Of each caller."""
SHARED_RATIO_MIN: Final = 4
"""Calls for each sync. Callers share them: each waits for two at most, so 16 is to be had."""


def is_withheld(answer: Message) -> bool:
    """Whether an answer tells that there is no record, of this call or of the one before it."""
    return bool(answer.get("error", {}).get("data") == {"reason": "record"})


def test_with_always_no_answer_on_a_pipe_leaves_before_its_record_is_on_the_disk(
    tmp_path: Path, shim: FaultyDisk
) -> None:
    with gateway(tmp_path, record=RECORDED) as client:
        client.initialize()
        for ask in (client.request, client.modern):
            for _ in range(3):
                text_of(ask("tools/call", ECHO))
            with shim.disk(error="EIO", calls=SYNCS, where="/events/"):
                assert is_withheld(ask("tools/call", ECHO))
            recovered(client)
            text_of(ask("tools/call", ECHO))
        # One that has told of its progress before.
        slow = {"name": "demo__slow", "arguments": {"seconds": 0.01, "steps": 2}}
        told = {**slow, "_meta": {"progressToken": "t"}}
        text_of(client.request("tools/call", told))
        with shim.disk(error="EIO", calls=SYNCS, where="/events/"):
            assert is_withheld(client.request("tools/call", told))
        recovered(client)
        assert client.finish() == 0
    assert b"The disk did not keep what was written" in client.stderr


@pytest.mark.parametrize(
    ("name", "arguments"), [("gateway_status", {}), ("get_events", {"limit": 1})]
)
def test_with_always_the_gateways_own_tools_wait_for_the_disk_unless_it_fails(
    tmp_path: Path, shim: FaultyDisk, name: str, arguments: Message
) -> None:
    with gateway(tmp_path, record=RECORDED) as client:
        client.initialize()
        own = {"name": name, "arguments": arguments}
        with shim.disk(seconds=LATE_SECONDS, calls=SYNCS, where="/events/"):
            for ask in (client.request, client.modern):
                began = time.monotonic()
                text_of(ask("tools/call", own))
                assert time.monotonic() - began >= LATE_SECONDS
        with shim.disk(error="EIO", calls=SYNCS, where="/events/"):
            assert is_withheld(client.request("tools/call", ECHO))
            text_of(client.request("tools/call", own))
        recovered(client)


def seconds_of(client: LineClient, method: str, params: Message) -> float:
    """How long a request takes."""
    began = time.monotonic()
    client.request(method, params)
    return time.monotonic() - began


def test_with_always_whatever_reaches_a_server_waits_and_what_the_gateway_knows_does_not(
    tmp_path: Path, shim: FaultyDisk
) -> None:
    prompt = {"ref": {"type": "ref/prompt", "name": "demo__greet"}}
    asked: list[tuple[str, Message, bool]] = [
        ("completion/complete", {**prompt, "argument": {"name": "name", "value": "A"}}, True),
        ("resources/read", {"uri": "demo://unknown"}, True),
        ("prompts/get", {"name": "unknown"}, True),
        ("tools/list", {}, False),
        ("ping", {}, False),
        ("unknown/method", {}, False),
    ]
    with gateway(tmp_path, record=RECORDED) as client:
        client.initialize()
        client.request("resources/list", {})
        with shim.disk(seconds=LATE_SECONDS, calls=SYNCS, where="/events/"):
            for method, params, waits in asked:
                # A machine that is busy may be late by chance, but not each time.
                quickest = min(seconds_of(client, method, params) for _ in range(4))
                assert (quickest >= LATE_SECONDS) is waits, method


@pytest.mark.parametrize(
    "kind", [ModernLoadClient, BareLoadClient, SessionLoadClient, SseLoadClient]
)
def test_with_always_no_answer_over_http_leaves_before_its_record_is_on_the_disk(
    serve: Serve, shim: FaultyDisk, kind: type[LoadClient]
) -> None:
    with serve({}, record=RECORDED) as there:
        there._over.set()  # The neighbour's calls would be refused, too.
        there._neighbour.join()
        complaints: list[str] = []

        async def scene() -> None:
            async with asyncio.TaskGroup() as group:
                caller = kind(there.port, complaints.append)
                await caller.open(group)

                async def ask(name: str, arguments: Message, **meta: str) -> Message:
                    name = f"neighbour__{name}"
                    return await caller.ask(tool_call(name, arguments, next(caller.ids), **meta))

                async def well() -> Message:
                    while is_withheld(answer := await ask("echo", {"text": "here"})):
                        await asyncio.sleep(0.05)
                    return answer

                for _ in range(3):  # The last ones go the short way.
                    assert text_of(await well()) == "here"
                for name, arguments, meta in (
                    ("echo", {"text": "here"}, {}),
                    ("slow", {"seconds": 0.01, "steps": 2}, {"progressToken": "t"}),
                ):
                    text_of(await ask(name, arguments, **meta))
                    with shim.disk(error="EIO", calls=SYNCS, where="/events/"):
                        assert is_withheld(await ask(name, arguments, **meta))
                    assert text_of(await well()) == "here"
                await caller.close()
                caller.rest()

        asyncio.run(scene())
        assert complaints == []


def test_callers_share_what_a_sync_costs(serve: Serve, shim: FaultyDisk) -> None:
    with serve({}, record={"sync": "always"}) as there:
        there._over.set()  # The neighbour would share them, too.
        there._neighbour.join()

        async def syncs(callers: int) -> int:
            """How many it takes when so many callers make their calls."""
            before = len(shim.spoilt)
            many = [BareLoadClient(there.port, lambda words: None) for _ in range(callers)]

            async def call(caller: LoadClient) -> None:
                for _ in range(CALLS):
                    text_of(await caller.call("neighbour__echo", {"text": "here"}))

            await asyncio.gather(*map(call, many))
            for caller in many:
                caller.rest()
            return len(shim.spoilt) - before

        with shim.disk(seconds=SYNC_SECONDS, calls=SYNCS, where="/events/"):
            alone = asyncio.run(syncs(1))
            together = asyncio.run(syncs(CALLERS))
        assert alone >= CALLS, "each call has a sync"
        assert together <= CALLERS * CALLS / SHARED_RATIO_MIN
        measured(syncs_of_one=alone, syncs_of_many=together, callers=CALLERS, calls_each=CALLS)
        there.calls_owed += (1 + CALLERS) * CALLS


@pytest.mark.parametrize(("sync", "signed"), [("batch", False), ("off", True)])
def test_with_off_nothing_is_ever_synced(
    tmp_path: Path, shim: FaultyDisk, sync: str, signed: bool
) -> None:
    with (
        shim.disk(error="EIO", calls=SYNCS, where="/events/"),
        shim.disk(error="EIO", calls=SYNCS, where="/heads.jsonl"),
        gateway(tmp_path, record={"sync": sync}) as client,
    ):
        client.initialize()
        text_of(client.request("tools/call", ECHO))
        assert client.finish() == 0
    assert (b"The journal cannot be signed" not in client.stderr) is signed
