"""What ends a call whose time is over: which time it was is told to everybody who asks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anyport.gateway.calls.deadline import USER_INPUT_SECONDS_MAX
from anyport.protocol.capabilities import client_capabilities
from anyport.protocol.errors import Situation, Timeout
from anyport.protocol.exchange import Failed, Question
from anyport.upstream.pending_call import CallOutcome, NoAnswer
from anyport.upstream.supervisor import NotReady
from tests.gateway.fakes import MODERN, Asked, caller
from tests.gateway.scene import Scene
from tests.upstream.fakes import say


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def fault_of(asked: Asked) -> tuple[str, Timeout | None]:
    ending = asked.told[-1]
    assert isinstance(ending, Failed)
    return ending.fault.message, ending.fault.timeout


def noted(scene: Scene) -> dict[str, Any]:
    """The last event."""
    event = scene.events[-1]
    return {
        "status": event["status"],
        "timeout": event["metadata"].get("timeout"),
        "error_code": event["error_code"],
    }


def counted(scene: Scene) -> dict[str, int]:
    return {timeout.value: count for timeout, count in scene.metrics.timeouts.items() if count}


def timed_out(name: str) -> dict[str, Any]:
    return {"status": "timeout", "timeout": name, "error_code": -32000}


def test_a_call_without_a_sign_of_life_is_over_after_its_own_time(scene: Scene) -> None:
    asked = scene.begin()

    scene.calls.sweep(60.0)

    assert fault_of(asked) == ("Tool execution timeout (60s)", Timeout.TOTAL)
    assert noted(scene) == timed_out("total")
    assert counted(scene) == {"total": 1}


def test_a_call_that_reports_all_the_time_is_over_in_the_end(scene: Scene) -> None:
    asked = Asked(params={"name": "s__echo", "_meta": {"progressToken": "t"}})
    asked.exchange.progress_token = b'"t"'
    scene.relay.begin(asked.exchange)
    for number in range(1, 14):
        scene.now = 45.0 * number
        params = {"progressToken": 1, "progress": number}
        say(scene.server.connection, method="notifications/progress", params=params)
        scene.calls.sweep(scene.now)
    assert len(asked.told) == 13

    scene.calls.sweep(600.0)

    words = "Tool execution timeout (600s in all, the timeoutMax of server 's')"
    assert fault_of(asked) == (words, Timeout.CAP)
    assert scene.server.channel.sent[-1]["method"] == "notifications/cancelled"
    assert noted(scene) == timed_out("cap")
    assert counted(scene) == {"cap": 1}


def test_a_person_who_never_answers_ends_the_call_and_speaks_for_the_server(scene: Scene) -> None:
    asked = scene.begin()
    asked.exchange.questions += (Question("elicitation/create", None, lambda _: None),)
    for now in range(0, int(USER_INPUT_SECONDS_MAX), 50):
        scene.calls.sweep(float(now))
    assert asked.told == []

    scene.calls.sweep(USER_INPUT_SECONDS_MAX)

    words = "Tool execution timeout: the question of server 's' was not answered within 600s"
    assert fault_of(asked) == (words, Timeout.ANSWER)
    assert noted(scene) == timed_out("answer")
    assert counted(scene) == {"answer": 1}
    assert scene.server.health.breaker.failures == 0


def test_a_call_that_waits_in_vain_for_its_turn_is_over_before_it_is_sent(scene: Scene) -> None:
    scene.server.connection.call_slots.calls_max = 1
    scene.begin()
    asked = scene.begin()

    scene.calls.sweep(30.0)

    words = "Server 's' is busy: no place became free for this call within 30s"
    assert fault_of(asked) == (words, Timeout.QUEUE)
    assert len(scene.server.channel.sent) == 1
    assert noted(scene) == timed_out("queue")
    assert counted(scene) == {"queue": 1}


def test_a_gateway_that_cannot_wait_any_longer_says_so(scene: Scene) -> None:
    asked = [scene.begin(), scene.begin()]

    scene.calls.expire_all(Timeout.DRAIN)

    words = "The gateway is stopping, and server 's' has not answered in time"
    assert [fault_of(each) for each in asked] == [(words, Timeout.DRAIN)] * 2
    assert noted(scene) == timed_out("drain")
    assert counted(scene) == {"drain": 2}
    assert scene.at_rest()


@pytest.mark.parametrize(
    ("timeout", "reason", "words"),
    [
        (Timeout.CONNECT, "no connection within 5 s", "Server 's' is not running: {}"),
        (Timeout.FIRST_BYTE, "failed to answer: no reply began", "Server 's' {}"),
        (Timeout.STREAM_IDLE, "failed to answer: it sent nothing", "Server 's' {}"),
    ],
)
def test_what_the_way_to_the_server_says_is_passed_on(
    scene: Scene, timeout: Timeout, reason: str, words: str
) -> None:
    asked = scene.begin()
    call = scene.server.connection._open[1]

    scene.server.connection.settle(
        call, NoAnswer(reason, Situation.TIMED_OUT, CallOutcome.BAD, timeout=timeout)
    )

    assert fault_of(asked) == (words.format(reason), timeout)
    assert noted(scene) == timed_out(timeout.value)


def test_a_server_that_did_not_get_ready_in_time_is_told_as_that(scene: Scene) -> None:
    scene.server.waiting = []
    scene.server.late_reasons["it was too slow"] = Timeout.HANDSHAKE
    asked = scene.begin()

    scene.server.waiting[0](NotReady("it was too slow"))

    assert fault_of(asked) == ("Server 's' is not running: it was too slow", Timeout.HANDSHAKE)
    assert noted(scene) == timed_out("handshake")


def test_the_time_in_which_a_client_fetches_an_answer_is_not_counted(scene: Scene) -> None:
    capabilities = client_capabilities(b'{"roots":{}}')
    assert capabilities is not None
    by = replace(caller(None, MODERN), capabilities=capabilities)
    params = {"name": "s__echo", "arguments": {}}
    asked = scene.begin(params=params, by=by)
    scene.ask_client(asked, Question("roots/list", None, lambda _: None))
    scene.clock.pass_by()
    scene.now = 569.0

    answered = {**params, "inputResponses": {"q1": {"roots": []}}}
    state = asked.ending["requestState"]
    back = scene.begin(params={**answered, "requestState": state}, by=by)
    scene.calls.sweep(628.0)
    assert not back.exchange.ended
    scene.calls.sweep(629.0)

    assert fault_of(back) == ("Tool execution timeout (60s)", Timeout.TOTAL)
