"""Who is let in, who is turned away, and what they are told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyport.config.schema import GatewayConfig
from anyport.gateway.admission import LOOK_SECONDS_MIN, Admission
from anyport.gateway.pressure import Gauge, Pressure
from anyport.protocol.errors import Fault, Pause, Situation, lost, not_running
from anyport.protocol.exchange import Answered, Caller, Failed
from anyport.protocol.principal import Principal
from anyport.protocol.room import LARGE_BYTES
from anyport.upstream.queue import Places
from tests.gateway.fakes import Asked, FakeSession, caller
from tests.gateway.scene import Scene
from tests.gateway.tracks import PLAIN, Client, plain_result

ALICE, BOB = Principal("token", "alice"), Principal("token", "bob")


def admission(**config: Any) -> Admission:
    return Admission(GatewayConfig(**config), chance=lambda: 0.5)


def of(who: Principal | str) -> Caller:
    """Somebody with a token, or with a session over HTTP."""
    if isinstance(who, Principal):
        return replace(caller(), principal=who, transport="streamable-http")
    return replace(caller(FakeSession(who)), transport="streamable-http")


def enter(at: Admission, by: Caller | None = None, under_way: int = 0) -> Asked:
    asked = Asked(by=by or caller())
    assert at.enter(asked.exchange, under_way, 0.0) is None
    return asked


def refused(at: Admission, asked: Asked | None = None, under_way: int = 0) -> Fault:
    fault = at.enter((asked or Asked()).exchange, under_way, 0.0)
    assert fault is not None
    return fault


def test_the_gateway_takes_on_so_many_calls_and_no_more() -> None:
    at = admission(calls_max=3)
    enter(at, under_way=2)

    fault = refused(at, under_way=3)

    assert fault.situation is Situation.OVERLOADED
    assert fault.message == "The gateway is busy: 3 calls are in flight; try again in 3 s"
    assert fault.pause == Pause(503, 3)
    assert json.loads(fault.data or b"") == {"retryAfterSeconds": 3}
    assert at.room.refused == {"calls": 1}


@pytest.mark.parametrize("who", [ALICE, "session"])
def test_a_client_has_so_many_calls_under_way_and_no_more(who: Principal | str) -> None:
    at = admission(client_calls_max=2)
    first, second = enter(at, of(who)), enter(at, of(who))

    fault = refused(at, Asked(by=of(who)))

    assert fault.pause == Pause(429, 3)
    assert "2 of this client's" in fault.message
    assert at.room.refused == {"client-calls": 1}
    enter(at, of(BOB))
    enter(at, of("another session"))
    first.exchange.end(Answered(b"{}"))
    third = enter(at, of(who))
    refused(at, Asked(by=of(who)))
    second.exchange.cancel()
    third.exchange.cancel()
    third.exchange.end(Answered(b"{}"))
    for _ in range(2):
        enter(at, of(who))
    refused(at, Asked(by=of(who)))


@pytest.mark.parametrize(
    "by",
    [
        caller(),
        caller(FakeSession()),
        replace(caller(), transport="streamable-http"),
    ],
    ids=["alone on a pipe", "a session on a pipe", "a connection"],
)
def test_who_is_the_only_client_or_asks_one_thing_at_a_time_has_no_share(by: Caller) -> None:
    at = admission(client_calls_max=1)

    for _ in range(3):
        assert enter(at, by).exchange.share is None


def test_nothing_is_kept_of_a_client_that_has_nothing_under_way() -> None:
    at = admission()
    asked = enter(at, of(ALICE))
    share = at.share(of(ALICE))
    assert share is not None and share.calls == 1

    asked.exchange.end(Answered(b"{}"))

    assert share.calls == 0
    del share
    assert not list(at._shares)


def test_large_requests_share_the_room_for_such_and_small_ones_go_on() -> None:
    at = admission(bytes_max=3 * LARGE_BYTES)
    large: dict[str, Any] = {"text": "x" * (2 * LARGE_BYTES)}
    held = Asked(params=large)
    assert at.enter(held.exchange, 0, 0.0) is None
    taken = at.room.taken_bytes
    assert taken == len(held.exchange.params)

    fault = refused(at, Asked(params=large))

    assert fault.pause == Pause(503, 3)
    assert "bytes" in fault.message
    assert at.room.taken_bytes == taken
    enter(at)
    held.exchange.end(Answered(b"{}"))
    assert at.room.taken_bytes == 0
    assert at.enter(Asked(params=large).exchange, 0, 0.0) is None


def test_while_memory_is_short_nothing_new_is_begun() -> None:
    used, looks = 50, 0

    def read() -> int:
        nonlocal looks
        looks += 1
        return used

    at = Admission(GatewayConfig(), Pressure(lambda: [Gauge(100, read)]), lambda: 0.0)
    at.look(1.0)
    enter(at)
    used = 90
    at.look(1.0 + LOOK_SECONDS_MIN / 2)
    enter(at)
    assert looks == 1, "not too often"
    at.look(2.0)

    fault = at.enter(Asked().exchange, 0, 2.0)

    assert fault is not None
    assert fault.message == "The gateway is short of memory; try again in 1 s"
    assert fault.pause == Pause(503, 1)
    assert at.room.refused == {"memory": 1}
    used = 82
    assert at.enter(Asked().exchange, 0, 3.0) is not None
    used = 70
    assert at.enter(Asked().exchange, 0, 3.1) is not None, "nobody has looked since"
    assert at.enter(Asked().exchange, 0, 4.0) is None


def test_another_configuration_counts_from_now_on() -> None:
    at = admission(calls_max=3)
    refused(at, under_way=3)

    at.limit(GatewayConfig(calls_max=5, client_calls_max=1, bytes_max=7))

    enter(at, under_way=4)
    refused(at, under_way=5)
    enter(at, alice := of(ALICE))
    refused(at, Asked(by=alice))
    assert at.room.bytes_max == 7


def test_who_finds_a_server_busy_is_told_when_to_come_back() -> None:
    at = admission()
    busy = Failed(lost("s", Situation.BUSY, "open calls: 128, waiting: 9"))

    told = at.told(busy)

    assert isinstance(told, Failed)
    assert told.fault.pause == Pause(None, 3)
    assert json.loads(told.fault.data or b"")["retryAfterSeconds"] == 3
    assert at.room.refused == {"server": 1}
    for other in (Answered(b"{}"), Failed(not_running("s", "gone")), told):
        assert at.told(other) is other
    assert at.room.refused == {"server": 1}


def test_a_call_that_is_refused_reaches_no_server_and_is_noted(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.relay.admission.limit(GatewayConfig(calls_max=1))
    first = scene.begin()

    second = scene.begin()

    assert second.ending is not None and "try again" in second.ending
    assert len(scene.server.channel.sent) == 1
    assert scene.statuses == ["failure"]
    scene.answer(result={"content": []})
    assert first.ending == {"content": []}
    assert scene.statuses == ["failure", "success"]
    assert scene.at_rest()


def test_what_the_gateway_answers_itself_is_answered_even_so(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.relay.admission.limit(GatewayConfig(calls_max=0))

    scene.begin("tools/list", {})

    assert scene.desk.asked == ["tools/list"]


def test_calls_on_a_track_count_like_any_other(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    client = Client(scene, of("session"))
    share = scene.relay.admission.share(client.caller)
    assert share is not None
    client.prime()
    assert share.calls == 0
    scene.relay.admission.limit(GatewayConfig(client_calls_max=1))

    client.call(id=1)
    client.call(id=2)

    assert (client.tracked, share.calls) == (1, 1)
    assert "Too many calls at once" in client.wire.take_one()["error"]["message"]
    client.hear(plain_result(scene))
    assert share.calls == 0
    client.call(id=3)
    client.open[3].cancel()
    assert share.calls == 0
    assert client.tracked == 2


def test_the_track_is_left_when_the_gateway_is_full_or_a_call_is_large(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    client = Client(scene, of("session"))
    client.prime()
    scene.relay.admission.limit(GatewayConfig(calls_max=1))

    client.call({**PLAIN, "arguments": {"text": "x" * LARGE_BYTES}}, 1)
    assert scene.relay.admission.room.taken_bytes > LARGE_BYTES
    client.call(id=2)

    assert client.tracked == 0
    assert "The gateway is busy" in client.wire.take_one()["error"]["message"]
    client.hear(plain_result(scene))
    assert scene.relay.admission.room.taken_bytes == 0


def test_a_call_that_waits_for_its_turn_for_too_long_is_given_up_and_says_so(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    scene.server.connection.places = Places(1, 5, 3.0)
    scene.server.connection.clock = lambda: scene.now
    first, second = scene.begin(), scene.begin()
    scene.deadlines.sweep(2.9)
    assert second.ending is None

    scene.deadlines.sweep(3.0)

    assert second.ending is not None and "no place became free" in second.ending
    [failed] = [told.fault for told in second.told if isinstance(told, Failed)]
    assert json.loads(failed.data or b"")["timeout"] == "queue"
    assert len(scene.server.channel.sent) == 1
    assert first.ending is None


def test_a_busy_server_is_told_with_the_time_to_come_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.server.connection.places = Places(1, 0, 3.0)
    scene.begin()

    refused = scene.begin()

    [failed] = [told.fault for told in refused.told if isinstance(told, Failed)]
    assert failed.situation is Situation.BUSY
    assert failed.pause is not None and failed.pause.seconds is not None
    assert scene.relay.admission.room.refused == {"server": 1}
