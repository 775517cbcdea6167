"""A call whose client goes away and comes back."""

from pathlib import Path

import pytest

from anyport.gateway.resting import HELD_REPORTS_MAX, Resting
from anyport.protocol.exchange import Progress
from tests.gateway.fakes import Asked
from tests.gateway.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


class Quiet(Resting):
    """Nobody gives it up."""

    def cancelled(self, reason: bytes | None) -> None:
        """Nothing follows."""


def told(asked: Asked) -> list[bytes]:
    return [each.params for each in asked.told if isinstance(each, Progress)]


def test_what_is_told_while_its_client_is_there_is_passed_on(scene: Scene) -> None:
    asked = Asked()
    resting = Quiet(scene.relay, asked.exchange, scene.server)

    resting.progressed([b"1", b"2"])

    assert told(asked) == [b"1", b"2"]


def test_what_is_told_meanwhile_is_kept_for_who_comes_back_and_only_the_last_of_it(
    scene: Scene,
) -> None:
    first, second = Asked(), Asked()
    first.exchange.trace_id, first.exchange.lease = "t", "mine"
    first.exchange.attempts = 2
    resting = Quiet(scene.relay, first.exchange, scene.server)
    scene.deadlines.start(resting)
    resting.rest()
    assert len(scene.deadlines) == 0, "its time stands still"
    first.exchange.ended = True

    resting.progressed([b"%d" % number for number in range(HELD_REPORTS_MAX + 2)])
    resting.wake(second.exchange)

    assert told(first) == []
    assert told(second) == [b"%d" % number for number in range(2, HELD_REPORTS_MAX + 2)]
    exchange = second.exchange
    assert (exchange.trace_id, exchange.lease, exchange.attempts) == ("t", "mine", 2)
    assert len(scene.deadlines) == 1


def test_a_client_that_came_back_may_give_up_all_the_same(scene: Scene) -> None:
    given_up: list[bytes | None] = []

    class Heard(Resting):
        def cancelled(self, reason: bytes | None) -> None:
            given_up.append(reason)

    first, second = Asked(), Asked()
    Heard(scene.relay, first.exchange, scene.server).wake(second.exchange)

    second.exchange.cancel(b'"enough"')

    assert given_up == [b'"enough"']
