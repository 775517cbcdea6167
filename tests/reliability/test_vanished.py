"""Clients that are gone without a word: no FIN, no reset, no acknowledgement."""

import time
from contextlib import ExitStack, closing

import pytest

from anyport.ingress.http.connection import PROBE_SECONDS, UNACKNOWLEDGED_SECONDS_MAX
from tests.reliability.conftest import Serve
from tests.rig.power_loss import lose_power, probe_seconds
from tests.rig.raw_http_client import STREAM, RawConnection, RawHttpClient, head
from tests.rig.scale import measured, scaled

pytestmark = pytest.mark.slow

CLIENTS = scaled(2, full=200)
SLACK_SECONDS = 60.0
"""A keep-alive comment has to be sent first, and sent again and again."""


def test_every_connection_is_probed(serve: Serve) -> None:
    with serve({}) as there, RawConnection(there.port) as wire:
        wire.ask(head("GET", "/healthz", {}))
        seconds = probe_seconds(there.port, wire.socket.getsockname()[1])

    assert seconds is not None
    assert seconds <= PROBE_SECONDS


def test_streams_of_clients_that_vanished_are_closed(serve: Serve) -> None:
    """Of sessions, to which they may come back, and of HTTP+SSE."""
    with serve({}) as there, ExitStack() as stack:
        streams = _streams(there.page("/metrics"))
        for _ in range(CLIENTS):
            visitor = stack.enter_context(closing(RawHttpClient(there.port)))
            lose_power(stack.enter_context(visitor.open_stream()).socket)
            older = stack.enter_context(RawConnection(there.port))
            older.send(head("GET", "/mcp/default/sse", {"Accept": STREAM}))
            older.head()
            lose_power(older.socket)
        assert _streams(there.page("/metrics")) == streams + 2 * CLIENTS
        began = time.monotonic()

        while _streams(there.page("/metrics")) > streams:
            assert time.monotonic() - began < UNACKNOWLEDGED_SECONDS_MAX + SLACK_SECONDS
            time.sleep(1)

        measured(seconds=round(time.monotonic() - began))


def _streams(page: bytes) -> int:
    (line,) = [line for line in page.decode().splitlines() if line.startswith("anyport_streams ")]
    return int(float(line.split()[1]))
