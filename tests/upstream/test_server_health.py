"""How a server's health follows from its calls, and how it is probed."""

from typing import Any, cast

import pytest

from anyport.config.model import ServerConfig
from anyport.protocol.errors import Situation
from anyport.protocol.revisions import Revision
from anyport.upstream.circuit_breaker import (
    FAILURES_MAX,
    OPEN_SECONDS,
    CallAdmitted,
    CallRejected,
    CircuitBreaker,
    ServerHealth,
)
from anyport.upstream.connection import Connection
from anyport.upstream.pending_call import CallOutcome, NoAnswer, Retryable, RetryAfterFailure
from anyport.upstream.server import Server
from anyport.upstream.supervisor import LeaseCallback, NotReady
from anyport.wire.jsonrpc import Failure, Result
from tests.upstream.fakes import LEGACY, MODERN, FakeClock, connected, say

BAD = NoAnswer("no answer", outcome=CallOutcome.BAD)
UNREACHED = NoAnswer("refused", outcome=CallOutcome.UNREACHABLE, retryable=Retryable.ALWAYS)
GOOD = Result(b"1", b"{}")
PROBE_SECONDS = 7.0
SILENT = "it did not answer ping within 7 s"


class Scene:
    """The health of one server, with a clock that is set by hand."""

    def __init__(self, revision: Revision = LEGACY, *, enabled: bool = True) -> None:
        self.clock = FakeClock(chance=0.5)
        self.reports: list[Any] = []
        self.connection, self.channel, _ = connected(revision)
        self.down: str | None = None
        self.busy = False
        self.config = ServerConfig(slug="s", name="s", timeout_seconds=PROBE_SECONDS)
        breaker = CircuitBreaker(enabled=enabled)
        self.health = ServerHealth(cast(Server, self), breaker, self.clock)

    def fail(self, times: int = FAILURES_MAX, how: NoAnswer = BAD) -> None:
        for _ in range(times):
            self.health.on_answer(how, self.clock.seconds)

    def wait(self, seconds: float) -> None:
        """Run the timers that are due within this time, in order."""
        clock = self.clock
        end = clock.seconds + seconds
        start, clock.timers = clock.timers, []
        due = [(clock.seconds + delay, act) for delay, act in start]
        while due and min(due, key=lambda timer: timer[0])[0] <= end:
            soonest = min(due, key=lambda timer: timer[0])
            due.remove(soonest)
            clock.seconds = max(clock.seconds, soonest[0])
            soonest[1]()
            started, clock.timers = clock.timers, []
            due += [(clock.seconds + delay, act) for delay, act in started]
        clock.seconds = end
        clock.timers = [(at - end, act) for at, act in due]

    @property
    def asked(self) -> list[str]:
        """What the server was asked."""
        return [message["method"] for message in self.channel.sent]

    def answer(self, **outcome: Any) -> None:
        say(self.connection, id=self.channel.sent[-1]["id"], **outcome)

    # As the server.

    def on_ejected(self, reason: str, failures: int, seconds: float) -> None:
        self.reports.append(("ejected", seconds))

    def on_restored(self, seconds: float) -> None:
        self.reports.append(("restored", seconds))

    def reconnect(self, reason: str) -> None:
        self.reports.append(("renew", reason))

    def replace_connection(self, connection: Connection, reason: str) -> bool:
        assert connection is self.connection
        if not self.busy:
            self.reports.append(("replace", reason))
        return not self.busy

    def lease_main(self, ready: LeaseCallback) -> None:
        ready(self.connection if self.down is None else NotReady(self.down))


def test_a_server_that_fails_five_times_in_a_row_is_ejected_and_that_is_told() -> None:
    scene = Scene()
    scene.fail(FAILURES_MAX - 1)
    assert scene.health.admit() is CallAdmitted.FREE

    scene.fail(1)

    entry = scene.health.admit()
    assert isinstance(entry, CallRejected)
    assert entry.situation is Situation.EJECTED
    assert scene.reports == [("ejected", OPEN_SECONDS)]
    assert scene.health.ejections == 1
    assert scene.health.reason == entry.reason


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        Failure(b"1", b'{"code":1,"message":"no"}'),
        NoAnswer("HTTP 404", Situation.MISBEHAVED, CallOutcome.GOOD),
    ],
)
def test_whatever_a_server_says_it_is_there(answer: Any) -> None:
    scene = Scene()
    scene.fail(FAILURES_MAX - 1)

    scene.health.on_answer(answer, 0.0)

    assert scene.health.breaker.failures == 0


@pytest.mark.parametrize("answer", [NoAnswer("busy", Situation.BUSY), NoAnswer("it was stopped")])
def test_what_the_gateway_did_itself_says_nothing(answer: NoAnswer) -> None:
    scene = Scene()
    scene.fail(FAILURES_MAX - 1)

    scene.fail(100, answer)

    assert scene.health.breaker.failures == FAILURES_MAX - 1


def test_an_answer_to_anybody_restores_it() -> None:
    scene = Scene()
    scene.fail()
    scene.clock.seconds = 3.0

    scene.health.on_answer(GOOD, 0.0)

    assert scene.reports[1:] == [("restored", 3.0)]
    assert scene.health.admit() is CallAdmitted.FREE
    assert scene.health.reason is None


# Probes.


@pytest.mark.parametrize(
    ("revision", "method"),
    [(LEGACY, "ping"), (MODERN, "server/discover")],
    ids=["legacy", "modern"],
)
def test_a_server_is_tried_before_any_client_pays_for_it(revision: Revision, method: str) -> None:
    scene = Scene(revision)
    scene.fail()

    scene.wait(OPEN_SECONDS - 1)
    assert scene.asked == []
    scene.wait(1)

    assert scene.asked == [method]
    assert isinstance(scene.health.admit(), CallRejected), "one at a time"
    scene.answer(result={})
    assert scene.reports[1:] == [("restored", OPEN_SECONDS)]
    assert scene.health.admit() is CallAdmitted.FREE


def test_a_probe_may_be_refused_and_shows_all_the_same_that_somebody_is_there() -> None:
    scene = Scene()
    scene.fail()
    scene.wait(OPEN_SECONDS)

    scene.answer(error={"code": -32601, "message": "Method not found"})

    assert scene.health.admit() is CallAdmitted.FREE


def test_a_probe_that_is_not_answered_in_the_time_of_a_call_ejects_for_longer() -> None:
    scene = Scene()
    scene.fail()
    scene.wait(OPEN_SECONDS + PROBE_SECONDS - 1)
    assert scene.asked == ["ping"]

    scene.wait(1)

    assert scene.asked == ["ping", "notifications/cancelled"]
    assert scene.reports[1:] == [("ejected", 2 * OPEN_SECONDS)]
    entry = scene.health.admit()
    assert isinstance(entry, CallRejected)
    assert "last: it did not answer ping within 7 s" in entry.reason
    scene.wait(2 * OPEN_SECONDS)
    assert scene.asked[2:] == ["ping"]


def test_a_server_that_is_silent_at_two_probes_is_started_anew_and_that_restores_it() -> None:
    scene = Scene()
    scene.fail()
    scene.wait(OPEN_SECONDS + PROBE_SECONDS)
    assert ("replace", SILENT) not in scene.reports

    scene.wait(2 * OPEN_SECONDS + PROBE_SECONDS)
    assert scene.reports[-1] == ("replace", SILENT)
    assert isinstance(scene.health.admit(), CallRejected), "it has to be there first"
    scene.health.on_handshake()

    assert scene.reports[-1][0] == "restored"
    assert scene.health.admit() is CallAdmitted.FREE
    scene.fail(1)
    assert isinstance(scene.health.admit(), CallRejected), "one more failure is enough"


def test_a_silent_server_on_which_somebody_waits_is_left_to_finish_that() -> None:
    scene = Scene()
    scene.busy = True
    scene.fail()
    scene.wait(OPEN_SECONDS + PROBE_SECONDS)
    scene.wait(2 * OPEN_SECONDS + PROBE_SECONDS)
    assert [told[0] for told in scene.reports] == ["ejected"] * 3

    scene.busy = False
    scene.wait(3 * OPEN_SECONDS + PROBE_SECONDS)

    assert scene.reports[-1] == ("replace", SILENT)


def test_a_server_that_says_anything_between_two_silences_is_not_started_anew() -> None:
    scene = Scene()
    scene.fail()
    scene.wait(OPEN_SECONDS + PROBE_SECONDS)
    scene.wait(2 * OPEN_SECONDS)
    scene.answer(result={})
    scene.fail(1)
    scene.wait(2 * OPEN_SECONDS + PROBE_SECONDS)

    assert "replace" not in [told[0] for told in scene.reports]


def test_a_server_that_is_not_there_is_tried_when_it_has_been_started() -> None:
    scene = Scene()
    scene.fail()
    scene.down = "exit code 1"
    scene.wait(OPEN_SECONDS)
    assert scene.asked == []

    scene.down = None
    scene.health.on_handshake()

    assert scene.asked == ["ping"]


def test_who_answers_the_handshake_but_no_call_is_still_ejected() -> None:
    scene = Scene()
    scene.fail()

    scene.health.on_handshake()

    assert isinstance(scene.health.admit(), CallRejected)


def test_a_connection_that_goes_while_it_is_tried_says_nothing() -> None:
    scene = Scene()
    scene.fail()
    scene.wait(OPEN_SECONDS)

    scene.connection.settle(scene.channel.calls[-1], NoAnswer("it was stopped"))

    assert scene.reports == [("ejected", OPEN_SECONDS)]
    assert scene.health.admit() is CallAdmitted.PROBE, "the next call tries it"


def test_a_client_that_gives_up_its_probe_leaves_it_to_the_next() -> None:
    scene = Scene()
    scene.fail()
    scene.down = "it is starting"
    scene.wait(OPEN_SECONDS)
    assert scene.health.admit() is CallAdmitted.PROBE
    assert isinstance(scene.health.admit(), CallRejected)

    scene.health.release_probe()

    assert scene.health.admit() is CallAdmitted.PROBE
    scene.health.on_answer(NoAnswer("it was stopped"), scene.clock.seconds, probe=True)
    assert scene.health.admit() is CallAdmitted.PROBE
    scene.health.on_answer(BAD, scene.clock.seconds, probe=True)
    assert scene.reports[1:] == [("ejected", 2 * OPEN_SECONDS)]


# Servers that cannot be reached.


def test_one_that_cannot_be_reached_is_looked_at_until_that_is_certain_then_opened_anew() -> None:
    scene = Scene()
    scene.health.on_unreachable("refused")
    assert scene.health.admit() is CallAdmitted.FREE, "one failed dial is one failed dial"

    for _ in range(FAILURES_MAX - 1):
        scene.wait(1.0)
        scene.health.on_unreachable("refused")
        scene.connection.settle(scene.channel.calls[-1], UNREACHED)

    assert scene.asked == ["ping"] * (FAILURES_MAX - 1)
    assert scene.reports == [("ejected", OPEN_SECONDS), ("renew", "refused")]


def test_one_that_answers_such_a_look_is_not_suspected_any_more() -> None:
    scene = Scene()
    scene.health.on_unreachable("refused")
    scene.wait(1.0)

    scene.answer(result={})

    assert scene.health.breaker.failures == 0
    scene.wait(100.0)
    assert scene.asked == ["ping"]


def test_a_handshake_is_enough_to_restore_it() -> None:
    scene = Scene()
    for _ in range(FAILURES_MAX):
        scene.health.on_unreachable("refused")
    scene.clock.seconds = 2.0

    scene.health.on_handshake()

    assert scene.reports[-1] == ("restored", 2.0)
    assert scene.health.admit() is CallAdmitted.FREE


def test_a_call_that_did_not_reach_it_is_not_counted_twice() -> None:
    scene = Scene()

    scene.fail(100, UNREACHED)

    assert scene.health.breaker.failures == 0, "whoever tried to connect has told so"


# A server that says when.


@pytest.mark.parametrize(
    "answer",
    [
        RetryAfterFailure(b"1", b'{"code":1,"message":"later"}', 3.0),
        NoAnswer("HTTP 429", Situation.BUSY, CallOutcome.GOOD, retry_after=3.0),
    ],
)
def test_a_server_that_says_when_it_can_is_not_asked_before_and_not_ejected(answer: Any) -> None:
    scene = Scene()

    for _ in range(100):
        scene.health.on_answer(answer, 0.0)

    entry = scene.health.admit()
    assert isinstance(entry, CallRejected)
    assert (entry.situation, entry.seconds) == (Situation.BUSY, 3.0)
    scene.wait(3.0)
    assert scene.health.admit() is CallAdmitted.FREE
    assert scene.reports == []


def test_a_breaker_that_is_switched_off_ejects_nobody() -> None:
    scene = Scene(enabled=False)

    scene.fail(100)
    for _ in range(100):
        scene.health.on_unreachable("refused")

    assert scene.health.admit() is CallAdmitted.FREE
    assert scene.reports == []
