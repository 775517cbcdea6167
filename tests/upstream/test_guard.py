"""What a guard makes of its server's calls, and how it tries the server itself."""

from collections.abc import Callable
from typing import Any

import pytest

from anyport.protocol.errors import Situation
from anyport.protocol.revision import Revision
from anyport.upstream.breaker import FAILURES_MAX, OPEN_SECONDS, Breaker, Passed, Turned
from anyport.upstream.call import Lost
from anyport.upstream.connection import Connection
from anyport.upstream.guard import Found, Guard, Ward
from anyport.upstream.sign import Again, Postponed, Sign
from anyport.upstream.watch import Ticking
from anyport.wire.frame import Failure, Result
from tests.upstream.fakes import LEGACY, MODERN, connected, say

BAD = Lost("no answer", sign=Sign.BAD)
UNREACHED = Lost("refused", sign=Sign.UNREACHED, again=Again.ALWAYS)
GOOD = Result(b"1", b"{}")
PROBE_SECONDS = 7.0
SILENT = "it did not answer ping within 7 s"


class Post:
    """A guard before one server, with a clock that is wound by hand."""

    def __init__(self, revision: Revision = LEGACY, *, enabled: bool = True) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[[], None]]] = []
        self.told: list[Any] = []
        self.connection, self.channel, _ = connected(revision)
        self.down: str | None = None
        self.busy = False
        ward = Ward(
            connect=self._connect,
            renew=lambda words: self.told.append(("renew", words)),
            replace=self._replace,
            ejected=lambda words, failures, seconds: self.told.append(("ejected", seconds)),
            restored=lambda seconds: self.told.append(("restored", seconds)),
            probe_seconds=PROBE_SECONDS,
        )
        time = Ticking(later=self._later, clock=lambda: self.now, chance=lambda: 0.5)
        self.guard = Guard(Breaker(enabled=enabled), ward, time)

    def fail(self, times: int = FAILURES_MAX, how: Lost = BAD) -> None:
        for _ in range(times):
            self.guard.tell(how, self.now)

    def wait(self, seconds: float) -> None:
        """Let what is due by then happen, in its order."""
        until = self.now + seconds
        while ready := [entry for entry in self.due if entry[0] <= until]:
            soonest = min(ready, key=lambda entry: entry[0])
            self.due.remove(soonest)
            self.now = max(self.now, soonest[0])
            soonest[1]()
        self.now = until

    @property
    def asked(self) -> list[str]:
        """What the server was asked."""
        return [message["method"] for message in self.channel.sent]

    def answer(self, **outcome: Any) -> None:
        say(self.connection, id=self.channel.sent[-1]["id"], **outcome)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self.due.append((self.now + seconds, act))

    def _replace(self, connection: Connection, words: str) -> bool:
        assert connection is self.connection
        if not self.busy:
            self.told.append(("replace", words))
        return not self.busy

    def _connect(self, found: Found) -> None:
        found(self.connection if self.down is None else self.down)


def test_a_server_that_fails_five_times_in_a_row_is_ejected_and_that_is_told() -> None:
    post = Post()
    post.fail(FAILURES_MAX - 1)
    assert post.guard.enter() is Passed.FREE

    post.fail(1)

    entry = post.guard.enter()
    assert isinstance(entry, Turned)
    assert entry.situation is Situation.EJECTED
    assert post.told == [("ejected", OPEN_SECONDS)]
    assert post.guard.ejections == 1
    assert post.guard.reason == entry.reason


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        Failure(b"1", b'{"code":1,"message":"no"}'),
        Lost("HTTP 404", Situation.MISBEHAVED, Sign.GOOD),
    ],
)
def test_whatever_a_server_says_it_is_there(answer: Any) -> None:
    post = Post()
    post.fail(FAILURES_MAX - 1)

    post.guard.tell(answer, 0.0)

    assert post.guard.breaker.failures == 0


@pytest.mark.parametrize("answer", [Lost("busy", Situation.BUSY), Lost("it was stopped")])
def test_what_the_gateway_did_itself_says_nothing(answer: Lost) -> None:
    post = Post()
    post.fail(FAILURES_MAX - 1)

    post.fail(100, answer)

    assert post.guard.breaker.failures == FAILURES_MAX - 1


def test_an_answer_to_anybody_restores_it() -> None:
    post = Post()
    post.fail()
    post.now = 3.0

    post.guard.tell(GOOD, 0.0)

    assert post.told[1:] == [("restored", 3.0)]
    assert post.guard.enter() is Passed.FREE
    assert post.guard.reason is None


# Probes.


@pytest.mark.parametrize(
    ("revision", "method"),
    [(LEGACY, "ping"), (MODERN, "server/discover")],
    ids=["legacy", "modern"],
)
def test_a_server_is_tried_before_any_client_pays_for_it(revision: Revision, method: str) -> None:
    post = Post(revision)
    post.fail()

    post.wait(OPEN_SECONDS - 1)
    assert post.asked == []
    post.wait(1)

    assert post.asked == [method]
    assert isinstance(post.guard.enter(), Turned), "one at a time"
    post.answer(result={})
    assert post.told[1:] == [("restored", OPEN_SECONDS)]
    assert post.guard.enter() is Passed.FREE


def test_a_probe_may_be_refused_and_shows_all_the_same_that_somebody_is_there() -> None:
    post = Post()
    post.fail()
    post.wait(OPEN_SECONDS)

    post.answer(error={"code": -32601, "message": "Method not found"})

    assert post.guard.enter() is Passed.FREE


def test_a_probe_that_is_not_answered_in_the_time_of_a_call_ejects_for_longer() -> None:
    post = Post()
    post.fail()
    post.wait(OPEN_SECONDS + PROBE_SECONDS - 1)
    assert post.asked == ["ping"]

    post.wait(1)

    assert post.asked == ["ping", "notifications/cancelled"]
    assert post.told[1:] == [("ejected", 2 * OPEN_SECONDS)]
    entry = post.guard.enter()
    assert isinstance(entry, Turned)
    assert "last: it did not answer ping within 7 s" in entry.reason
    post.wait(2 * OPEN_SECONDS)
    assert post.asked[2:] == ["ping"]


def test_a_server_that_is_silent_at_two_probes_is_started_anew_and_that_restores_it() -> None:
    post = Post()
    post.fail()
    post.wait(OPEN_SECONDS + PROBE_SECONDS)
    assert ("replace", SILENT) not in post.told

    post.wait(2 * OPEN_SECONDS + PROBE_SECONDS)
    assert post.told[-1] == ("replace", SILENT)
    assert isinstance(post.guard.enter(), Turned), "it has to be there first"
    post.guard.greeted()

    assert post.told[-1][0] == "restored"
    assert post.guard.enter() is Passed.FREE
    post.fail(1)
    assert isinstance(post.guard.enter(), Turned), "one more failure is enough"


def test_a_silent_server_on_which_somebody_waits_is_left_to_finish_that() -> None:
    post = Post()
    post.busy = True
    post.fail()
    post.wait(OPEN_SECONDS + PROBE_SECONDS)
    post.wait(2 * OPEN_SECONDS + PROBE_SECONDS)
    assert [told[0] for told in post.told] == ["ejected"] * 3

    post.busy = False
    post.wait(3 * OPEN_SECONDS + PROBE_SECONDS)

    assert post.told[-1] == ("replace", SILENT)


def test_a_server_that_says_anything_between_two_silences_is_not_started_anew() -> None:
    post = Post()
    post.fail()
    post.wait(OPEN_SECONDS + PROBE_SECONDS)
    post.wait(2 * OPEN_SECONDS)
    post.answer(result={})
    post.fail(1)
    post.wait(2 * OPEN_SECONDS + PROBE_SECONDS)

    assert "replace" not in [told[0] for told in post.told]


def test_a_server_that_is_not_there_is_tried_when_it_has_been_started() -> None:
    post = Post()
    post.fail()
    post.down = "exit code 1"
    post.wait(OPEN_SECONDS)
    assert post.asked == []

    post.down = None
    post.guard.greeted()

    assert post.asked == ["ping"]


def test_who_answers_the_handshake_but_no_call_is_still_ejected() -> None:
    post = Post()
    post.fail()

    post.guard.greeted()

    assert isinstance(post.guard.enter(), Turned)


def test_a_connection_that_goes_while_it_is_tried_says_nothing() -> None:
    post = Post()
    post.fail()
    post.wait(OPEN_SECONDS)

    post.connection.settle(post.channel.calls[-1], Lost("it was stopped"))

    assert post.told == [("ejected", OPEN_SECONDS)]
    assert post.guard.enter() is Passed.PROBE, "the next call tries it"


def test_a_client_that_gives_up_its_probe_leaves_it_to_the_next() -> None:
    post = Post()
    post.fail()
    post.down = "it is starting"
    post.wait(OPEN_SECONDS)
    assert post.guard.enter() is Passed.PROBE
    assert isinstance(post.guard.enter(), Turned)

    post.guard.leave()

    assert post.guard.enter() is Passed.PROBE
    post.guard.tell(Lost("it was stopped"), post.now, probe=True)
    assert post.guard.enter() is Passed.PROBE
    post.guard.tell(BAD, post.now, probe=True)
    assert post.told[1:] == [("ejected", 2 * OPEN_SECONDS)]


# Servers that cannot be reached.


def test_one_that_cannot_be_reached_is_looked_at_until_that_is_certain_then_opened_anew() -> None:
    post = Post()
    post.guard.unreached("refused")
    assert post.guard.enter() is Passed.FREE, "one failed dial is one failed dial"

    for _ in range(FAILURES_MAX - 1):
        post.wait(1.0)
        post.guard.unreached("refused")
        post.connection.settle(post.channel.calls[-1], UNREACHED)

    assert post.asked == ["ping"] * (FAILURES_MAX - 1)
    assert post.told == [("ejected", OPEN_SECONDS), ("renew", "refused")]


def test_one_that_answers_such_a_look_is_not_suspected_any_more() -> None:
    post = Post()
    post.guard.unreached("refused")
    post.wait(1.0)

    post.answer(result={})

    assert post.guard.breaker.failures == 0
    post.wait(100.0)
    assert post.asked == ["ping"]


def test_a_handshake_is_enough_to_restore_it() -> None:
    post = Post()
    for _ in range(FAILURES_MAX):
        post.guard.unreached("refused")
    post.now = 2.0

    post.guard.greeted()

    assert post.told[-1] == ("restored", 2.0)
    assert post.guard.enter() is Passed.FREE


def test_a_call_that_did_not_reach_it_is_not_counted_twice() -> None:
    post = Post()

    post.fail(100, UNREACHED)

    assert post.guard.breaker.failures == 0, "whoever tried to connect has told so"


# A server that says when.


@pytest.mark.parametrize(
    "answer",
    [
        Postponed(b"1", b'{"code":1,"message":"later"}', 3.0),
        Lost("HTTP 429", Situation.BUSY, Sign.GOOD, retry_after=3.0),
    ],
)
def test_a_server_that_says_when_it_can_is_not_asked_before_and_not_ejected(answer: Any) -> None:
    post = Post()

    for _ in range(100):
        post.guard.tell(answer, 0.0)

    entry = post.guard.enter()
    assert isinstance(entry, Turned)
    assert (entry.situation, entry.seconds) == (Situation.BUSY, 3.0)
    post.wait(3.0)
    assert post.guard.enter() is Passed.FREE
    assert post.told == []


def test_a_breaker_that_is_switched_off_ejects_nobody() -> None:
    post = Post(enabled=False)

    post.fail(100)
    for _ in range(100):
        post.guard.unreached("refused")

    assert post.guard.enter() is Passed.FREE
    assert post.told == []
