"""The stream that belongs to no call: kept open, asked for again, and not where there is none."""

from collections.abc import Callable, Coroutine
from math import inf
from typing import Any, cast

import pytest

from anyport.upstream.backoff import DELAY_SECONDS_MAX, HEALTHY_SECONDS
from anyport.upstream.http.channel import ENDLESS_FACTOR
from anyport.upstream.http.connection import HttpFailure, HttpFailureKind
from anyport.upstream.http.streamable import SessionChannel, SessionStream
from anyport.wire.jsonrpc import Result
from tests.upstream.fakes import LEGACY, FakeClock, RecordingOwner, connected, run, until
from tests.upstream.http.fake_client import STREAM, FakeClient, head
from tests.upstream.web import Heard, Legacy, Reply, Scene, Web, call

CUT = HttpFailure(HttpFailureKind.CUT_OFF, "it closed the connection")
BYTES_MAX = 1000
CHANGED = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'


class Session:
    """What a standing stream needs of its session, and everything it asked."""

    def __init__(self) -> None:
        self.owner = RecordingOwner()
        self.connection, _, _ = connected(LEGACY, self.owner)
        self.fake = FakeClient(BYTES_MAX)
        self.client = self.fake.client
        self.bytes_max = BYTES_MAX
        self.clock = FakeClock()
        self.times_forgotten = 0
        self.troubles: list[HttpFailure] = []
        self.stream = SessionStream(cast(SessionChannel, self), self.clock)
        self.stream.open()

    def stream_head(self, last_id: str) -> bytes:
        return f"GET {last_id or '-'}".encode()

    def renew_session(self) -> None:
        self.times_forgotten += 1

    def report_unreachable(self, trouble: HttpFailure) -> None:
        self.troubles.append(trouble)

    def hear(self, *portions: bytes) -> None:
        self.stream.on_stream(STREAM)
        for portion in portions:
            list(self.stream.on_stream_data(portion))

    def wait(self) -> float:
        """Let the time of the next attempt come; how long that was."""
        ((seconds, act),) = self.clock.timers
        self.clock.timers.clear()
        self.clock.seconds += seconds
        act()
        return seconds

    @property
    def asked(self) -> list[str]:
        return [asked.target for asked in self.fake.asked]


# One that lasts.


def test_a_renewed_session_has_one_stream_whatever_was_planned_for_the_old_one() -> None:
    at = Session()
    at.hear(b"id: 7\ndata:\n\n")
    at.stream.on_stream_closed(None)

    at.stream.reopen()

    assert at.clock.timers == []
    assert at.asked == ["-", "-"]


def test_a_server_is_heard_from_when_the_stream_is_there_until_it_ends() -> None:
    at = Session()
    at.clock.seconds = 7.0
    assert at.stream.open_since == inf

    at.hear(b"id: 7\ndata:\n\n")
    assert at.stream.open_since == 7.0
    at.stream.on_stream_closed(None)
    assert at.stream.open_since == inf, "what it says meanwhile is said to nobody"
    at.wait()
    at.clock.seconds = 9.0
    at.hear(CHANGED)

    assert at.stream.open_since == 9.0


def test_what_the_server_says_on_it_is_heard_and_belongs_to_no_call() -> None:
    at = Session()

    at.hear(CHANGED[:10], CHANGED[10:], b": still here\n\n")

    assert [told.method for told in at.owner.notifications] == ["notifications/tools/list_changed"]
    assert at.asked == ["-"]


@pytest.mark.parametrize("trouble", [None, CUT])
def test_one_that_ends_is_asked_for_again_from_where_it_broke_off(
    trouble: HttpFailure | None,
) -> None:
    at = Session()
    at.hear(b"id: 7\n" + CHANGED, b"id: 8\ndata:\n\n", b"id: 9\nda")

    at.stream.on_stream_closed(trouble)
    at.wait()
    assert at.asked == ["-", "8"]

    at.hear(CHANGED)
    at.stream.on_stream_closed(trouble)
    at.wait()

    assert at.asked == ["-", "8", "8"], "an event without a number does not change the place"
    assert len(at.owner.notifications) == 2


def test_one_that_does_not_last_is_asked_for_later_and_later_until_one_does() -> None:
    at = Session()
    waits = []
    for _ in range(7):
        at.hear()
        at.stream.on_stream_closed(None)
        waits.append(at.wait())

    assert waits == [0.0, 1.0, 3.0, 9.0, 27.0, DELAY_SECONDS_MAX, DELAY_SECONDS_MAX]

    at.hear()
    at.clock.seconds += HEALTHY_SECONDS
    at.stream.on_stream_closed(None)
    assert at.wait() == 0.0


@pytest.mark.parametrize(
    ("retry", "seconds"), [("2500", 2.5), ("0", 0.0), ("999999999", DELAY_SECONDS_MAX)]
)
def test_a_server_may_say_how_long_to_wait_within_reason(retry: str, seconds: float) -> None:
    at = Session()

    at.hear(f"retry: {retry}\n\n".encode())
    at.stream.on_stream_closed(None)

    assert at.wait() == seconds


def test_an_event_that_never_ends_costs_the_stream() -> None:
    at = Session()

    at.hear(b"id: 7\n" + CHANGED, b"data: " + b"x" * ENDLESS_FACTOR * BYTES_MAX)

    assert at.fake.last.cancelled
    at.wait()
    assert at.asked == ["-", "-"], "what stood before such an event is not asked for again"


# One that does not come.


@pytest.mark.parametrize("status", [400, 401, 404, 405, 406])
def test_a_server_that_has_none_is_not_asked_again(status: int) -> None:
    at = Session()

    at.stream.on_response(head(status), b"")

    assert at.clock.timers == []
    assert at.times_forgotten == 0


def test_that_there_is_none_is_known_once_the_server_has_said_so_in_this_session() -> None:
    at = Session()
    assert not at.stream.absent, "it is only opening"

    at.stream.on_response(head(405), b"")
    assert at.stream.absent

    at.stream.reopen()
    assert not at.stream.absent


@pytest.mark.parametrize("status", [405, 409, 503])
def test_one_that_is_being_opened_again_is_not_absent(status: int) -> None:
    at = Session()
    at.hear()
    at.stream.on_stream_closed(CUT)
    assert not at.stream.absent
    at.wait()

    at.stream.on_response(head(status), b"")

    assert not at.stream.absent


@pytest.mark.parametrize("status", [500, 502, 503])
def test_an_outage_is_no_refusal(status: int) -> None:
    at = Session()
    waits = []
    for _ in range(4):
        at.stream.on_response(head(status), b"")
        waits.append(at.wait())

    assert waits == [1.0, 1.0, 3.0, 9.0]
    assert at.asked == ["-"] * 5


def test_a_server_that_cannot_be_reached_is_noticed_and_asked_again() -> None:
    at = Session()
    unreached = HttpFailure(HttpFailureKind.CONNECT, "no connection", sent=False)

    at.stream.on_failure(unreached)

    assert at.troubles == [unreached]
    at.wait()
    assert at.asked == ["-", "-"]


def test_where_there_was_one_not_found_means_the_session() -> None:
    at = Session()
    at.hear()
    at.stream.on_stream_closed(None)
    at.wait()

    at.stream.on_response(head(404), b"")

    assert at.times_forgotten == 1
    assert at.clock.timers == []


@pytest.mark.parametrize("status", [400, 401, 403, 409])
def test_where_there_was_one_a_refusal_is_not_the_last_word(status: int) -> None:
    at = Session()
    at.hear()
    at.stream.on_stream_closed(None)
    waits = [at.wait()]

    for _ in range(3):
        at.stream.on_response(head(status), b"")
        waits.append(at.wait())

    assert waits == [0.0, 1.0, 3.0, 9.0]
    assert at.asked == ["-"] * 5


@pytest.mark.parametrize(("said", "times"), [(CHANGED, 1), (b"id: 7\n" + CHANGED, 0)])
def test_what_nobody_numbered_may_have_been_missed(said: bytes, times: int) -> None:
    at = Session()
    at.hear(said)
    assert len(at.owner.gaps) == 0

    at.stream.on_stream_closed(CUT)
    at.wait()
    at.hear()
    assert len(at.owner.gaps) == times

    at.stream.reopen()
    at.hear()
    assert len(at.owner.gaps) == times, "a new session is looked at anew anyway"


# The end.


def test_in_a_new_session_it_begins_anew() -> None:
    at = Session()
    at.hear(b"id: 7\n" + CHANGED)
    old = at.fake.last

    at.stream.reopen()

    assert old.cancelled
    assert at.asked == ["-", "-"]


def test_nobody_listens_after_the_end() -> None:
    at = Session()
    at.hear()

    at.stream.close()

    assert at.fake.last.cancelled
    at.stream.on_stream_closed(CUT)
    at.stream.open()
    assert at.clock.timers == []
    assert len(at.asked) == 1


def test_a_connection_that_is_over_wants_no_stream() -> None:
    at = Session()
    at.hear()
    at.stream.on_stream_closed(None)

    at.connection.draining_reason = "it is down"
    at.wait()
    at.stream.on_stream_closed(None)

    assert len(at.asked) == 1
    assert at.clock.timers == []


# In a session.


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyport.upstream.backoff.FIRST_SECONDS", 0.001)


def play(site: Legacy, scene: Callable[[Web, Scene], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with Web(site) as web, Scene(web.url) as at:
            await at.connected()
            await scene(web, at)

    run(whole)


def answer(heard: Heard, reply: Reply) -> None:
    reply.json({"id": heard.id, "result": {}})


def standing(heard: Heard, reply: Reply) -> None:
    """A stream on which nothing happens yet."""
    reply.stream()


@pytest.mark.usefixtures("quick")
def test_what_belongs_to_no_call_comes_on_a_stream_of_its_own_and_is_answered() -> None:
    site = Legacy(answer, stands=standing)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        await until(lambda: bool(web.gets()))
        stream = web.replies[web.heard.index(web.gets()[0])]
        stream.event({"method": "notifications/tools/list_changed"}, id="1")
        stream.event({"id": 7, "method": "roots/list"}, id="2")
        await until(lambda: bool(at.owner.requests))
        assert [told.method for told in at.owner.notifications] == [
            "notifications/tools/list_changed"
        ]

        connection.answer(at.owner.requests[0].id, Result(b"7", b'{"roots":[]}'))
        await until(lambda: web.heard[-1].verb == "POST" and "result" in web.heard[-1].message)
        assert web.heard[-1].message == {"jsonrpc": "2.0", "id": 7, "result": {"roots": []}}
        assert web.heard[-1].fields["mcp-session-id"] == "session-1"

        stream.cut()
        await until(lambda: len(web.gets()) == 2)
        assert web.gets()[1].fields["last-event-id"] == "2"

    play(site, scene)


def test_a_server_without_such_a_stream_is_not_asked_again() -> None:
    site = Legacy(answer)

    async def scene(web: Web, at: Scene) -> None:
        for _ in range(5):
            await call(await at.connected())
        assert len(web.gets()) == 1

    play(site, scene)


@pytest.mark.usefixtures("quick")
def test_a_stream_that_finds_the_session_dead_has_it_opened_again() -> None:
    site = Legacy(answer, stands=standing)

    async def scene(web: Web, at: Scene) -> None:
        await until(lambda: bool(web.gets()))
        site.dead.add("session-1")
        web.replies[web.heard.index(web.gets()[0])].end()

        await until(lambda: len(at.owner.ready) == 2)
        await until(lambda: len(web.gets()) == 3)

        assert web.gets()[-1].fields["mcp-session-id"] == "session-2"
        assert "last-event-id" not in web.gets()[-1].fields

    play(site, scene)


@pytest.mark.usefixtures("quick")
def test_a_stream_that_was_refused_for_a_while_is_opened_again_and_that_is_told() -> None:
    replies = iter([200, 409, 409, 200])

    def stands(heard: Heard, reply: Reply) -> None:
        status = next(replies)
        if status == 200:
            reply.stream()
        else:
            reply.whole(status)

    async def scene(web: Web, at: Scene) -> None:
        connection = await at.connected()
        await until(lambda: bool(web.gets()))
        web.replies[web.heard.index(web.gets()[0])].end()
        await until(lambda: bool(at.owner.gaps))

        assert at.owner.gaps == [connection]
        assert len(web.gets()) == 4

    play(Legacy(answer, stands=stands), scene)
