"""What is a message, and what is not."""

from typing import Any

import pytest

from anyport.demo.calls import Request
from anyport.demo.faults import Fault
from anyport.demo.headers import Headers
from anyport.demo.messages import (
    Notification,
    Reply,
    decode,
    error,
    identity_of,
    read_message,
    result,
)


@pytest.mark.parametrize("text", [b"", b"{", b'"\xff"', b"[" * 10_000])
def test_what_is_not_json_is_a_fault(text: bytes) -> None:
    with pytest.raises(Fault, match="not valid JSON"):
        decode(text)


def test_messages_are_told_apart_by_their_members() -> None:
    headers = Headers([])
    request = read_message({"jsonrpc": "2.0", "id": "1", "method": "m"}, headers)

    assert request == Request(identity="1", method="m", params={}, headers=headers)
    notice = {"jsonrpc": "2.0", "method": "m", "params": [1]}
    assert read_message(notice) == Notification(method="m", params=[1])
    for member in ("result", "error"):
        reply = {"jsonrpc": "2.0", "id": 1, member: {}}
        assert read_message(reply) == Reply(message=reply)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (1, -32600),
        ({"id": 1, "method": "m"}, -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "m"}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "m"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "m", "params": []}, -32602),
    ],
)
def test_what_is_no_message_is_a_fault(message: Any, code: int) -> None:
    with pytest.raises(Fault) as fault:
        read_message(message)

    assert fault.value.code == code


def test_an_answer_to_nobody_has_no_id_or_null() -> None:
    fault = Fault(1, "x")
    body = {"code": 1, "message": "x"}

    assert result(7, {"a": 1}) == {"jsonrpc": "2.0", "id": 7, "result": {"a": 1}}
    assert error(7, fault) == {"jsonrpc": "2.0", "id": 7, "error": body}
    assert error(None, fault) == {"jsonrpc": "2.0", "error": body}
    assert error(None, fault, null_id=True) == {"jsonrpc": "2.0", "id": None, "error": body}


@pytest.mark.parametrize(
    ("decoded", "identity"), [({"id": 1}, 1), ({"id": ""}, ""), ({"id": True}, None), ([1], None)]
)
def test_a_bad_message_may_still_have_an_id(decoded: Any, identity: object) -> None:
    assert identity_of(decoded) == identity
