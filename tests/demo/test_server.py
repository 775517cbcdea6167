"""Messages of every shape, both eras on one pipe, and the end of input."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from anyport.demo.server import main
from tests.demo.driver import LEGACY, MODERN, Demo, Json

PING: Json = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with Demo() as demo:
        demo.handshake()
        yield demo


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"hello", -32700),
        (b'"\xff"', -32700),
        (b"[" * 10_000, -32700),
        (b"1", -32600),
        (b"null", -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"1.0","method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","method":1}', -32600),
    ],
)
def test_what_is_no_message_is_refused_by_name_of_nobody(
    demo: Demo, line: bytes, code: int
) -> None:
    demo.send_bytes(line + b"\n")

    answer = demo.receive()

    assert answer["error"]["code"] == code
    assert "id" not in answer


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": None}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "no/such"}, -32601),
        ({"jsonrpc": "2.0", "id": "x", "method": "ping", "params": []}, -32602),
        ({"jsonrpc": "2.0", "id": "", "method": "ping", "params": {"_meta": 1}}, -32602),
    ],
)
def test_a_bad_request_with_an_id_is_refused_by_its_id(
    demo: Demo, message: Json, code: int
) -> None:
    demo.send(message)

    answer = demo.receive()

    assert (answer["id"], answer["error"]["code"]) == (message["id"], code)


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "no/such/notification"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": []}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "none"}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": ""}},
    ],
)
def test_what_asks_nothing_is_not_answered(demo: Demo, message: Json) -> None:
    demo.send(message)

    assert demo.ask("ping")["result"] == {}
    assert demo.seen == []


@pytest.mark.parametrize("identity", [0, -1, "", "é", "1", 2**70])
def test_an_id_comes_back_as_it_was(demo: Demo, identity: str | int) -> None:
    demo.send({**PING, "id": identity, "method": "no/such"})

    answer = demo.receive()

    assert (answer["id"], type(answer["id"])) == (identity, type(identity))


def test_carriage_returns_and_empty_lines_do_not_matter(demo: Demo) -> None:
    demo.send_bytes(b"\r\n\n  \n" + json.dumps({**PING, "method": "x"}).encode() + b"\r\n")

    assert demo.receive()["id"] == 1


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


def test_a_modern_request_in_a_batch_is_refused_and_a_cancelled_one_left_out() -> None:
    with Demo() as demo:
        demo.handshake("2025-03-26")
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        cancel = {"method": "notifications/cancelled", "params": {"requestId": "slow"}}
        demo.send(
            [
                {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": slow(60)},
                {"jsonrpc": "2.0", "id": "m", "method": "tools/list", "params": {"_meta": meta}},
                {"jsonrpc": "2.0", **cancel},
            ]
        )
        while isinstance(answers := line(demo), dict):
            pass

        assert [(each["id"], each["error"]["code"]) for each in answers] == [("m", -32600)]


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


def test_a_large_message_passes_both_ways() -> None:
    with Demo() as demo:
        demo.handshake()
        text = "é" * 1_000_000

        assert demo.call("echo", text=text)["content"][0]["text"] == text


def test_a_wrong_command_line_is_exit_code_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--nonsense"]) == 2
    assert "usage:" in capsys.readouterr().err


def slow(seconds: float) -> Json:
    return {"name": "slow", "arguments": {"seconds": seconds, "steps": 1}}


def line(demo: Demo) -> Any:
    received = demo.receive_line()
    assert received is not None
    return json.loads(received)
