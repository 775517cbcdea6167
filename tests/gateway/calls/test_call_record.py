"""What the record gets to know of a call."""

from pathlib import Path

import pytest

from tests.gateway.fakes import MODERN
from tests.gateway.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, capture="shape")


def test_the_revision_and_the_transport_of_the_server_are_recorded(tmp_path: Path) -> None:
    scene = Scene(tmp_path, capture="shape", revision=MODERN)
    asked = scene.begin()

    transcript = asked.exchange.transcript

    assert transcript is not None
    assert (transcript.server_revision, transcript.server_transport) == (MODERN.name, "stdio")


def test_the_time_of_the_server_is_recorded_and_the_time_in_its_queue_apart(scene: Scene) -> None:
    scene.now = 2.0
    asked = scene.begin()
    call = scene.calls.find(asked.exchange)
    assert call is not None
    assert call.pending is not None
    call.pending.admitted_at = 3.0
    scene.now = 10.0

    scene.answer(result={"content": []})

    transcript = asked.exchange.transcript
    assert transcript is not None
    assert (transcript.queued_seconds, transcript.server_seconds) == (1.0, 7.0)
    assert asked.exchange.server_seconds == 8.0
    assert (transcript.server_answer, transcript.server_failed) == (b'{"content": []}', False)


def test_an_error_of_the_server_is_recorded_as_one(scene: Scene) -> None:
    asked = scene.begin()

    scene.answer(error={"code": 1, "message": "no"})

    transcript = asked.exchange.transcript
    assert transcript is not None
    assert transcript.server_failed
    assert transcript.server_answer == b'{"code": 1, "message": "no"}'


def test_a_call_that_is_cancelled_has_taken_its_servers_time_until_then(scene: Scene) -> None:
    asked = scene.begin()
    scene.now = 5.0

    asked.exchange.cancel()

    assert asked.exchange.server_seconds == 5.0
    (event,) = scene.events
    assert event["status"] == "cancelled"
    assert event["metadata"]["server"] == "s"
