"""Who is let in, who is turned away, and what they are told."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyport.config.model import GatewayConfig
from anyport.gateway.calls.admission import MEMORY_CHECK_SECONDS_MIN, Admission
from anyport.gateway.memory import MemoryGauge, MemoryPressure
from anyport.protocol.errors import Fault, RetryAfter, Situation, not_running, server_failure
from anyport.protocol.exchange import Answered, Caller, Failed
from anyport.protocol.memory_budget import LARGE_BYTES
from anyport.protocol.principal import Principal
from anyport.upstream.call_queue import CallSlots
from tests.gateway.calls.fast_paths import PLAIN, Client, plain_result
from tests.gateway.fakes import Asked, FakeSession, caller
from tests.gateway.scene import Scene

ALICE, BOB = Principal("token", "alice"), Principal("token", "bob")


def admission(**config: Any) -> Admission:
    return Admission(GatewayConfig(**config), chance=lambda: 0.5)


def of(who: Principal | str) -> Caller:
    """Somebody with a token, or with a session over HTTP."""
    if isinstance(who, Principal):
        return replace(caller(), principal=who, transport="streamable-http")
    return replace(caller(FakeSession(who)), transport="streamable-http")


def enter(at: Admission, by: Caller | None = None, open_calls: int = 0) -> Asked:
    asked = Asked(by=by or caller())
    assert at.admit(asked.exchange, open_calls, 0.0) is None
    return asked


def refused(at: Admission, asked: Asked | None = None, open_calls: int = 0) -> Fault:
    fault = at.admit((asked or Asked()).exchange, open_calls, 0.0)
    assert fault is not None
    return fault


def test_the_gateway_takes_on_so_many_calls_and_no_more() -> None:
    at = admission(calls_max=3)
    enter(at, open_calls=2)

    fault = refused(at, open_calls=3)

    assert fault.situation is Situation.OVERLOADED
    assert fault.message == "The gateway is busy: 3 calls are in flight; try again in 3 s"
    assert fault.retry_after == RetryAfter(503, 3)
    assert json.loads(fault.data or b"") == {"retryAfterSeconds": 3}
    assert at.memory_budget.refusals == {"calls": 1}


@pytest.mark.parametrize("who", [ALICE, "session"])
def test_a_client_has_so_many_calls_under_way_and_no_more(who: Principal | str) -> None:
    at = admission(client_calls_max=2)
    first, second = enter(at, of(who)), enter(at, of(who))

    fault = refused(at, Asked(by=of(who)))

    assert fault.retry_after == RetryAfter(429, 3)
    assert "2 of this client's" in fault.message
    assert at.memory_budget.refusals == {"client-calls": 1}
    enter(at, of(BOB))
    enter(at, of("another session"))
    first.exchange.end(Answered(b"{}"))
    third = enter(at, of(who))
    refused(at, Asked(by=of(who)))
    second.exchange.cancel()
    third.exchange.cancel()
    third.exchange.end(Answered(b"{}"))
    again = [enter(at, of(who)) for _ in range(2)]  # Held, or the collector could end them.
    refused(at, Asked(by=of(who)))
    assert not any(each.exchange.ended for each in again)


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
        assert enter(at, by).exchange.client_load is None


def test_nothing_is_kept_of_a_client_that_has_nothing_under_way() -> None:
    at = admission()
    asked = enter(at, of(ALICE))
    load = at.load_of(of(ALICE))
    assert load is not None and load.calls == 1

    asked.exchange.end(Answered(b"{}"))

    assert load.calls == 0
    del load
    assert not list(at._loads)


def test_large_requests_share_the_room_for_such_and_small_ones_go_on() -> None:
    at = admission(bytes_max=3 * LARGE_BYTES)
    large: dict[str, Any] = {"text": "x" * (2 * LARGE_BYTES)}
    held = Asked(params=large)
    assert at.admit(held.exchange, 0, 0.0) is None
    taken = at.memory_budget.used_bytes
    assert taken == len(held.exchange.params)

    fault = refused(at, Asked(params=large))

    assert fault.retry_after == RetryAfter(503, 3)
    assert "bytes" in fault.message
    assert at.memory_budget.used_bytes == taken
    enter(at)
    held.exchange.end(Answered(b"{}"))
    assert at.memory_budget.used_bytes == 0
    assert at.admit(Asked(params=large).exchange, 0, 0.0) is None


def test_while_memory_is_short_nothing_new_is_begun() -> None:
    used, looks = 50, 0

    def read() -> int:
        nonlocal looks
        looks += 1
        return used

    at = Admission(GatewayConfig(), MemoryPressure(lambda: [MemoryGauge(100, read)]), lambda: 0.0)
    at.check_memory(1.0)
    enter(at)
    used = 90
    at.check_memory(1.0 + MEMORY_CHECK_SECONDS_MIN / 2)
    enter(at)
    assert looks == 1, "not too often"
    at.check_memory(2.0)

    fault = at.admit(Asked().exchange, 0, 2.0)

    assert fault is not None
    assert fault.message == "The gateway is short of memory; try again in 1 s"
    assert fault.retry_after == RetryAfter(503, 1)
    assert at.memory_budget.refusals == {"memory": 1}
    used = 82
    assert at.admit(Asked().exchange, 0, 3.0) is not None
    used = 70
    assert at.admit(Asked().exchange, 0, 3.1) is not None, "nobody has looked since"
    assert at.admit(Asked().exchange, 0, 4.0) is None


def test_another_configuration_counts_from_now_on() -> None:
    at = admission(calls_max=3)
    refused(at, open_calls=3)

    at.apply_config(GatewayConfig(calls_max=5, client_calls_max=1, bytes_max=7))

    enter(at, open_calls=4)
    refused(at, open_calls=5)
    enter(at, alice := of(ALICE))
    refused(at, Asked(by=alice))
    assert at.memory_budget.bytes_max == 7


def test_who_finds_a_server_busy_is_told_when_to_come_back() -> None:
    at = admission()
    busy = Failed(server_failure("s", Situation.BUSY, "open calls: 128, waiting: 9"))

    told = at.with_retry_hint(busy)

    assert isinstance(told, Failed)
    assert told.fault.retry_after == RetryAfter(None, 3)
    assert json.loads(told.fault.data or b"")["retryAfterSeconds"] == 3
    assert at.memory_budget.refusals == {"server": 1}
    for other in (Answered(b"{}"), Failed(not_running("s", "gone")), told):
        assert at.with_retry_hint(other) is other
    assert at.memory_budget.refusals == {"server": 1}


def test_a_call_that_is_refused_reaches_no_server_and_is_noted(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.relay.admission.apply_config(GatewayConfig(calls_max=1))
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
    scene.relay.admission.apply_config(GatewayConfig(calls_max=0))

    scene.begin("tools/list", {})

    assert scene.local_methods.asked == ["tools/list"]


def test_calls_on_a_track_count_like_any_other(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    client = Client(scene, of("session"))
    load = scene.relay.admission.load_of(client.caller)
    assert load is not None
    client.prime()
    assert load.calls == 0
    scene.relay.admission.apply_config(GatewayConfig(client_calls_max=1))

    client.call(id=1)
    client.call(id=2)

    assert (client.tracked, load.calls) == (1, 1)
    assert "Too many calls at once" in client.wire.take_one()["error"]["message"]
    client.hear(plain_result(scene))
    assert load.calls == 0
    client.call(id=3)
    client.open[3].cancel()
    assert load.calls == 0
    assert client.tracked == 2


def test_the_track_is_left_when_the_gateway_is_full_or_a_call_is_large(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    client = Client(scene, of("session"))
    client.prime()
    scene.relay.admission.apply_config(GatewayConfig(calls_max=1))

    client.call({**PLAIN, "arguments": {"text": "x" * LARGE_BYTES}}, 1)
    assert scene.relay.admission.memory_budget.used_bytes > LARGE_BYTES
    client.call(id=2)

    assert client.tracked == 0
    assert "The gateway is busy" in client.wire.take_one()["error"]["message"]
    client.hear(plain_result(scene))
    assert scene.relay.admission.memory_budget.used_bytes == 0


def test_a_call_that_waits_for_its_turn_for_too_long_is_given_up_and_says_so(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    scene.server.connection.call_slots = CallSlots(1, 5, 3.0)
    first, second = scene.begin(), scene.begin()
    scene.calls.sweep(2.9)
    assert second.ending is None

    scene.calls.sweep(3.0)

    assert second.ending is not None and "no place became free" in second.ending
    [failed] = [told.fault for told in second.told if isinstance(told, Failed)]
    assert json.loads(failed.data or b"")["timeout"] == "queue"
    assert len(scene.server.channel.sent) == 1
    assert first.ending is None


def test_a_busy_server_is_told_with_the_time_to_come_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.server.connection.call_slots = CallSlots(1, 0, 3.0)
    scene.begin()

    refused = scene.begin()

    [failed] = [told.fault for told in refused.told if isinstance(told, Failed)]
    assert failed.situation is Situation.BUSY
    assert failed.retry_after is not None and failed.retry_after.seconds is not None
    assert scene.relay.admission.memory_budget.refusals == {"server": 1}
