"""Batches: one revision has them, and their answers come together when the last is there."""

from typing import Any

import pytest

from anyport.protocol.batch import BATCH_MAX
from anyport.protocol.exchange import Answered
from tests.protocol.fakes import META, Talk, request


def batching() -> Talk:
    talk = Talk()
    talk.shake_hands("2025-03-26")
    return talk


def cancelled(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25"])
def test_a_revision_without_batches_refuses_them_once(revision: str) -> None:
    talk = Talk()
    talk.shake_hands(revision)

    (answer,) = talk.say([request("ping", id=1), request("ping", id=2)])

    assert answer["error"]["code"] == -32600
    assert revision in answer["error"]["message"]
    assert talk.relay.exchanges == []


@pytest.mark.parametrize("talk", [Talk(), batching()], ids=["no session", "2025-03-26"])
def test_the_answers_of_a_batch_come_together_when_the_last_is_there(talk: Talk) -> None:
    talk.say([request("ping", id=1), request("ping", id="b"), request("nonsense", id=3)])
    first, second = talk.relay.exchanges

    second.end(Answered(b"{}"))
    assert talk.wire.take() == []
    first.end(Answered(b"{}"))

    answers = talk.wire.take_one()
    assert {answer["id"]: "error" in answer for answer in answers} == {
        3: True,
        "b": False,
        1: False,
    }


def test_answers_that_are_there_at_once_wait_for_the_whole_batch_to_be_read() -> None:
    talk = batching()
    talk.relay.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    (answers,) = talk.say([request("ping", id=1), request("ping", id=2)])

    assert [answer["id"] for answer in answers] == [1, 2]


def test_a_batch_of_notifications_has_no_answer() -> None:
    talk = batching()

    assert talk.say([{"jsonrpc": "2.0", "method": "notifications/x"}] * 3) == []
    assert len(talk.relay.notifications) == 3


def test_what_is_wrong_in_a_batch_is_answered_in_its_place() -> None:
    talk = batching()
    talk.relay.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    (answers,) = talk.say(
        [
            1,
            [],
            {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/x", "params": 7},
            {"jsonrpc": "2.0", "id": 9, "result": {}},
            request("ping", id="fine"),
        ]
    )

    assert [answer["id"] for answer in answers] == [None, None, None, "fine"]
    assert [answer["error"]["code"] for answer in answers[:3]] == [-32600] * 3


def test_a_handshake_inside_a_batch_is_refused() -> None:
    talk = Talk()

    (answers,) = talk.say([request("initialize", {"protocolVersion": "2025-03-26"})])

    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(1, -32600)]
    assert talk.conversation.session is None


def test_a_modern_request_inside_a_batch_is_refused() -> None:
    talk = batching()

    (answers,) = talk.say([request("tools/list", {"_meta": META}, 1)])

    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(1, -32600)]
    assert talk.relay.exchanges == []


@pytest.mark.parametrize("raw", [b"[]", b"[ ]", b"[1", b"[" * 200])
def test_what_is_no_batch_at_all_is_answered_by_one_object(raw: bytes) -> None:
    (answer,) = batching().say(raw)

    assert isinstance(answer, dict)
    assert answer["error"]["code"] in (-32600, -32700)


def test_a_hundred_messages_are_a_batch_and_one_more_are_not() -> None:
    talk = batching()
    talk.relay.on_begin = lambda exchange: exchange.end(Answered(b"{}"))

    (answers,) = talk.say([request("ping", id=number) for number in range(BATCH_MAX)])
    (refusal,) = talk.say([request("ping", id=number) for number in range(BATCH_MAX + 1)])

    assert len(answers) == BATCH_MAX == 100
    assert refusal["error"]["code"] == -32600
    assert len(talk.relay.exchanges) == BATCH_MAX


def test_a_batch_does_not_wait_for_what_was_cancelled() -> None:
    talk = batching()
    talk.say([request("ping", id=1), request("ping", id=2)])
    talk.relay.exchanges[0].end(Answered(b"{}"))

    (answers,) = talk.say(cancelled(2))

    assert [answer["id"] for answer in answers] == [1]
    talk.relay.exchanges[1].end(Answered(b"{}"))
    assert talk.wire.take() == []


def test_a_batch_of_which_all_was_cancelled_has_no_answer() -> None:
    talk = batching()
    talk.say([request("ping", id=1), request("ping", id=2)])

    assert talk.say(cancelled(1), cancelled(2)) == []
    assert talk.conversation.open_requests == 0


def test_a_request_may_be_cancelled_by_its_own_batch() -> None:
    talk = batching()
    talk.say([request("ping", id=1), cancelled(1), request("ping", id=2)])

    talk.relay.exchanges[1].end(Answered(b"{}"))

    assert [answer["id"] for answer in talk.wire.take_one()] == [2]


def test_an_id_that_stands_twice_in_a_batch_is_answered_twice_and_runs_once() -> None:
    talk = batching()

    talk.say([request("ping", id=1), request("ping", id=1)])
    talk.relay.last.end(Answered(b"{}"))

    answers = talk.wire.take_one()
    assert [("error" in answer, answer["id"]) for answer in answers] == [(True, 1), (False, 1)]
    assert len(talk.relay.exchanges) == 1
