"""Messages of every form, both eras on one pipe, and the end of input."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.peers.driver import LEGACY, Demo, Json

PING: Json = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with Demo() as demo:
        demo.handshake()
        yield demo


@pytest.mark.parametrize("revision", LEGACY)
def test_only_one_revision_has_batches(revision: str) -> None:
    with Demo() as demo:
        demo.handshake(revision)
        calls: list[Any] = [
            {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": slow(0.01)},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {**PING, "id": "ping"},
            {"jsonrpc": "2.0", "id": "again", "method": "initialize"},
            7,
        ]
        demo.send(calls)
        while isinstance(answer := line(demo), dict) and "method" in answer:
            pass  # The slow call logs what it does.

        if revision != "2025-03-26":
            assert answer["error"]["code"] == -32600
            # An answer to nobody has an id in the older revisions, and it is null.
            assert ("id" in answer) is (revision != "2025-11-25")
            assert answer.get("id") is None
            return
        assert {each["id"]: each.get("error", {}).get("code") for each in answer} == {
            "slow": None,
            "ping": None,
            "again": -32600,
            None: -32600,
        }
        demo.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}])
        demo.send([])
        assert line(demo)["error"]["code"] == -32600


def test_both_eras_share_a_pipe() -> None:
    with Demo() as demo:
        assert "result" in demo.ask_modern("server/discover")
        demo.handshake("2024-11-05")

        assert "resultType" in demo.ask_modern("tools/list")["result"]
        assert "resultType" not in demo.ask("tools/list")["result"]
        demo.ask_modern("tools/call", {"name": "grow"})
        assert [m["method"] for m in demo.seen] == ["notifications/tools/list_changed"]


@pytest.mark.parametrize("modern", [False, True])
def test_a_cancelled_call_is_never_answered(modern: bool) -> None:
    with Demo() as demo:
        demo.handshake()
        send = demo.request_modern if modern else demo.request
        call = send("tools/call", {**slow(60), "_meta": {"progressToken": 1}})

        demo.notify("notifications/cancelled", {"requestId": call})

        assert demo.ask("ping")["result"] == {}
        assert demo.finish() == 0
        assert [m for m in demo.seen if "id" in m] == []


def test_an_id_in_use_cannot_be_used_twice() -> None:
    with Demo() as demo:
        demo.handshake()
        request = {"jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": slow(60)}
        demo.send(request)
        demo.send({**PING, "id": "same"})

        answer = demo.answer_to("same")

        assert answer["error"]["code"] == -32600


def test_calls_in_flight_are_finished_at_the_end_of_input() -> None:
    with Demo() as demo:
        demo.handshake()
        calls = [demo.request("tools/call", slow(0.05)) for _ in range(3)]

        assert demo.finish() == 0
        assert [m["id"] for m in demo.seen if "result" in m] == calls


def test_a_discovery_can_be_deadly() -> None:
    with Demo("--die-on-discover") as demo:
        demo.request_modern("server/discover")

        assert demo.receive_line() is None
        assert demo.exit_code() == 1


def test_noise_comes_before_the_first_message() -> None:
    with Demo("--noise", "--slow-start", "0.01") as demo:
        demo.send({**PING, "method": "no/such"})
        lines = [demo.receive_line() for _ in range(4)]

        for noise in lines[:3]:
            assert noise is not None
            with pytest.raises(ValueError, match="Expecting value"):
                json.loads(noise)
        assert lines[3] is not None
        assert json.loads(lines[3])["id"] == 1


def slow(seconds: float) -> Json:
    return {"name": "slow", "arguments": {"seconds": seconds, "steps": 1}}


def line(demo: Demo) -> Any:
    received = demo.receive_line()
    assert received is not None
    return json.loads(received)
