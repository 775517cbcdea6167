"""What a supervisor may expect of any transport, whichever server lies at its end."""

from collections.abc import Callable, Coroutine
from typing import Any, get_args

import pytest

from anyport.config.model import Transport
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.upstream.transport import (
    HttpDialect,
    ServerQuirks,
    UpstreamTransport,
)
from tests.upstream.fakes import run
from tests.upstream.transports import OpenTransport, TransportScene, by_process, by_url, refused

Scene = Callable[[UpstreamTransport, TransportScene], Coroutine[Any, Any, None]]

each_transport = pytest.mark.parametrize("open_transport", [by_process, by_url])


def play(open_transport: OpenTransport, scene: Scene) -> None:
    async def whole() -> None:
        at = TransportScene()
        async with open_transport(at) as transport:
            await scene(transport, at)

    run(whole)


@each_transport
def test_a_transport_that_was_never_opened_can_be_cleaned_up(
    open_transport: OpenTransport,
) -> None:
    async def scene(transport: UpstreamTransport, at: TransportScene) -> None:
        await transport.clean_up()

        assert (transport.current_connection, transport.child, transport.noise) == (
            None,
            None,
            None,
        )
        assert transport.transport_name in get_args(Transport)
        assert at.owner.draining == []

    play(open_transport, scene)


@each_transport
def test_a_connection_is_ready_when_it_is_handed_over(open_transport: OpenTransport) -> None:
    async def scene(transport: UpstreamTransport, at: TransportScene) -> None:
        connection = await transport.open()

        assert connection.usable
        assert connection.peer is not None
        assert transport.current_connection is connection
        assert transport.noise is None

    play(open_transport, scene)


@each_transport
def test_one_connection_after_another_is_opened(open_transport: OpenTransport) -> None:
    async def scene(transport: UpstreamTransport, at: TransportScene) -> None:
        first = await transport.open()
        first.draining_reason = "it has to go"
        await transport.clean_up()
        second = await transport.open()

        assert second is not first
        assert (first.usable, second.usable) == (False, True)
        assert transport.current_connection is second
        assert at.owner.ends == 1

    play(open_transport, scene)


@each_transport
def test_after_a_rest_another_connection_can_be_opened(open_transport: OpenTransport) -> None:
    async def scene(transport: UpstreamTransport, at: TransportScene) -> None:
        await transport.suspend("there is nothing to rest from")
        first = await transport.open()

        await transport.suspend("nobody uses it")

        assert (first.usable, at.owner.draining[-1]) == (False, "nobody uses it")
        assert (at.owner.ends, transport.child) == (1, None)
        second = await transport.open()
        assert second.usable

    play(open_transport, scene)


@each_transport
def test_stopping_tells_everyone_why(open_transport: OpenTransport) -> None:
    async def scene(transport: UpstreamTransport, at: TransportScene) -> None:
        connection = await transport.open()
        answers: list[Answer] = []
        connection.call("tools/call", b'{"name":"x"}', answers.append)

        await transport.stop("the gateway is stopping")

        assert answers == [NoAnswer("the gateway is stopping")]
        assert at.owner.draining == ["the gateway is stopping"]
        assert at.owner.ends == 1
        assert not connection.usable

    play(open_transport, scene)


@each_transport
def test_after_stopping_nothing_can_be_opened(open_transport: OpenTransport) -> None:
    async def scene(transport: UpstreamTransport, at: TransportScene) -> None:
        await transport.stop("the gateway is stopping")

        assert await refused(transport) == "the gateway is stopping"
        assert transport.current_connection is None or not transport.current_connection.usable

    play(open_transport, scene)


@each_transport
def test_what_callers_read_holds_no_secrets(open_transport: OpenTransport) -> None:
    async def scene(transport: UpstreamTransport, at: TransportScene) -> None:
        assert transport.redact_reason("no luck with secret") == "no luck with ***"

    play(open_transport, scene)


@pytest.mark.parametrize(
    ("way", "transport"),
    [
        (HttpDialect.MODERN, "streamable-http"),
        (HttpDialect.LEGACY, "streamable-http"),
        (HttpDialect.LEGACY_SSE, "sse"),
    ],
)
def test_what_was_found_is_called_as_the_configuration_calls_it(
    way: HttpDialect, transport: str
) -> None:
    assert way.transport_name == transport
    assert way.transport_name in get_args(Transport)


def test_of_a_server_that_was_never_met_nothing_is_known() -> None:
    learned = ServerQuirks()

    assert learned.dialect is None
    assert not learned.dies_of_probe
