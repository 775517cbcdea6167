"""How talkative the server of a session is to be."""

import pytest

from anyport.upstream.level import raise_level, set_level
from tests.upstream.fakes import LEGACY, MODERN, FakeChannel, connected, peer_of, say


def levels(channel: FakeChannel) -> list[str]:
    assert {frame["method"] for frame in channel.sent} <= {"logging/setLevel"}
    return [frame["params"]["level"] for frame in channel.sent]


def test_a_server_is_told_the_level_and_then_it_goes_on() -> None:
    connection, channel, _ = connected(LEGACY)
    went: list[str] = []

    raise_level(connection, "debug", lambda: went.append("on"))
    assert went == []
    say(connection, id=1, error={"code": -32601, "message": "no"})

    assert (levels(channel), went) == (["debug"], ["on"])


def test_a_server_that_says_enough_is_told_nothing() -> None:
    connection, channel, _ = connected(LEGACY)
    set_level(connection, "info")
    went: list[str] = []

    for level in ("info", "warning"):
        raise_level(connection, level, lambda: went.append("on"))
    assert (levels(channel), went) == (["info"], ["on", "on"])
    raise_level(connection, "debug", lambda: went.append("late"))

    assert (levels(channel), went) == (["info", "debug"], ["on", "on"])


@pytest.mark.parametrize("how", ["modern", "mute", "gone"])
def test_a_server_that_cannot_be_told_keeps_nobody_waiting(how: str) -> None:
    connection, channel, _ = connected(MODERN if how == "modern" else LEGACY)
    if how == "mute":
        connection.peer = peer_of(LEGACY, tools={})
    if how == "gone":
        connection.end("gone")
    went: list[str] = []

    raise_level(connection, "debug", lambda: went.append("on"))

    assert (channel.sent, went) == ([], ["on"])
