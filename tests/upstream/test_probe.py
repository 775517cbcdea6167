"""One cheap question, its answer, and its end."""

from collections.abc import Callable
from typing import Any

import pytest

from anyport.protocol.revision import Revision
from anyport.protocol.timeouts import Timeout
from anyport.upstream.call import Answer, Lost
from anyport.upstream.probe import Probe
from anyport.upstream.sign import Sign
from anyport.upstream.watch import Ticking
from anyport.wire.frame import Result
from tests.upstream.fakes import LEGACY, MODERN, connected, say


class Bench:
    """A probe on its way."""

    def __init__(self, revision: Revision, lost: str | None = None) -> None:
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.told: list[Answer] = []
        self.noted: list[str] = []
        self.connection, self.channel, _ = connected(revision)
        self.connection.noted = lambda asked, answer, took: self.noted.append(asked[0])
        if lost is not None:
            self.connection.end(lost)
        time = Ticking(
            later=lambda seconds, act: self.later.append((seconds, act)),
            clock=lambda: 0.0,
            chance=lambda: 0.0,
        )
        assert self.connection.peer is not None
        Probe(self.connection, self.connection.peer, time, self.told.append).ask(5.0)

    @property
    def sent(self) -> list[Any]:
        return [message["method"] for message in self.channel.sent]


@pytest.mark.parametrize(
    ("revision", "method"),
    [(LEGACY, "ping"), (MODERN, "server/discover")],
    ids=["legacy", "modern"],
)
def test_each_era_has_its_own_question(revision: Revision, method: str) -> None:
    bench = Bench(revision)
    assert bench.sent == [method]
    about = bench.channel.sent[0].get("params", {}).get("_meta", {})
    assert bool(about) is (revision is MODERN), "a modern request says everything"

    say(bench.connection, id=bench.channel.sent[0]["id"], result={"a": 1})

    (answer,) = bench.told
    assert isinstance(answer, Result)
    assert bench.noted == [method]


def test_it_is_given_up_after_its_time_and_told_once() -> None:
    bench = Bench(LEGACY)
    ((seconds, give_up),) = bench.later

    give_up()
    give_up()
    say(bench.connection, id=bench.channel.sent[0]["id"], result={})

    assert seconds == 5.0
    words = "it did not answer ping within 5 s"
    assert bench.told == [Lost(words, sign=Sign.BAD, timeout=Timeout.TOTAL)]
    assert bench.sent == ["ping", "notifications/cancelled"]


def test_one_that_was_answered_is_not_given_up() -> None:
    bench = Bench(LEGACY)
    say(bench.connection, id=bench.channel.sent[0]["id"], result={})

    bench.later[0][1]()

    assert len(bench.told) == 1
    assert bench.sent == ["ping"]


def test_a_connection_that_is_gone_is_told_at_once() -> None:
    bench = Bench(LEGACY, lost="exit code 1")

    (answer,) = bench.told
    assert isinstance(answer, Lost)
    assert answer.reason == "exit code 1"
    assert bench.later == []


def test_it_does_not_count_as_use() -> None:
    assert Bench(LEGACY).connection.own_requests == 1
