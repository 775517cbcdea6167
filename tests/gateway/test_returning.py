"""A client that comes back after a restart finds what it had wished for."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.gateway.returning import welcome_back
from anyport.gateway.runtime import Gateway
from anyport.protocol.method import Kind
from anyport.upstream.tender import State
from tests.gateway.fakes import FakeSession


class Inside:
    """A gateway that writes down what is asked of it."""

    def __init__(self, **servers: bool) -> None:
        """`servers`: whether each of them has told what it offers."""
        profile = SimpleNamespace(servers={slug: self._server(k) for slug, k in servers.items()})
        self.profiles = {"default": profile}
        self.feed = self.desk = self.interest = self
        self.shown_kinds: set[Kind] = set()
        self.levels: list[Any] = []
        self.synced: list[Any] = []
        self.waiting: list[tuple[Any, Callable[[], None]]] = []

    @staticmethod
    def _server(known: bool) -> Any:
        return SimpleNamespace(obstacle=None, state=State.STARTING, listed=known, listings={})

    @property
    def servers(self) -> list[Any]:
        return list(self.profiles["default"].servers.values())

    def shown(self, session: Any, kind: Kind) -> None:
        self.shown_kinds.add(kind)

    def pass_level(self, server: Any) -> None:
        self.levels.append(server)

    def sync(self, servers: Iterable[Any]) -> None:
        self.synced += servers

    def wait_for_server(self, server: Any, waited: float, then: Callable[[], None]) -> None:
        self.waiting.append((server, then))


def welcome(inside: Inside, **wishes: Any) -> FakeSession:
    session = FakeSession()
    for name, value in wishes.items():
        setattr(session, name, value)
    welcome_back(cast(Gateway, inside), session)
    return session


def test_it_learns_that_lists_may_have_changed_and_of_every_change_from_then_on() -> None:
    inside = Inside(a=True)

    session = welcome(inside)

    assert sorted(session.notified) == [
        ("notifications/prompts/list_changed", None),
        ("notifications/resources/list_changed", None),
        ("notifications/tools/list_changed", None),
    ]
    assert inside.shown_kinds == set(Kind)


def test_who_wished_for_nothing_costs_the_servers_nothing() -> None:
    inside = Inside(a=True, b=False)
    welcome(inside)
    assert (inside.levels, inside.synced, inside.waiting) == ([], [], [])


def test_its_log_level_is_passed_on() -> None:
    inside = Inside(a=True, b=False)
    welcome(inside, log_level="debug")
    assert inside.levels == inside.servers


@pytest.mark.parametrize("known", [True, False])
def test_what_it_follows_is_followed_as_soon_as_it_is_known_whose_it_is(known: bool) -> None:
    inside = Inside(a=known)

    welcome(inside, subscriptions={"a:1"})

    (server,) = inside.servers
    assert inside.synced == ([server] if known else [])
    for awaited, then in inside.waiting:
        assert awaited is server
        then()
    assert inside.synced == [server]
