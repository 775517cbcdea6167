"""Which calls leave a track behind for the next."""

from pathlib import Path
from typing import Any

import pytest

from anyport.gateway.calls.fast_path import FAST_PATHS_MAX, FastPath
from tests.gateway.calls.fast_paths import ERAS, PLAIN, Client, by, plain_result
from tests.gateway.scene import Scene


@pytest.fixture(params=ERAS, ids=lambda revision: revision.era.value)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Client:
    return Client(Scene(tmp_path), by(request.param))


def tracks(client: Client) -> list[FastPath]:
    return [kept for kept in client.caller.cache.values() if isinstance(kept, FastPath)]


def call(client: Client, params: Any = PLAIN) -> None:
    client.call(params, 2)
    client.hear(plain_result(client.scene))


def test_a_call_that_was_answered_leaves_one(client: Client) -> None:
    assert tracks(client) == []

    call(client)

    (track,) = tracks(client)
    assert (track.public, track.native) == ("s__echo", "echo")
    assert track.server is client.scene.server
    assert track.breaker is client.scene.server.health.breaker


def test_the_same_call_again_leaves_the_one_there_is(client: Client) -> None:
    call(client)
    before = tracks(client)

    call(client)

    assert tracks(client) == before
    assert tracks(client)[0] is before[0]


def test_a_call_that_failed_leaves_none(client: Client) -> None:
    client.call(PLAIN, 2)

    client.scene.server.connection.end("exit code 1")

    assert tracks(client) == []


def test_a_caller_with_many_names_leaves_no_more(client: Client) -> None:
    client.caller.cache.update(dict.fromkeys(range(FAST_PATHS_MAX)))

    call(client)

    assert tracks(client) == []
