"""What servers report goes to the lists, the clients and the record."""

from pathlib import Path
from typing import Any, cast

import pytest

from anyport.gateway.cache import ListCache
from anyport.gateway.reports import KILLED, STDERR_EVENTS_PER_SECOND_MAX, Inside, Reports
from anyport.protocol.timeouts import Timeout
from anyport.wire.frame import Notification, Request
from tests.gateway.fakes import FakeServer


class Part:
    """Any part of a gateway: remembers what it was called with."""

    def __init__(self, story: list[tuple[object, ...]], name: str, agreed: set[object]) -> None:
        self._story = story
        self._name = name
        self._agreed = agreed

    def __getattr__(self, called: str) -> Any:
        if called == "tasks":
            return Part(self._story, "tasks", self._agreed)
        return lambda *words: self._call(f"{self._name}.{called}", *words)

    def _call(self, *words: object) -> bool:
        self._story.append(words)
        return words[0] in self._agreed


class FakeInside:
    """A gateway that remembers who was told what."""

    def __init__(self) -> None:
        self.story: list[tuple[object, ...]] = []
        self.profiles: dict[str, Any] = {}
        self.agreed: set[object] = set()
        """What is answered with yes."""
        for name in (
            "memory",
            "metrics",
            "relay",
            "feed",
            "desk",
            "interest",
            "questions",
            "asides",
        ):
            setattr(self, name, Part(self.story, name, self.agreed))

    def note(self, event: str, status: str = "success", /, **metadata: object) -> None:
        self.story.append((event, status, metadata))

    @property
    def told(self) -> list[object]:
        """Who was told, in order."""
        return [words[0] for words in self.story]


class Stage:
    def __init__(self, path: Path) -> None:
        self.inside = FakeInside()
        self.reports = Reports(cast(Inside, self.inside), ListCache(path))
        self.server = FakeServer("s")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


KEY: Any = None


def test_a_failure_is_noted_with_its_reason(stage: Stage) -> None:
    stage.reports.failed(stage.server, "exit code 1")

    (event,) = [words for words in stage.inside.story if words[0] == "gateway.backend_failed"]
    assert event[1] == "failure"
    assert cast(Any, event[2])["error_message"] == "exit code 1"
    assert stage.inside.told == [
        *("memory.littered", "metrics.restarted"),
        *("gateway.backend_failed", "desk.lists_settled"),
    ]


def test_what_has_ended_is_looked_for_in_memory(stage: Stage) -> None:
    ends = (stage.reports.stopped, stage.reports.rested, stage.reports.retired)
    for ended in ends:
        ended(stage.server)

    assert stage.inside.told.count("memory.littered") == len(ends)


def test_a_server_that_took_too_long_is_noted_as_that(stage: Stage) -> None:
    stage.server.late_reasons["no connection within 5 s"] = Timeout.CONNECT

    stage.reports.failed(stage.server, "no connection within 5 s")

    (event,) = [words for words in stage.inside.story if words[0] == "gateway.backend_failed"]
    assert event[1] == "timeout"
    metadata = cast(Any, event[2])
    assert (metadata["server"], metadata["timeout"]) == ("s", "connect")


@pytest.mark.parametrize("timeout", Timeout)
def test_what_took_too_long_is_counted_and_a_server_that_was_killed_is_noted(
    stage: Stage, timeout: Timeout
) -> None:
    stage.reports.timed_out("s", timeout)

    counted, *noted = stage.inside.story
    assert counted == ("metrics.timed_out", timeout)
    told = {"error_message": KILLED, "server": "s", "timeout": "kill"}
    killed = [("gateway.backend_stopped", "timeout", told)]
    assert noted == (killed if timeout is Timeout.KILL else [])


def test_what_a_server_says_in_a_call_is_recorded_with_the_call_and_nothing_else_is(
    stage: Stage,
) -> None:
    said = Notification("notifications/message", b"{}")
    stage.inside.agreed.add("feed.told")
    stage.reports.told(stage.server, KEY, stage.server.connection, said)
    stage.inside.agreed.clear()
    stage.reports.told(stage.server, KEY, stage.server.connection, said)
    assert stage.inside.told == ["feed.told", "feed.told", "asides.told"]


@pytest.mark.parametrize(
    ("method", "taker"),
    [
        ("notifications/cancelled", "questions.withdrawn"),
        ("notifications/tasks/status", "tasks.told"),
        ("notifications/resources/updated", "feed.told"),
    ],
)
def test_each_notification_goes_to_the_one_it_concerns(
    stage: Stage, method: str, taker: str
) -> None:
    stage.reports.told(stage.server, KEY, stage.server.connection, Notification(method, b"{}"))
    assert stage.inside.told == [taker, "asides.told"]


def test_what_a_server_asks_is_a_question(stage: Stage) -> None:
    stage.reports.asked(stage.server, KEY, stage.server.connection, Request(b"1", "ping", None))
    assert stage.inside.told == ["questions.asked"]


def test_noise_is_recorded(stage: Stage) -> None:
    stage.reports.garbled(stage.server, b"noise", "not JSON")
    assert stage.inside.story == [("asides.garbled", stage.server, b"noise", "not JSON")]


def test_a_talkative_server_does_not_fill_the_journal(stage: Stage) -> None:
    stage.reports.wrote(stage.server, [f"line {number}" for number in range(1000)])

    lines = [words for words in stage.inside.story if words[0] == "gateway.stderr"]
    assert len(lines) == STDERR_EVENTS_PER_SECOND_MAX
    assert cast(Any, lines[0][2])["line"] == "line 0"


def test_a_lost_connection_withdraws_what_was_asked_over_it(stage: Stage) -> None:
    stage.reports.lost(stage.server, stage.server.connection)
    assert stage.inside.told == ["questions.lost", "tasks.lost"]


def test_a_server_that_was_stopped_for_want_of_use_is_noted_with_the_time(stage: Stage) -> None:
    server = FakeServer("s", idle_seconds=30.0)

    stage.reports.rested(server)

    event = ("gateway.backend_idle", "success", {"server": "s", "seconds": 30.0})
    assert stage.inside.story[1:] == [event]


def test_a_server_that_is_left_alone_and_taken_back_is_noted(stage: Stage) -> None:
    stage.reports.ejected(stage.server, "5 calls in a row failed", 5, 27.12345)
    stage.reports.restored(stage.server, 30.5)

    assert stage.inside.story == [
        (
            "gateway.backend_ejected",
            "failure",
            {
                "error_message": "5 calls in a row failed",
                "server": "s",
                "failures": 5,
                "seconds": 27.123,
                "reason": "5 calls in a row failed",
            },
        ),
        ("gateway.backend_restored", "success", {"server": "s", "seconds": 30.5}),
    ]
