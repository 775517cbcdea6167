"""What a tender may expect of any road, whichever server lies at its end."""

from collections.abc import Callable, Coroutine
from typing import Any, get_args

import pytest

from anyport.config.schema import Transport
from anyport.protocol.headers import NO_ANNOTATIONS
from anyport.upstream.call import Answer, Lost
from anyport.upstream.road import Catalogue, Learned, Road, Way
from tests.upstream.fakes import run
from tests.upstream.travels import RoadTo, Travels, by_process, by_url, refused

Scene = Callable[[Road, Travels], Coroutine[Any, Any, None]]

roads = pytest.mark.parametrize("road_to", [by_process, by_url])


def play(road_to: RoadTo, scene: Scene) -> None:
    async def whole() -> None:
        travels = Travels()
        async with road_to(travels) as road:
            await scene(road, travels)

    run(whole)


@roads
def test_a_road_that_was_never_taken_has_nothing_on_it_and_can_be_cleared(road_to: RoadTo) -> None:
    async def scene(road: Road, travels: Travels) -> None:
        await road.clear()

        assert (road.line, road.child, road.noise) == (None, None, None)
        assert road.transport in get_args(Transport)
        assert travels.over == []

    play(road_to, scene)


@roads
def test_a_connection_is_ready_when_it_is_handed_over(road_to: RoadTo) -> None:
    async def scene(road: Road, travels: Travels) -> None:
        connection = await road.open()

        assert connection.usable
        assert connection.peer is not None
        assert road.line is connection
        assert road.noise is None

    play(road_to, scene)


@roads
def test_one_connection_after_another_is_opened(road_to: RoadTo) -> None:
    async def scene(road: Road, travels: Travels) -> None:
        first = await road.open()
        first.over = "it has to go"
        await road.clear()
        second = await road.open()

        assert second is not first
        assert (first.usable, second.usable) == (False, True)
        assert road.line is second
        assert travels.ear.ends == 1

    play(road_to, scene)


@roads
def test_after_a_rest_another_connection_can_be_opened(road_to: RoadTo) -> None:
    async def scene(road: Road, travels: Travels) -> None:
        await road.rest("there is nothing to rest from")
        first = await road.open()

        await road.rest("nobody uses it")

        assert (first.usable, travels.over[-1]) == (False, "nobody uses it")
        assert (travels.ear.ends, road.child) == (1, None)
        second = await road.open()
        assert second.usable

    play(road_to, scene)


@roads
def test_stopping_tells_everyone_why(road_to: RoadTo) -> None:
    async def scene(road: Road, travels: Travels) -> None:
        connection = await road.open()
        answers: list[Answer] = []
        connection.call("tools/call", b'{"name":"x"}', answers.append)

        await road.stop("the gateway is stopping")

        assert answers == [Lost("the gateway is stopping")]
        assert travels.over == ["the gateway is stopping"]
        assert travels.ear.ends == 1
        assert not connection.usable

    play(road_to, scene)


@roads
def test_after_stopping_nothing_can_be_opened(road_to: RoadTo) -> None:
    async def scene(road: Road, travels: Travels) -> None:
        await road.stop("the gateway is stopping")

        assert await refused(road) == "the gateway is stopping"
        assert road.line is None or not road.line.usable

    play(road_to, scene)


@roads
def test_what_callers_read_holds_no_secrets(road_to: RoadTo) -> None:
    async def scene(road: Road, travels: Travels) -> None:
        assert road.shown("no luck with secret") == "no luck with ***"

    play(road_to, scene)


@pytest.mark.parametrize(
    ("way", "transport"),
    [(Way.MODERN, "streamable-http"), (Way.LEGACY, "streamable-http"), (Way.EVENTS, "sse")],
)
def test_what_was_found_is_called_as_the_configuration_calls_it(way: Way, transport: str) -> None:
    assert way.transport == transport
    assert way.transport in get_args(Transport)


def test_of_a_server_that_was_never_met_nothing_is_known() -> None:
    learned = Learned()

    assert learned.way is None
    assert not learned.dies_of_probe


def test_without_a_catalogue_no_argument_is_repeated_and_nobody_waits_for_one() -> None:
    catalogue, called = Catalogue(), []

    catalogue.refresh(lambda: called.append(True))

    assert catalogue.annotations("report") == NO_ANNOTATIONS
    assert called == [True]
