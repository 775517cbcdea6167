"""Subscriptions of a transparent profile's clients, and what becomes of them at the server."""

import json
import time
from typing import Any

import pytest

from anyport.gateway.calls.answers import AnswerTranslator
from anyport.gateway.elicitation.request_state import RequestStates
from anyport.gateway.local.transparent import (
    LISTEN,
    SUBSCRIPTIONS_OF_CONNECTION_MAX,
    TransparentSubscriptions,
)
from anyport.protocol.exchange import ServerNotification
from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.upstream.connection import Connection
from anyport.upstream.lease_key import SHARED
from anyport.upstream.pending_call import NoAnswer
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Notification
from tests.gateway.fakes import MODERN, Asked, FakeClock, FakeServer, caller, profile_of
from tests.upstream.fakes import FakeChannel, Message, RecordingListener, peer_of, say

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TOOLS, UPDATED = "notifications/tools/list_changed", "notifications/resources/updated"
CUT = NoAnswer("the stream was cut")
WISHES: Message = {"toolsListChanged": True, "com.example/x": [1]}


class Scene:
    """A modern server shown as it is."""

    def __init__(self) -> None:
        self.server = FakeServer("s", MODERN)
        self.connection = self.server.connection
        self.channel = self.server.channel
        self.profile = profile_of(self.server, transparent=True)
        self.clock = FakeClock()
        endings = AnswerTranslator(RequestStates(Seal([bytes(KEY_BYTES)]), time.time))
        self.subscriptions = TransparentSubscriptions(endings, self.clock)
        self.opened = True

    def listen(self, **wishes: Any) -> Asked:
        asked = Asked(LISTEN, {"notifications": wishes or WISHES}, caller(revision=MODERN))
        asked.exchange.id = b'"theirs"'
        self.opened = self.subscriptions.open(
            asked.exchange, self.profile, self.server, self.connection
        )
        return asked

    def says(self, method: str, of: int, **params: Any) -> bool:
        """Have the server say something on one of them, by its number."""
        self.connection.related_call = next(
            call for call in self.channel.calls if call.number == of
        )
        told = Notification(method, json.dumps(params).encode() if params else None)
        return self.subscriptions.on_notification(self.connection, told)

    def return_(self) -> FakeChannel:
        """Have the server come back after it was lost."""
        self.connection.end("exit code 1")
        self.channel = FakeChannel()
        self.connection = Connection(
            self.channel, RecordingListener(), jsonrpc.OUTBOUND, FakeClock()
        )
        self.connection.peer = peer_of(MODERN)
        self.server.connection = self.connection
        self.subscriptions.on_connection_renewed(self.server, SHARED)
        return self.channel


def notices(asked: Asked) -> list[tuple[str, Any]]:
    found = [each for each in asked.told if isinstance(each, ServerNotification)]
    return [(each.method, json.loads(each.params or b"null")) for each in found]


def test_the_server_gets_the_filter_as_it_came_and_says_itself_what_it_honours() -> None:
    scene = Scene()
    asked = scene.listen()
    (sent,) = scene.channel.sent
    assert sent["params"]["notifications"] == WISHES
    assert asked.told == []

    assert scene.says(ACKNOWLEDGED, 1, notifications={"com.example/x": [1]})

    assert notices(asked) == [(ACKNOWLEDGED, {"notifications": {"com.example/x": [1]}})]


def test_what_is_said_on_a_subscription_reaches_its_client_and_no_other() -> None:
    scene = Scene()
    one, two = scene.listen(), scene.listen()

    assert scene.says("notifications/vendor/z", 2, q=1)
    scene.connection.related_call = None
    assert not scene.subscriptions.on_notification(scene.connection, Notification(TOOLS, b"{}"))

    assert notices(one) == []
    assert notices(two) == [("notifications/vendor/z", {"q": 1})]


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        ({"result": {"resultType": "complete", "x": 1}}, {"resultType": "complete", "x": 1}),
        ({"error": {"code": -5, "message": "No"}}, {"code": -5, "message": "No"}),
    ],
)
def test_what_the_server_ends_is_over_for_the_client_in_its_words(
    answer: Message, ending: Message
) -> None:
    scene = Scene()
    scene.profile = profile_of(scene.server, transparent=True, errors="verbatim")
    asked = scene.listen()
    scene.says(ACKNOWLEDGED, 1, notifications={})

    say(scene.connection, id=1, **answer)

    assert asked.ending == ending


def test_a_server_that_cancels_a_subscription_has_ended_it() -> None:
    scene = Scene()
    asked, other = scene.listen(), scene.listen()

    cancelled = Notification("notifications/cancelled", b'{"requestId":1}')
    assert scene.subscriptions.on_notification(scene.connection, cancelled)
    for params in (b'{"requestId":"theirs"}', b"{}", b"[1]", None):
        strange = Notification("notifications/cancelled", params)
        assert not scene.subscriptions.on_notification(scene.connection, strange)

    assert asked.ending == "Server 's' has ended the subscription"
    assert other.ending is None


def test_a_client_that_leaves_ends_the_request_to_the_server() -> None:
    scene = Scene()
    asked = scene.listen()

    asked.exchange.cancel()

    assert scene.channel.sent[-1]["method"] == "notifications/cancelled"
    assert scene.channel.sent[-1]["params"] == {"requestId": 1}
    assert scene.connection.open_calls == 0


def test_one_that_was_lost_is_opened_again_and_what_it_tells_of_may_have_changed() -> None:
    scene = Scene()
    asked = scene.listen()
    honoured = {"toolsListChanged": True, "resourceSubscriptions": ["x:1", 5]}
    scene.says(ACKNOWLEDGED, 1, notifications=honoured)
    told = notices(asked)

    again = scene.return_()
    (sent,) = again.sent
    assert sent["params"]["notifications"] == WISHES
    assert notices(asked) == told, "nothing is known yet"
    scene.says(ACKNOWLEDGED, 1, notifications=honoured)

    assert notices(asked) == [*told, (TOOLS, {}), (UPDATED, {"uri": "x:1"})]
    assert asked.ending is None


def test_one_whose_stream_alone_was_cut_is_opened_again_after_a_while() -> None:
    scene = Scene()
    asked = scene.listen()
    scene.says(ACKNOWLEDGED, 1, notifications={"toolsListChanged": True})
    (call,) = scene.channel.calls

    scene.connection.settle(call, CUT)
    assert len(scene.channel.sent) == 1
    scene.clock.pass_by()
    assert [sent["method"] for sent in scene.channel.sent] == [LISTEN, LISTEN]
    scene.says(ACKNOWLEDGED, 2, notifications={"toolsListChanged": True})

    assert [method for method, _ in notices(asked)] == [ACKNOWLEDGED, TOOLS]


def test_who_has_left_meanwhile_is_not_listened_for() -> None:
    scene = Scene()
    asked = scene.listen()
    scene.says(ACKNOWLEDGED, 1, notifications={})
    scene.connection.settle(scene.channel.calls[0], CUT)
    asked.exchange.cancel()

    scene.clock.pass_by()

    assert [sent["method"] for sent in scene.channel.sent] == [LISTEN]


def test_one_that_is_lost_before_the_server_has_said_anything_has_failed() -> None:
    scene = Scene()
    asked = scene.listen()

    scene.connection.settle(scene.channel.calls[0], CUT)

    assert asked.ending == "Server 's' is not running: the stream was cut"


def test_only_so_many_are_open_over_one_connection() -> None:
    scene = Scene()
    asked = [scene.listen() for _ in range(SUBSCRIPTIONS_OF_CONNECTION_MAX)]
    assert scene.opened

    scene.listen()
    assert not scene.opened
    assert len(scene.channel.sent) == SUBSCRIPTIONS_OF_CONNECTION_MAX

    asked[0].exchange.cancel()
    scene.listen()
    assert scene.opened


def test_those_of_a_server_that_is_no_longer_configured_end_in_good_order() -> None:
    scene = Scene()
    asked = scene.listen()

    scene.subscriptions.retire(FakeServer("another", MODERN))
    assert asked.ending is None
    scene.subscriptions.retire(scene.server)

    assert asked.ending == {}
