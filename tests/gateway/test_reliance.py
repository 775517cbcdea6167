"""What clients rely on, though nothing is being asked over a connection."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.gateway.errand import Errand
from anyport.gateway.reliance import Inside, is_relied_on
from anyport.protocol.revision import Era
from anyport.upstream.key import SHARED, LeaseKey
from tests.gateway.fakes import Asked, FakeServer, FakeSession, caller

OWN = LeaseKey(owner="mine")


class Scene:
    """A server, and a gateway in which the test says who wants what."""

    def __init__(self) -> None:
        self.server = FakeServer("s")
        self.server.tenders[SHARED] = self.server.tenders[OWN] = cast(Any, None)
        self.terms: dict[object, object] = {}
        self.handles: list[object] = []
        self.waiting: list[object] = []
        self.followed: dict[LeaseKey, frozenset[str]] = {}
        tasks = SimpleNamespace(means=SimpleNamespace(now=lambda: 100.0), handles=self.handles)
        self.relay = SimpleNamespace(deadlines=SimpleNamespace(terms=self.terms), tasks=tasks)
        self.questions = SimpleNamespace(waits=lambda line: line in self.waiting)
        self.feed = SimpleNamespace(uris_of=lambda server, key: self.followed.get(key, frozenset()))

    def relied(self, key: LeaseKey = SHARED, *, lost: bool = False) -> bool:
        line = None if lost else self.server.connection
        return is_relied_on(cast(Inside, self), self.server, key, line)

    def errand(self, asked: Asked, server: FakeServer | None = None) -> None:
        errand = Errand.__new__(Errand)
        errand.exchange, errand.server = asked.exchange, server or self.server
        self.terms[asked.exchange] = errand

    def task(self, era: Era, *, over: bool = False, expires: float = 200.0) -> None:
        handle = SimpleNamespace(
            server=self.server,
            era=era,
            task=SimpleNamespace(over=over),
            expires=expires,
            connection=self.server.connection,
        )
        self.handles.append(handle)


def test_nobody_relies_on_a_connection_that_was_only_used() -> None:
    scene = Scene()

    assert not scene.relied()
    assert not scene.relied(lost=True)


def test_a_call_whose_client_is_being_asked_relies_on_its_own_connection() -> None:
    scene = Scene()
    scene.errand(Asked(by=caller(FakeSession("mine"))))

    assert scene.relied(OWN)
    assert scene.relied(OWN, lost=True)
    assert not scene.relied(SHARED)


def test_a_call_with_a_connection_to_itself_relies_on_that_one() -> None:
    scene = Scene()
    asked = Asked()
    asked.exchange.lease = "call-1"
    scene.errand(asked)

    assert scene.relied(LeaseKey(owner="call-1"))
    assert not scene.relied(SHARED)


def test_a_call_of_another_server_says_nothing_of_this_one() -> None:
    scene = Scene()
    scene.errand(Asked(), FakeServer("another"))
    scene.terms["something else that must be over in time"] = object()

    assert not scene.relied()


def test_who_follows_a_resource_relies_on_the_connection_over_which_it_is_told() -> None:
    scene = Scene()
    scene.followed[OWN] = frozenset({"x:1"})

    assert scene.relied(OWN)
    assert scene.relied(OWN, lost=True)
    assert not scene.relied(SHARED)


def test_a_server_that_waits_for_an_answer_is_not_alone() -> None:
    scene = Scene()
    scene.waiting.append(scene.server.connection)

    assert scene.relied()
    assert not scene.relied(lost=True)


@pytest.mark.parametrize(
    ("era", "key", "lost", "relied"),
    [
        (Era.MODERN, SHARED, False, True),
        (Era.MODERN, SHARED, True, True),
        (Era.MODERN, OWN, False, False),
        (Era.LEGACY, OWN, False, True),
        (Era.LEGACY, OWN, True, False),
    ],
)
def test_a_task_relies_on_the_connection_over_which_it_is_known(
    era: Era, key: LeaseKey, lost: bool, relied: bool
) -> None:
    scene = Scene()
    scene.task(era)

    assert scene.relied(key, lost=lost) == relied


def test_a_task_that_is_over_or_forgotten_needs_nobody() -> None:
    scene = Scene()
    scene.task(Era.MODERN, over=True)
    scene.task(Era.MODERN, expires=100.0)

    assert not scene.relied()
