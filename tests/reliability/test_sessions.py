"""Sessions that nobody ends, event ids that nobody was given: they cost and tell nothing."""

import random
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Final

import pytest

from tests.harness import LEGACY_DEMO, Message
from tests.reliability.conftest import Serve
from tests.rig.probe import MIB, descendants, text_of
from tests.rig.raw_http_client import (
    STREAM,
    RawConnection,
    RawHttpClient,
    head,
    hello,
    post,
    request,
    tool_call,
    wait_for,
)
from tests.rig.scale import measured, scaled
from tests.rig.small_servers import ECHO, python

pytestmark = pytest.mark.slow

SESSIONS: Final = scaled(50, full=30_000)
SESSIONS_MAX: Final = scaled(30, full=400)
GREEDY: Final = scaled(120, full=800)
"""Sessions that one opens, and streams."""
IDLE_SECONDS: Final = 5
CHILDREN_EACH: Final = 2
"""The server, and the process that looks after it."""
EVENT_IDS: Final = scaled(500, full=10_000)
AT_ONCE: Final = 50


def test_sessions_that_are_never_ended_are_no_more_than_allowed_and_leave_nothing(
    serve: Serve,
) -> None:
    """Half of their clients can be asked, so that each has a process of the server to itself.

    The first cannot: they are as many as may be before processes have been started for some. Those
    that were not used for longest make room, and the neighbour's is not one of them.
    """
    opened = refused = most = processes = 0
    limits = {"sessionsMax": SESSIONS_MAX, "sessionIdleSeconds": IDLE_SECONDS, "listSeconds": 30}
    with (
        serve({"own": [*python(ECHO)]}, gateway=limits) as there,
        RawConnection(there.port) as wire,
    ):
        there.growth_bytes_max = 20 * MIB
        before = len(descendants(there.pid))
        while opened < SESSIONS:
            able: Message = {"sampling": {}} if opened % 2 and opened > SESSIONS_MAX else {}
            reply = wire.ask(post(hello(**able)))
            if reply.status != 200:
                assert reply.status == 429, reply
                assert int(reply.get("retry-after") or "") > 0
                refused += 1
                time.sleep(0.1)  # It is told to come later, and does.
                continue
            opened += 1
            session = {"Mcp-Session-Id": reply.get("mcp-session-id") or ""}
            if able:
                answer = wire.ask(post(tool_call("own__echo"), session)).message
                assert text_of(answer) == "here"
                there.calls_owed += 1
                processes = max(processes, len(descendants(there.pid)) - before)
            most = max(most, there.sessions())
        assert SESSIONS_MAX // 2 < most <= SESSIONS_MAX
        assert 0 < processes <= CHILDREN_EACH * SESSIONS_MAX
        wait_for(lambda: there.sessions() <= 1, "only the neighbour's session is left")
        wait_for(lambda: len(descendants(there.pid)) == before, "no process of theirs is left")
        measured(sessions=opened, at_once=most, own_processes=processes, refused=refused)


def strange(ids: list[str], chance: random.Random) -> Iterator[str]:
    """Ids of events, changed a little, or made up."""
    while True:
        id = chance.choice(ids)
        place = chance.randrange(len(id))
        yield chance.choice(
            (
                id[:place] + chance.choice("0123456789-abcdefZ_.~") + id[place + 1 :],
                id[:place] + id[place + 1 :],
                id + chance.choice(ids),
                f"{chance.randrange(1 << 70)}-{chance.randrange(100)}",
                "".join(chance.choices("0123456789abcdef-", k=chance.randrange(1, 200))),
            )
        )


def test_an_event_id_that_is_not_ones_own_opens_a_fresh_stream_at_most(serve: Serve) -> None:
    mark = "this is for one session alone"
    chance = random.Random(21)
    with serve({"demo": LEGACY_DEMO}) as there, closing(RawHttpClient(there.port)) as owner:
        slow = tool_call("demo__slow", {"seconds": 0, "steps": 5}, progressToken=mark)
        told = owner.send(slow)
        ids = [id.decode() for id in re.findall(rb"^id: (.+)$", told.body, re.MULTILINE)]
        assert len(ids) >= 5
        there.calls_owed += 1
        tried = strange(ids, chance)
        statuses = set()
        for _ in range(0, EVENT_IDS, AT_ONCE):
            with closing(RawHttpClient(there.port)) as stranger, ExitStack() as stack:
                wires = [stack.enter_context(RawConnection(there.port)) for _ in range(AT_ONCE)]
                for wire in wires:
                    fields = {"Accept": STREAM, **stranger.fields, "Last-Event-ID": next(tried)}
                    wire.send(head("GET", "/mcp", fields))
                statuses |= {wire.head()[1] for wire in wires}
                stranger.send(request("ping"))
                assert not [wire for wire in wires if mark.encode() in wire.arrived()]
        assert statuses <= {200, 400, 404, 409}
        measured(ids=EVENT_IDS, foreign_events=0)


def test_one_token_that_opens_all_it_can_locks_nobody_out(serve: Serve) -> None:
    """Sessions of both transports, streams of sessions, and followers of the events."""
    greedy, late = "the-greedy-token", "the-late-token"
    tokens = {"greedy": greedy, "late": late}
    gateway = {"sessionsMax": SESSIONS_MAX, "tokens": tokens}
    mine = {"Authorization": f"Bearer {greedy}"}
    theirs = {"Authorization": f"Bearer {late}"}
    paths = ("/mcp", "/api/v1/events/stream", "/api/v1/traffic/stream")
    with serve({}, tokens=True, gateway=gateway) as there, ExitStack() as stack:
        there.growth_bytes_max = 40 * MIB
        with closing(RawHttpClient(there.port, theirs)) as first, RawConnection(there.port) as wire:
            for number in range(GREEDY):
                assert wire.ask(post(hello(), mine)).status == 200
                reader = stack.enter_context(RawConnection(there.port))
                fields = {"Accept": STREAM, **mine}
                reader.send(head("GET", paths[number % len(paths)], fields))
                assert reader.head()[1] == 200
            assert there.sessions() <= 2 * SESSIONS_MAX
            for path in paths:
                late_reader = stack.enter_context(RawConnection(there.port))
                late_reader.send(head("GET", path, {"Accept": STREAM, **theirs}))
                assert late_reader.head()[1] == 200
            first.call("neighbour__echo", text="still here")
            with closing(RawHttpClient(there.port, theirs)) as second:
                second.call("neighbour__echo", text="let in")
            there.calls_owed += 2
