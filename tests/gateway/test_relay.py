"""The way of a message, from its request to its one ending."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyport.gateway.calls.call import Call
from anyport.gateway.calls.deadline import SLOW_CALL_SECONDS
from anyport.gateway.calls.durability import CALLS_REFUSED, not_recorded_fault
from anyport.protocol.errors import INTERNAL_ERROR_MESSAGE, invalid_params
from anyport.protocol.exchange import Answered, Caller, Failed
from anyport.protocol.extensions import SKILLS
from anyport.protocol.methods import OfferKind, unknown_method
from anyport.upstream.pending_call import PendingCall
from tests.gateway.fakes import LEGACY, MODERN, Asked, caller, declared
from tests.gateway.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_a_call_reaches_its_server_under_the_native_name_and_comes_back(scene: Scene) -> None:
    asked = scene.begin(params={"name": "s__echo", "arguments": {"n": 1.50}})
    (sent,) = scene.server.channel.sent
    assert (sent["method"], sent["params"]) == (
        "tools/call",
        {"name": "echo", "arguments": {"n": 1.5}},
    )
    assert scene.statuses == []

    scene.answer(result={"content": []})

    assert asked.ending == {"content": []}
    assert scene.statuses == ["success"]
    assert scene.at_rest()


def test_a_call_is_noted_even_if_its_answer_cannot_be_told(scene: Scene) -> None:
    asked = scene.begin()

    def fail(*_: object) -> None:
        raise RuntimeError("no way to tell")

    asked.exchange.deliver = fail
    scene.answer(result={"content": []})

    assert scene.statuses == ["success"]
    assert [str(error) for error in scene.broken] == ["no way to tell"]


def test_a_call_that_takes_a_while_is_noted_before_it_ends(scene: Scene) -> None:
    asked = scene.begin()
    scene.calls.sweep(SLOW_CALL_SECONDS)
    scene.calls.sweep(SLOW_CALL_SECONDS + 1)
    assert scene.statuses == ["pending"]

    scene.answer(result={"content": []})

    assert asked.ending == {"content": []}
    assert scene.statuses == ["pending", "success"]
    first, last = scene.events
    assert first["trace_id"] == last["trace_id"]
    assert first["metadata"]["span_id"] == last["metadata"]["span_id"]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
def test_an_unknown_tool_is_refused_and_noted(scene: Scene, revision: Any) -> None:
    asked = scene.begin(params={"name": "nobody"}, by=caller(revision=revision))

    assert asked.ending == "Unknown tool: nobody"
    assert scene.statuses == ["failure"]


def test_an_unknown_name_waits_until_those_who_may_have_it_were_asked_once(scene: Scene) -> None:
    scene.local_methods.looks_up = True
    known, unknown = (scene.begin(params={"name": name}) for name in ("s__new", "s__none"))
    assert [sought.public for sought in scene.local_methods.sought] == ["s__new", "s__none"]
    assert (known.ending, unknown.ending) == (None, None)

    scene.server.offer(OfferKind.TOOLS, "echo", "new")
    scene.profile.refresh()
    for then in scene.local_methods.waiting:
        then()

    assert scene.server.channel.sent[0]["params"] == {"name": "new"}
    assert unknown.ending == "Unknown tool: s__none"
    assert len(scene.local_methods.sought) == 2


def test_an_unknown_name_waits_for_servers_that_have_not_told_yet(scene: Scene) -> None:
    scene.server.lists_ready = False
    asked = scene.begin(params={"name": "s__late"})
    assert asked.ending is None

    scene.server.offer(OfferKind.TOOLS, "late")
    scene.profile.refresh()
    scene.local_methods.waiting[0]()

    assert scene.server.channel.sent[0]["params"] == {"name": "late"}


def test_a_name_of_a_server_that_still_starts_waits_for_that_server(scene: Scene) -> None:
    scene.server.listings.clear()
    scene.server.lists_ready = False
    scene.profile.refresh()
    asked = scene.begin(params={"name": "s__late"})
    scene.now = 2.0
    scene.local_methods.waiting.pop()()  # The time for all lists is over.
    assert asked.ending is None

    scene.now = 5.0
    scene.server.offer(OfferKind.TOOLS, "late")
    scene.profile.refresh()
    scene.local_methods.waiting.pop()()
    scene.now = 6.0
    scene.answer(result={"content": []})

    assert asked.ending == {"content": []}
    overheads = scene.overheads()
    assert overheads == 0.0, "waiting for a server is not the gateway's own time"


def test_a_name_of_a_server_that_does_not_start_in_time_is_refused(scene: Scene) -> None:
    scene.server.listings.clear()
    scene.server.lists_ready = False
    scene.profile.refresh()
    asked = scene.begin(params={"name": "s__late"})
    scene.local_methods.waiting.pop()()
    scene.local_methods.waiting.pop()()

    assert asked.ending == "Server 's' is not running: it is still starting"
    assert scene.local_methods.waiting == []


def test_a_known_name_does_not_wait_for_anyone(scene: Scene) -> None:
    scene.server.lists_ready = False
    scene.begin()

    assert scene.local_methods.waiting == []
    assert len(scene.server.channel.sent) == 1


def test_a_call_that_was_cancelled_while_it_waited_goes_nowhere(scene: Scene) -> None:
    scene.server.lists_ready = False
    asked = scene.begin(params={"name": "s__late"})
    asked.exchange.cancel()
    scene.server.offer(OfferKind.TOOLS, "late")
    scene.profile.refresh()

    scene.local_methods.waiting[0]()

    assert scene.server.channel.sent == []
    assert asked.told == []


@pytest.mark.parametrize(
    ("method", "params", "asked"),
    [
        ("ping", {}, "ping"),
        ("tools/list", {}, "tools/list"),
        ("tools/call", {"name": "gateway_status"}, "gateway_status"),
        ("resources/subscribe", {"uri": "x:1"}, "x:1"),
    ],
)
def test_what_no_single_server_can_answer_goes_to_the_desk(
    scene: Scene, method: str, params: Any, asked: str
) -> None:
    scene.begin(method, params)

    assert scene.local_methods.asked == [asked]
    assert scene.server.channel.sent == []


def test_a_subscription_has_its_time_like_a_call(scene: Scene) -> None:
    asked = scene.begin("resources/subscribe", {"uri": "x:1"})

    scene.calls.sweep(60.0)

    assert asked.ending == "Tool execution timeout (60s)"


def test_what_breaks_on_the_way_is_answered_noted_and_reported(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = RuntimeError("a bug")

    def breaks(*_: object) -> None:
        raise broken

    monkeypatch.setattr(scene.server.connection, "call", breaks)
    asked = scene.begin()

    assert asked.ending == INTERNAL_ERROR_MESSAGE
    assert scene.broken == [broken]
    assert scene.statuses == ["failure"]
    assert scene.at_rest()


def test_a_record_that_breaks_keeps_no_answer_back(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = scene.begin()
    monkeypatch.setattr(scene.recorder, "_record_ending", lambda *_: 1 / 0)

    scene.answer(result={"content": []})

    assert asked.ending == {"content": []}
    assert len(scene.broken) == 1


def test_only_the_first_ending_counts(scene: Scene) -> None:
    asked = scene.begin()
    scene.relay.finish(asked.exchange, Answered(b"{}"))
    scene.relay.finish(asked.exchange, Failed(invalid_params("no")))

    assert asked.ending == {}
    assert scene.statuses == ["success"]


@pytest.mark.parametrize("method", ["skills/list", "skills/get", "resources/directory/read"])
def test_a_method_of_an_extension_that_no_server_offers_does_not_exist(
    scene: Scene, method: str
) -> None:
    asked = scene.begin(method, {"uri": "skill://tea/SKILL.md"})
    assert asked.ending is None, "a server may turn out to have it"

    (then,) = scene.local_methods.waiting
    then()

    assert asked.ending == f"Method not found: {method}"
    assert not scene.local_methods.asked and not scene.server.channel.sent


def test_a_method_of_an_extension_exists_once_a_server_offers_it(scene: Scene) -> None:
    asked = scene.begin("skills/list", {})
    scene.server.extensions = {SKILLS: b"{}"}
    (then,) = scene.local_methods.waiting
    then()
    assert scene.local_methods.asked == ["skills/list"]

    scene.begin("skills/get", {"uri": "skill://tea/SKILL.md"})
    (sent,) = scene.server.channel.sent
    assert (sent["method"], sent["params"]) == ("skills/get", {"uri": "skill://tea/SKILL.md"})
    asked.exchange.cancel()
    then()
    assert scene.local_methods.asked == ["skills/list"]


def test_a_method_that_nobody_here_knows_exists_for_those_who_agree_with_the_server_on_it(
    scene: Scene,
) -> None:
    agreeing = replace(caller(), capabilities=declared({"extensions": {"com.example/x": {}}}))

    def ask(by: Caller) -> Asked:
        asked = Asked("ping", {"what": 1}, by)
        asked.exchange.method = unknown_method("vendor/do")
        scene.relay.begin(asked.exchange)
        return asked

    early, stranger = ask(agreeing), ask(caller())
    scene.server.extensions = {"com.example/x": b"{}"}
    for then in scene.local_methods.waiting:
        then()
    ask(agreeing)

    assert stranger.ending == "Method not found: vendor/do"
    assert early.ending is None
    sent = [(frame["method"], frame["params"]) for frame in scene.server.channel.sent]
    assert sent == [("vendor/do", {"what": 1})] * 2


def test_of_all_that_a_server_works_on_one_is_what_it_was_asked_with_a_call(scene: Scene) -> None:
    first, second = scene.begin(), scene.begin()
    errands = [scene.calls.open[asked.exchange] for asked in (first, second)]
    assert all(isinstance(errand, Call) for errand in errands)

    assert scene.calls.exchanges_at(scene.server) == [first.exchange, second.exchange]
    for asked, errand in zip((first, second), errands, strict=True):
        assert isinstance(errand, Call)
        assert scene.calls.exchanges_at(scene.server, errand.pending) == [asked.exchange]
    strange = PendingCall("tools/call", lambda _: None)
    assert scene.calls.exchanges_at(scene.server, strange) == []


def test_while_nothing_can_be_recorded_no_server_is_called(scene: Scene) -> None:
    scene.relay.durability.refusal = not_recorded_fault(CALLS_REFUSED, "no room")

    called, read = scene.begin(), scene.begin("resources/read", {"uri": "x:1"})
    back = scene.begin(params={"name": "s__echo", "requestState": "anything"})
    told = scene.begin(params={"name": "gateway_status"})

    for asked in (called, read, back):
        assert asked.ending == "no room; calls are refused until it can"
    assert scene.server.channel.sent == []
    assert scene.statuses == ["failure"] * 3
    assert scene.local_methods.asked == ["gateway_status"]
    assert told.ending is None

    scene.relay.durability.refusal = None
    scene.begin()
    assert len(scene.server.channel.sent) == 1


def test_what_changes_something_or_may_waits_for_its_record(scene: Scene) -> None:
    relay = scene.relay
    tool, own, list = (
        scene.begin(method, params).exchange.delay_answer
        for method, params in (
            ("tools/call", {"name": "s__echo"}),
            ("tools/call", {"name": "gateway_status"}),
            ("tools/list", {}),
        )
    )

    assert (tool, own) == (relay.durability.hold, relay.durability.hold_if_recordable)
    assert list is None
