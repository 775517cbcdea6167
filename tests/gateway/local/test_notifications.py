"""What servers say on their own, and who gets to hear it."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anyport.gateway.calls.call import Call
from anyport.gateway.calls.call_table import CallTable, uses_connection
from anyport.gateway.elicitation.parked_calls import Parking
from anyport.gateway.local.notifications import (
    EARLY_NOTIFICATIONS_MAX,
    ELICITATIONS_AWAITED_MAX,
    ListenStream,
    Notifications,
    SoleClient,
    pop_waiting_sessions,
    remember_elicitation,
)
from anyport.protocol.exchange import Exchange, Log, ServerNotification
from anyport.protocol.methods import OfferKind
from anyport.protocol.principal import LOCAL, Principal
from anyport.upstream.lease_key import SHARED, LeaseKey
from anyport.upstream.pending_call import PendingCall
from anyport.upstream.server import Server
from anyport.wire.jsonrpc import Notification
from tests.gateway.fakes import MODERN, Asked, FakeServer, FakeSession, caller, declared, profile_of


class Scene:
    """Two sessions and a listener on one server."""

    def __init__(self, **config: Any) -> None:
        self.server = FakeServer("s")
        self.server.offer(OfferKind.RESOURCES, "x:1", "x:2")
        self.profile = profile_of(self.server, **config)
        self.open: list[Exchange] = []
        self.looks = 0
        """How often the open calls were looked through."""
        self.parked: Call | None = None
        calls = SimpleNamespace(
            exchanges_at=self.working_on,
            exchanges_over=self.working_over,
            find_parked_by_owner=lambda owner: self.parked,
        )
        self.notifications = Notifications({"default": self.profile}, cast(CallTable, calls))
        self.one, self.two = FakeSession("one"), FakeSession("two")
        self.notifications.on_session_opened(self.one)
        self.notifications.on_session_opened(self.two)

    def working_on(self, _: Server, of: PendingCall | None = None) -> list[Exchange]:
        return self.open if of is None else [self.open[of.number]]

    def working_over(self, server: Server, key: LeaseKey) -> list[Exchange]:
        self.looks += 1
        return [e for e in self.working_on(server) if uses_connection(server, key, e)]

    def listen(self, *flags: str, uris: frozenset[str] = frozenset()) -> Asked:
        asked = Asked("subscriptions/listen", by=caller(revision=MODERN))
        listening = ListenStream(asked.exchange, frozenset(flags), uris)
        self.notifications.streams[asked.exchange] = listening
        listening.acknowledge(b"{}")
        asked.told.clear()
        return asked

    def say(
        self, method: str, key: LeaseKey = SHARED, of: PendingCall | None = None, **params: Any
    ) -> bool:
        raw = json.dumps(params).encode() if params else None
        return self.notifications.on_server_notification(
            self.server, key, Notification(method, raw), of
        )


def notices(asked: Asked) -> list[str]:
    return [
        happening.method for happening in asked.told if isinstance(happening, ServerNotification)
    ]


def test_only_who_has_seen_a_list_is_told_that_it_changed() -> None:
    scene = Scene()
    scene.notifications.mark_shown(scene.one, OfferKind.TOOLS)
    scene.notifications.mark_shown(scene.two, OfferKind.PROMPTS)
    scene.notifications.mark_shown(None, OfferKind.TOOLS)
    listener, deaf = scene.listen("toolsListChanged"), scene.listen("promptsListChanged")

    scene.notifications.notify_lists_changed(scene.profile, frozenset({OfferKind.TOOLS}))

    assert scene.one.notified == [("notifications/tools/list_changed", None)]
    assert scene.two.notified == []
    assert notices(listener) == ["notifications/tools/list_changed"]
    assert notices(deaf) == []


COMPLETE = "notifications/elicitation/complete"


def test_the_end_of_an_elicitation_is_told_to_whom_it_was_put_over_a_shared_connection() -> None:
    scene = Scene()
    remember_elicitation(scene.one, "s", b'{"elicitationId":"a"}')
    remember_elicitation(scene.two, "s", b'{"elicitationId":"b"}')
    remember_elicitation(scene.two, "other", b'{"elicitationId":"a"}')
    remember_elicitation(scene.two, "s", b"{}")
    scene.say(COMPLETE, elicitationId="a")
    scene.say(COMPLETE, elicitationId="a")  # It is over only once.
    scene.say(COMPLETE, elicitationId=5)
    scene.say(COMPLETE)
    assert scene.one.notified == [(COMPLETE, {"elicitationId": "a"})]
    assert scene.two.notified == []


def test_over_a_connection_of_its_own_a_session_is_told_as_ever() -> None:
    scene = Scene()
    scene.say(COMPLETE, LeaseKey(owner="two"), elicitationId="never seen")
    assert scene.two.notified == [(COMPLETE, {"elicitationId": "never seen"})]
    assert scene.one.notified == []


def test_ends_that_are_never_told_are_forgotten() -> None:
    session = FakeSession()
    for number in range(ELICITATIONS_AWAITED_MAX + 1):
        remember_elicitation(session, "s", b'{"elicitationId":"%d"}' % number)
    assert len(session.elicitations) == ELICITATIONS_AWAITED_MAX
    assert pop_waiting_sessions([session], "s", b'{"elicitationId":"0"}') == []
    assert pop_waiting_sessions([session], "s", b'{"elicitationId":"1"}') == [session]


def test_resources_and_templates_that_change_together_are_one_message() -> None:
    scene = Scene()
    scene.notifications.mark_shown(scene.one, OfferKind.TEMPLATES)

    scene.notifications.notify_lists_changed(
        scene.profile, frozenset({OfferKind.RESOURCES, OfferKind.TEMPLATES})
    )

    assert scene.one.notified == [("notifications/resources/list_changed", None)]


def test_a_session_that_has_gone_is_told_nothing() -> None:
    scene = Scene()
    scene.notifications.mark_shown(scene.one, OfferKind.TOOLS)
    scene.notifications.on_session_closed(scene.one)
    scene.notifications.mark_shown(scene.one, OfferKind.TOOLS)

    scene.notifications.notify_lists_changed(scene.profile, frozenset({OfferKind.TOOLS}))

    assert scene.one.notified == []


def test_a_listener_whose_stream_has_ended_is_told_nothing() -> None:
    scene = Scene()
    listener = scene.listen("toolsListChanged")
    listener.exchange.cancel()

    scene.notifications.notify_lists_changed(scene.profile, frozenset({OfferKind.TOOLS}))

    assert notices(listener) == []


def test_an_update_goes_to_those_who_follow_the_resource_or_a_whole_it_is_part_of() -> None:
    scene = Scene()
    scene.one.subscriptions.add("x:1")
    scene.two.subscriptions.add("x:2")
    listener = scene.listen(uris=frozenset({"x:1"}))

    scene.say("notifications/resources/updated", uri="x:1/part")
    scene.say("notifications/resources/updated", uri="x:10")
    scene.say("notifications/resources/updated", other=1)

    assert scene.one.notified == [("notifications/resources/updated", {"uri": "x:1/part"})]
    assert scene.two.notified == []
    assert notices(listener) == ["notifications/resources/updated"]


def test_the_resources_that_someone_follows_are_known_by_their_native_names() -> None:
    scene = Scene()
    scene.one.subscriptions.add("x:1")
    scene.listen(uris=frozenset({"x:2"}))

    assert scene.notifications.subscribed_uris(scene.server, SHARED) == {"x:1", "x:2"}
    assert scene.notifications.subscribed_uris(FakeServer("other"), SHARED) == frozenset()


def test_a_session_with_a_connection_of_its_own_hears_of_resources_over_that_one_alone() -> None:
    scene = Scene()
    scene.one.subscriptions.add("x:1")
    scene.two.subscriptions.add("x:1")
    own = LeaseKey(owner="one", interactive=True)
    scene.server.have(own)

    assert scene.notifications.subscribed_uris(scene.server, own) == {"x:1"}
    scene.say("notifications/resources/updated", uri="x:1")
    assert (len(scene.one.notified), len(scene.two.notified)) == (0, 1)
    scene.say("notifications/resources/updated", own, uri="x:1")
    assert (len(scene.one.notified), len(scene.two.notified)) == (1, 1)


@pytest.mark.parametrize(
    ("wanted", "level", "heard"),
    [
        (None, "debug", True),
        ("warning", "error", True),
        ("warning", "warning", True),
        ("warning", "info", False),
        ("warning", "no such level", True),
    ],
)
def test_a_log_reaches_a_session_at_the_level_it_wants(
    wanted: str | None, level: str, heard: bool
) -> None:
    scene = Scene()
    scene.one.log_level = wanted

    scene.say("notifications/message", LeaseKey(owner="one"), level=level, data="x")

    assert bool(scene.one.notified) is heard
    assert scene.two.notified == []


def test_a_log_names_its_server_and_over_a_shared_connection_reaches_everyone() -> None:
    scene = Scene()
    scene.say("notifications/message", level="info", logger="db", data="x")
    scene.say("notifications/message", level="info", data="x")

    for session in (scene.one, scene.two):
        assert [params["logger"] for _, params in session.notified] == ["s/db", "s"]


def test_the_open_calls_are_looked_through_once_for_a_log_however_many_sessions_there_are() -> None:
    scene = Scene()
    for number in range(20):
        scene.notifications.on_session_opened(FakeSession(f"session {number}"))

    scene.say("notifications/message", level="info", data=1)

    assert scene.looks == 1


def test_a_log_that_may_be_about_somebody_elses_call_reaches_nobody() -> None:
    scene = Scene()
    scene.two.principal = Principal("token", "another")
    scene.say("notifications/message", level="info", data="x")
    assert scene.one.notified == scene.two.notified == []

    scene.notifications.on_session_closed(scene.two)
    scene.say("notifications/message", level="info", data="x")
    assert len(scene.one.notified) == 1

    stranger = Asked(
        "tools/call", by=replace(caller(revision=MODERN), principal=Principal("t", "u"))
    )
    scene.open.append(stranger.exchange)
    scene.say("notifications/message", level="info", data="x")
    assert len(scene.one.notified) == 1


@pytest.mark.parametrize(
    ("key", "calls", "along"),
    [(LeaseKey(owner="one"), 1, True), (LeaseKey(owner="one"), 2, False), (SHARED, 1, False)],
)
def test_a_log_goes_along_with_the_one_call_that_it_can_belong_to(
    key: LeaseKey, calls: int, along: bool
) -> None:
    scene = Scene()
    asked = [Asked("tools/call", by=caller(scene.one)) for _ in range(calls)]
    others = Asked("tools/call", by=caller(scene.two))
    scene.open = [call.exchange for call in (*asked, others)]

    belongs = scene.say("notifications/message", key, level="info", data="hello")

    assert belongs is along
    assert [isinstance(told, Log) for told in asked[0].told] == [True] * along
    assert [method for method, _ in scene.one.notified] == ["notifications/message"] * (not along)
    assert others.told == []


def test_a_transparent_profile_passes_a_log_untouched() -> None:
    scene = Scene(prefix="never")
    scene.say("notifications/message", level="info", data="x")

    assert scene.one.notified == [("notifications/message", {"level": "info", "data": "x"})]


@pytest.mark.parametrize(
    ("calls", "level", "heard"), [(1, "info", 1), (2, "info", 0), (1, None, 0)]
)
def test_a_modern_client_gets_a_log_with_the_one_request_that_asked_for_it(
    calls: int, level: str | None, heard: int
) -> None:
    scene = Scene()
    asked = [Asked(by=caller(revision=MODERN)) for _ in range(calls)]
    for call in asked:
        object.__setattr__(call.exchange.caller, "log_level", level)
        scene.open.append(call.exchange)

    scene.say("notifications/message", level="error", data="x")

    logs = [happening for call in asked for happening in call.told if isinstance(happening, Log)]
    assert len(logs) == heard


def test_a_log_that_comes_with_a_call_is_that_ones_alone() -> None:
    scene = Scene()
    session = FakeSession("three")
    asked = [
        Asked(by=replace(caller(None, MODERN), log_level="info")),
        Asked(by=caller(None, MODERN)),
        Asked(by=caller(session)),
    ]
    scene.open += [each.exchange for each in asked]

    for number in range(len(asked)):
        call = PendingCall("tools/call", lambda _: None, number=number)
        scene.say("notifications/message", of=call, level="info", data=f"of {number}")

    logs = [[h.params for h in each.told if isinstance(h, Log)] for each in asked]
    assert [len(told) for told in logs] == [1, 0, 1]
    assert b"of 0" in logs[0][0]
    assert b"of 2" in logs[2][0]
    assert scene.one.notified == scene.two.notified == session.notified == []


def test_a_log_on_a_connection_of_one_call_is_for_nobody_else() -> None:
    scene = Scene()
    mine, theirs = Asked(by=caller(revision=MODERN)), Asked(by=caller(revision=MODERN))
    mine.exchange.lease_owner = "call-1"
    for call in (mine, theirs):
        object.__setattr__(call.exchange.caller, "log_level", "info")
    scene.open.append(theirs.exchange)

    # Its own call is parked: nobody is there to hear it.
    scene.say("notifications/message", LeaseKey(owner="call-1"), level="error", data="x")
    assert theirs.told == []
    scene.open.append(mine.exchange)
    scene.say("notifications/message", LeaseKey(owner="call-1"), level="error", data="x")
    scene.say("notifications/message", level="error", data="y")

    assert [type(happening) for happening in mine.told] == [Log]
    assert [type(happening) for happening in theirs.told] == [Log]


@pytest.mark.parametrize(("wanted", "kept"), [("info", 1), ("critical", 0), (None, 0)])
def test_a_log_for_a_call_whose_client_fetches_an_answer_is_kept(
    wanted: str | None, kept: int
) -> None:
    scene = Scene()
    away = Asked(by=replace(caller(None, MODERN), log_level=wanted))
    parking = Parking(away.exchange)
    scene.parked = cast(Call, SimpleNamespace(exchange=away.exchange, parking=parking))

    own = LeaseKey(owner="call-1")
    assert scene.say("notifications/message", own, level="error", data="x") is bool(kept)

    assert away.told == []
    assert len(parking.logs) == kept


def test_who_listens_hears_of_resources_over_the_connection_of_their_own_calls() -> None:
    scene = Scene()
    scene.server.offer(OfferKind.RESOURCES, "x:1")
    scene.profile.refresh()
    own_key = LeaseKey(owner="call-1", interactive=True, principal=LOCAL)
    unknown_key = LeaseKey(owner="call-2", interactive=True, principal=Principal("token", "eve"))
    asked = Asked("subscriptions/listen", by=caller(revision=MODERN))
    listening = ListenStream(asked.exchange, frozenset(), frozenset({"x:1"}))
    scene.notifications.streams[asked.exchange] = listening
    listening.acknowledge(b"{}")
    asked.told.clear()

    assert scene.notifications.subscribed_uris(scene.server, own_key) == {"x:1"}
    assert scene.notifications.subscribed_uris(scene.server, unknown_key) == frozenset()
    for key in (own_key, unknown_key):
        scene.say("notifications/resources/updated", key, uri="x:1")

    assert len(asked.told) == 1


def test_what_there_is_to_tell_before_the_acknowledgement_is_told_after_it() -> None:
    asked = Asked("subscriptions/listen", by=caller(revision=MODERN))
    listening = ListenStream(asked.exchange, frozenset(), frozenset())
    for number in range(EARLY_NOTIFICATIONS_MAX + 1):
        listening.send(f"{number}", b"{}")
    assert asked.told == []

    listening.acknowledge(b"{}")

    first, *rest = notices(asked)
    assert first == "notifications/subscriptions/acknowledged"
    assert rest == [f"{number}" for number in range(1, EARLY_NOTIFICATIONS_MAX + 1)]


def test_the_most_talkative_level_that_anyone_set_is_wanted() -> None:
    scene = Scene()
    assert scene.notifications.wanted_log_level(scene.server) is None
    scene.one.log_level, scene.two.log_level = "error", "info"

    assert scene.notifications.wanted_log_level(scene.server) == "info"
    assert scene.notifications.wanted_log_level(FakeServer("other")) is None


def test_an_unknown_notification_is_for_the_session_that_owns_the_connection() -> None:
    scene = Scene()
    scene.say("notifications/vendor/x", LeaseKey(owner="two"), a=1)
    scene.say("notifications/vendor/x", a=1)

    assert scene.one.notified == []
    assert scene.two.notified == [("notifications/vendor/x", {"a": 1})]


VENDOR = "notifications/vendor/x"


@pytest.mark.parametrize("transparent", [True, False])
def test_an_unknown_notification_that_comes_with_a_call_is_that_ones(transparent: bool) -> None:
    scene = Scene(transparent=transparent)
    asked, other = Asked(by=caller(revision=MODERN)), Asked(by=caller(scene.one))
    scene.open = [asked.exchange, other.exchange]

    call = PendingCall("tools/call", lambda _: None, number=0)
    assert scene.say(VENDOR, LeaseKey(owner="one"), of=call, a=1)

    assert asked.told == [ServerNotification(VENDOR, b'{"a": 1}')]
    assert not (other.told or scene.one.notified or scene.two.notified)


def test_one_that_may_be_about_any_of_several_calls_is_told_to_sessions_and_no_call() -> None:
    scene = Scene(transparent=True)
    asked = [Asked(by=caller(revision=MODERN)) for _ in range(2)]
    scene.open = [asked[0].exchange]
    assert scene.say(VENDOR)
    assert asked[0].told == [ServerNotification(VENDOR, None)]

    scene.open.append(asked[1].exchange)
    about = {"io.modelcontextprotocol/subscriptionId": 7}
    assert not scene.say(VENDOR, a=1, _meta=about)

    assert [len(each.told) for each in asked] == [1, 0]
    assert scene.one.notified == scene.two.notified == [(VENDOR, {"a": 1})]


@pytest.mark.parametrize("config", [{}, {"prefix": "never"}])
def test_without_a_call_it_stays_where_a_profile_is_not_transparent(config: dict[str, Any]) -> None:
    scene = Scene(**config)
    asked = Asked(by=caller(revision=MODERN))
    scene.open = [asked.exchange]

    assert not scene.say(VENDOR)

    assert not (asked.told or scene.one.notified or scene.two.notified)


def test_one_for_several_people_is_for_nobody() -> None:
    scene = Scene(transparent=True)
    scene.two.principal = Principal("token", "another")

    scene.say(VENDOR)

    assert scene.one.notified == scene.two.notified == []


@pytest.mark.parametrize(("profile", "heard"), [("default", [(VENDOR, b'{"a": 1}')]), ("x", [])])
def test_a_client_that_is_alone_hears_it_in_any_case(profile: str, heard: list[object]) -> None:
    scene = Scene(transparent=True)
    told: list[object] = []
    scene.notifications.sole_client = SoleClient(profile, lambda *what: told.append(what))
    for session in (scene.one, scene.two):
        scene.notifications.on_session_closed(session)

    scene.say(VENDOR, a=1)

    assert told == heard


def test_who_agrees_with_the_server_on_an_extension_hears_what_belongs_to_it() -> None:
    scene = Scene()
    scene.server.extensions = {"com.example/x": b"{}"}
    scene.one.capabilities = declared({"extensions": {"com.example/x": {}}})

    scene.say(VENDOR, a=1)

    assert scene.one.notified == [(VENDOR, {"a": 1})]
    assert scene.two.notified == []


def test_params_that_are_no_object_are_nobodys() -> None:
    scene = Scene()
    told = Notification("notifications/message", b"[1]")
    scene.notifications.on_server_notification(scene.server, SHARED, told)

    assert scene.one.notified == []
