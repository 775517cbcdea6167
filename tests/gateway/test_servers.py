"""The servers of a gateway: made with what is known of them, and let go when they have finished."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.gateway.calls.call import Call
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.gateway import Gateway
from anyport.gateway.servers import (
    KILLED_REASON,
    STDERR_EVENTS_PER_SECOND_MAX,
    ServerEvents,
    is_connection_in_use,
)
from anyport.protocol.errors import Timeout
from anyport.protocol.methods import OfferKind
from anyport.protocol.revisions import Era
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.list_cache import ListCache
from anyport.wire.jsonrpc import Notification, Request
from tests.gateway.fakes import Asked, FakeClock, FakeServer, FakeSession, caller, profile_of
from tests.gateway.test_gateway import config_of, echo, until
from tests.harness import read_events

DEADLINE_SECONDS = 60.0


def play(path: Path, scene: Any, *servers: Any) -> list[dict[str, Any]]:
    async def whole() -> None:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            Gateway(config_of(*servers), path, sole=False) as gateway,
        ):
            await scene(gateway)

    asyncio.run(whole())
    return read_events(path)


def test_a_server_that_was_made_knows_what_it_offered_last_time(tmp_path: Path) -> None:
    async def first(gateway: Gateway) -> None:
        gateway.servers["s"].open(SHARED)
        await until(lambda: gateway.servers["s"].lists_ready)

    async def second(gateway: Gateway) -> None:
        assert gateway.server_registry.make([echo()])["s"].listings

    play(tmp_path, first, echo())
    play(tmp_path, second, echo())


def test_a_server_that_nobody_waits_for_is_stopped_at_once(tmp_path: Path) -> None:
    async def scene(gateway: Gateway) -> None:
        server = gateway.servers["s"]
        server.open(SHARED)
        await until(lambda: server.lists_ready)
        mapping = gateway.servers

        gateway.server_registry.replace({})

        assert mapping == {} and mapping is gateway.server_registry.servers
        await until(lambda: not server.connections())

    events = play(tmp_path, scene, echo())
    assert "no longer in the configuration" in str(
        [e["metadata"] for e in events if e["event_type"] == "gateway.backend_stopped"]
    )


def test_the_duration_of_a_connection_to_a_server_is_counted_when_it_ends(tmp_path: Path) -> None:
    async def scene(gateway: Gateway) -> None:
        server = gateway.servers["s"]
        server.open(SHARED)
        await until(lambda: server.lists_ready)
        assert not gateway.metrics.connections

        await server.stop()

        [histogram] = gateway.metrics.connections.values()
        assert gateway.metrics.connections.keys() == {("s",)}
        assert sum(histogram[:-1]) == 1
        assert 0 < histogram[-1] < DEADLINE_SECONDS

    play(tmp_path, scene, echo())


def test_one_that_was_made_for_nothing_is_ended(tmp_path: Path) -> None:
    async def scene(gateway: Gateway) -> None:
        made = gateway.server_registry.make([echo("spare")])
        made["spare"].open(SHARED)
        await until(lambda: made["spare"].lists_ready)
        gateway.server_registry.discard(made.values())
        await until(lambda: not made["spare"].connections())

    play(tmp_path, scene)


def test_whoever_is_still_on_the_way_out_does_not_outlive_the_gateway(tmp_path: Path) -> None:
    kept: list[Any] = []

    async def scene(gateway: Gateway) -> None:
        server = gateway.servers["s"]
        server.open(SHARED)
        await until(lambda: server.lists_ready)
        [(_, line)] = server.connections()
        line.call("tools/call", b'{"name":"never","arguments":{}}', lambda _: None)
        kept.append(server)
        gateway.server_registry.replace({})

    play(tmp_path, scene, echo())
    assert kept[0].connections() == []


# What servers report goes to the lists, the clients and the record.


class Part:
    """Any part of a gateway: remembers what it was called with."""

    def __init__(self, story: list[tuple[object, ...]], name: str, agreed: set[object]) -> None:
        self._story = story
        self._name = name
        self._agreed = agreed

    def __getattr__(self, called: str) -> Any:
        if called in ("tasks", "transparent_subscriptions"):
            return Part(self._story, called, self._agreed)
        return lambda *words: self._call(f"{self._name}.{called}", *words)

    def _call(self, *words: object) -> bool:
        self._story.append(words)
        return words[0] in self._agreed


class FakeGateway:
    """A gateway that remembers who was told what."""

    def __init__(self) -> None:
        self.story: list[tuple[object, ...]] = []
        self.profiles: dict[str, Any] = {}
        self.clock = FakeClock()
        self.agreed: set[object] = set()
        """What is answered with yes."""
        for name in (
            "memory",
            "metrics",
            "relay",
            "notifications",
            "local_methods",
            "resource_subscriptions",
            "server_requests",
            "message_recorder",
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
        self.gateway = FakeGateway()
        self.events = ServerEvents(cast(Gateway, self.gateway), ListCache(path))
        self.server = FakeServer("s")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


KEY: Any = None


def test_a_failure_is_noted_with_its_reason(stage: Stage) -> None:
    stage.events.on_connection_failed(stage.server, "exit code 1")

    (event,) = [words for words in stage.gateway.story if words[0] == "gateway.backend_failed"]
    assert event[1] == "failure"
    assert cast(Any, event[2])["error_message"] == "exit code 1"
    assert stage.gateway.told == [
        *("memory.request_collection", "metrics.count_restart"),
        *("gateway.backend_failed", "local_methods.on_lists_settled"),
    ]


def test_what_has_ended_is_looked_for_in_memory(stage: Stage) -> None:
    stage.events.on_connection_closed(stage.server, "nobody needs it")
    stage.events.on_idle_stop(stage.server, 60.0)
    stage.events.on_retired(stage.server)

    assert stage.gateway.told.count("memory.request_collection") == 3


def test_a_server_that_took_too_long_is_noted_as_that(stage: Stage) -> None:
    stage.server.late_reasons["no connection within 5 s"] = Timeout.CONNECT

    stage.events.on_connection_failed(stage.server, "no connection within 5 s")

    (event,) = [words for words in stage.gateway.story if words[0] == "gateway.backend_failed"]
    assert event[1] == "timeout"
    metadata = cast(Any, event[2])
    assert (metadata["server"], metadata["timeout"]) == ("s", "connect")


@pytest.mark.parametrize("timeout", Timeout)
def test_what_took_too_long_is_counted_and_a_server_that_was_killed_is_noted(
    stage: Stage, timeout: Timeout
) -> None:
    stage.events.on_timeout(stage.server, timeout)

    counted, *noted = stage.gateway.story
    assert counted == ("metrics.count_timeout", timeout)
    told = {"error_message": KILLED_REASON, "server": "s", "timeout": "kill"}
    killed = [("gateway.backend_stopped", "timeout", told)]
    assert noted == (killed if timeout is Timeout.KILL else [])


def test_what_a_server_says_in_a_call_is_recorded_with_the_call_and_nothing_else_is(
    stage: Stage,
) -> None:
    said = Notification("notifications/message", b"{}")
    stage.gateway.agreed.add("notifications.on_server_notification")
    stage.events.on_notification(stage.server, KEY, stage.server.connection, said)
    stage.gateway.agreed.clear()
    stage.events.on_notification(stage.server, KEY, stage.server.connection, said)
    asked = "transparent_subscriptions.on_notification"
    assert stage.gateway.told == [
        asked,
        "notifications.on_server_notification",
        asked,
        "notifications.on_server_notification",
        "message_recorder.record_server_message",
    ]


@pytest.mark.parametrize(
    ("method", "taker"),
    [
        ("notifications/cancelled", "server_requests.on_cancelled"),
        ("notifications/tasks/status", "tasks.on_status"),
        ("notifications/resources/updated", "notifications.on_server_notification"),
    ],
)
def test_each_notification_goes_to_the_one_it_concerns(
    stage: Stage, method: str, taker: str
) -> None:
    stage.events.on_notification(
        stage.server, KEY, stage.server.connection, Notification(method, b"{}")
    )
    assert stage.gateway.told == [
        "transparent_subscriptions.on_notification",
        taker,
        "message_recorder.record_server_message",
    ]


@pytest.mark.parametrize("report", ["on_notification", "on_list_changed"])
def test_what_is_said_on_a_clients_own_subscription_goes_nowhere_else(
    stage: Stage, report: str
) -> None:
    stage.gateway.agreed.add("transparent_subscriptions.on_notification")
    said = Notification("notifications/tools/list_changed", b"{}")
    getattr(stage.events, report)(stage.server, KEY, stage.server.connection, said)
    assert stage.gateway.told == ["transparent_subscriptions.on_notification"]


def test_that_a_list_has_changed_is_told_to_whoever_heeds_it(stage: Stage) -> None:
    said = Notification("notifications/tools/list_changed", b"{}")
    stage.events.on_list_changed(stage.server, KEY, stage.server.connection, said)
    assert stage.gateway.told == [
        "transparent_subscriptions.on_notification",
        "notifications.on_list_changed",
    ]


@pytest.mark.parametrize("follows", [True, False])
def test_what_a_session_follows_is_told_over_the_connection_that_serves_it_now(
    stage: Stage, follows: bool
) -> None:
    session = FakeSession("one")
    if follows:
        session.subscriptions.add("x:1")
    notifications = SimpleNamespace(sessions={"one": session})
    setattr(stage.gateway, "notifications", notifications)  # noqa: B010 - its parts are attributes by name
    profile = profile_of(stage.server)
    stage.gateway.profiles["default"] = profile

    stage.events.on_session_moved(stage.server, "gone")
    stage.events.on_session_moved(stage.server, "one")
    assert stage.gateway.told == ["resource_subscriptions.sync"] * follows
    stage.server.offer_apart("two", OfferKind.TOOLS, "a")
    profile.refresh_variants()
    stage.events.on_session_moved(stage.server, "one")
    assert stage.gateway.told[-1] == "local_methods.refresh_variants", (
        "there it may be shown other lists"
    )


def test_lists_of_a_single_connection_are_shown_where_its_server_is(stage: Stage) -> None:
    other = FakeServer("other")
    stage.gateway.profiles.update(mine=profile_of(stage.server), theirs=profile_of(other))

    stage.events.on_connection_lists_read(stage.server, changed=False)
    assert stage.gateway.told == ["local_methods.on_lists_settled"]
    stage.events.on_connection_lists_read(stage.server, changed=True)

    varied = [
        words for words in stage.gateway.story if words[0] == "local_methods.refresh_variants"
    ]
    assert varied == [("local_methods.refresh_variants", stage.gateway.profiles["mine"])]
    assert stage.gateway.told[-1] == "local_methods.on_lists_settled"


def test_what_a_server_asks_is_a_question(stage: Stage) -> None:
    stage.events.on_request(stage.server, KEY, stage.server.connection, Request(b"1", "ping", None))
    assert stage.gateway.told == ["server_requests.on_request"]


def test_noise_is_recorded(stage: Stage) -> None:
    stage.events.on_noise(stage.server, b"noise", "not JSON")
    assert stage.gateway.story == [
        ("message_recorder.record_noise", stage.server, b"noise", "not JSON")
    ]


def test_a_talkative_server_does_not_fill_the_journal(stage: Stage) -> None:
    stage.events.on_stderr(stage.server, [f"line {number}" for number in range(1000)])

    lines = [words for words in stage.gateway.story if words[0] == "gateway.stderr"]
    assert len(lines) == STDERR_EVENTS_PER_SECOND_MAX
    assert cast(Any, lines[0][2])["line"] == "line 0"


def test_a_lost_connection_withdraws_what_was_asked_over_it(stage: Stage) -> None:
    stage.events.on_connection_lost(stage.server, stage.server.connection)
    assert stage.gateway.told == [
        "metrics.end_connection",
        "server_requests.on_connection_lost",
        "tasks.on_connection_lost",
    ]


def test_a_server_that_was_stopped_for_want_of_use_is_noted_with_the_time(stage: Stage) -> None:
    stage.events.on_idle_stop(stage.server, 30.0)

    event = ("gateway.backend_idle", "success", {"server": "s", "seconds": 30.0})
    assert stage.gateway.story == [("memory.request_collection",), event]


def test_a_server_that_is_left_alone_and_taken_back_is_noted(stage: Stage) -> None:
    stage.events.on_ejected(stage.server, "5 calls in a row failed", 5, 27.12345)
    stage.events.on_restored(stage.server, 30.5)

    assert stage.gateway.story == [
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


# What clients rely on, though nothing is being asked over a connection.


OWN = LeaseKey(owner="mine")


class Scene:
    """A server, and a gateway in which the test says who wants what."""

    def __init__(self) -> None:
        self.server = FakeServer("s")
        self.server.have(SHARED)
        self.server.have(OWN)
        self.calls = CallTable(FakeClock())
        self.handles: list[object] = []
        self.waiting: list[object] = []
        self.followed: dict[LeaseKey, frozenset[str]] = {}
        tasks, clock = SimpleNamespace(handles=self.handles), FakeClock()
        clock.seconds = 100.0
        self.relay = SimpleNamespace(calls=self.calls, tasks=tasks, clock=clock)
        self.server_requests = SimpleNamespace(has_open=lambda line: line in self.waiting)
        self.notifications = SimpleNamespace(
            subscribed_uris=lambda server, key: self.followed.get(key, frozenset())
        )

    def in_use(self, key: LeaseKey = SHARED, *, lost: bool = False) -> bool:
        line = None if lost else self.server.connection
        return is_connection_in_use(cast(Gateway, self), self.server, key, line)

    def call(self, asked: Asked, server: FakeServer | None = None) -> None:
        call = Call.__new__(Call)
        call.exchange, call.server = asked.exchange, server or self.server
        self.calls.open[asked.exchange] = call

    def task(self, era: Era, *, over: bool = False, expires: float = 200.0) -> None:
        handle = SimpleNamespace(
            server=self.server,
            era=era,
            task=SimpleNamespace(is_terminal=over),
            expires_at=expires,
            connection=self.server.connection,
            caller=caller(),
        )
        self.handles.append(handle)


def test_nobody_relies_on_a_connection_that_was_only_used() -> None:
    scene = Scene()

    assert not scene.in_use()
    assert not scene.in_use(lost=True)


def test_a_call_whose_client_is_being_asked_relies_on_its_own_connection() -> None:
    scene = Scene()
    scene.call(Asked(by=caller(FakeSession("mine"))))

    assert scene.in_use(OWN)
    assert scene.in_use(OWN, lost=True)
    assert not scene.in_use(SHARED)


def test_a_call_with_a_connection_to_itself_relies_on_that_one() -> None:
    scene = Scene()
    asked = Asked()
    asked.exchange.lease_owner = "call-1"
    scene.call(asked)

    assert scene.in_use(LeaseKey(owner="call-1"))
    assert not scene.in_use(SHARED)


def test_a_call_of_another_server_says_nothing_of_this_one() -> None:
    scene = Scene()
    scene.call(Asked(), FakeServer("another"))

    assert not scene.in_use()


def test_who_follows_a_resource_relies_on_the_connection_over_which_it_is_told() -> None:
    scene = Scene()
    scene.followed[OWN] = frozenset({"x:1"})

    assert scene.in_use(OWN)
    assert scene.in_use(OWN, lost=True)
    assert not scene.in_use(SHARED)


def test_a_server_that_waits_for_an_answer_is_not_alone() -> None:
    scene = Scene()
    scene.waiting.append(scene.server.connection)

    assert scene.in_use()
    assert not scene.in_use(lost=True)


@pytest.mark.parametrize(
    ("era", "key", "lost", "in_use"),
    [
        (Era.MODERN, SHARED, False, True),
        (Era.MODERN, SHARED, True, True),
        (Era.MODERN, OWN, False, False),
        (Era.LEGACY, OWN, False, True),
        (Era.LEGACY, OWN, True, False),
    ],
)
def test_a_task_relies_on_the_connection_over_which_it_is_known(
    era: Era, key: LeaseKey, lost: bool, in_use: bool
) -> None:
    scene = Scene()
    scene.task(era)

    assert scene.in_use(key, lost=lost) == in_use


def test_a_task_that_is_over_or_forgotten_needs_nobody() -> None:
    scene = Scene()
    scene.task(Era.MODERN, over=True)
    scene.task(Era.MODERN, expires=100.0)

    assert not scene.in_use()
