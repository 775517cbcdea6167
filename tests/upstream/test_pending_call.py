"""What is known of a call before it is made, and what may come of it."""

from anyport.protocol.errors import Situation
from anyport.upstream.pending_call import (
    BROKEN,
    GATEWAY_ITSELF,
    STOPPED,
    Answer,
    CallOutcome,
    CallSubject,
    CallTemplate,
    ConnectionEnd,
    NoAnswer,
    PendingCall,
    Retryable,
    RetryAfterFailure,
    answer_over_budget,
    call_numbers,
)
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Failure
from tests.upstream.fakes import connected


def test_a_form_is_filled_with_an_id_and_arguments() -> None:
    form = CallTemplate("echo", b'{"id":%d,"arguments":%b}', wants_progress=False)

    assert form.fill(7, b'{"a":1}') == b'{"id":7,"arguments":{"a":1}}'


def test_one_that_asks_for_progress_names_the_id_as_its_token() -> None:
    form = CallTemplate("echo", b'{"id":%d,"arguments":%b,"token":%d}', wants_progress=True)

    assert form.fill(7, b"{}") == b'{"id":7,"arguments":{},"token":7}'


def test_what_the_gateway_asks_for_itself_concerns_nobody() -> None:
    assert CallSubject() == GATEWAY_ITSELF
    assert GATEWAY_ITSELF.client is None


def test_two_calls_are_never_the_same() -> None:
    calls = [PendingCall("ping", lambda _: None) for _ in range(2)]

    assert calls[0] != calls[1]
    assert len(set(calls)) == 2


def test_an_answer_that_could_not_be_kept_is_not_asked_for_again() -> None:
    lost = answer_over_budget(1000)

    assert lost.situation is Situation.OVERLOADED
    assert lost.reason == "1000 bytes; the call was carried out"
    assert (lost.outcome, lost.retryable) == (CallOutcome.GOOD, Retryable.NEVER), (
        "the server did its work"
    )


def test_what_was_sent_may_have_been_done_and_what_was_not_cannot() -> None:
    assert BROKEN.result_for_sent("gone") == NoAnswer(
        "gone", outcome=CallOutcome.CONNECTION_LOST, retryable=Retryable.IF_SAFE
    )
    assert BROKEN.result_for_unsent("gone") == NoAnswer(
        "gone", outcome=CallOutcome.NONE, retryable=Retryable.ALWAYS
    )


def test_nothing_is_learned_from_an_end_that_was_wanted() -> None:
    assert (
        STOPPED.result_for_sent("enough")
        == STOPPED.result_for_unsent("enough")
        == NoAnswer("enough")
    )


def test_only_requests_of_ours_are_told_from_lines() -> None:
    lines = [
        jsonrpc.encode_request(b"12", "tools/call", b'{"id":7}'),
        jsonrpc.encode_request(b"13", "ping", None),
        jsonrpc.encode_notification("notifications/cancelled", b'{"requestId":14}'),
        jsonrpc.encode_result(b"15", b"{}"),
        jsonrpc.encode_failure(b"16", jsonrpc.encode_error(-1, "no")),
        b"",
    ]

    assert call_numbers(lines) == {12, 13}


def test_calls_that_were_never_written_are_told_apart() -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    for _ in range(3):
        connection.call("ping", None, answers.append)

    connection.end("gone", ConnectionEnd(unsent_calls=frozenset({2})))

    assert answers == [
        BROKEN.result_for_sent("gone"),
        BROKEN.result_for_unsent("gone"),
        BROKEN.result_for_sent("gone"),
    ]
    assert connection.call("ping", None, answers.append) == BROKEN.result_for_unsent("gone")


def test_an_error_that_says_when_is_an_error_like_any_other() -> None:
    answer = RetryAfterFailure(b"1", b'{"code":1,"message":"later"}', 3.0)

    match answer:
        case Failure(id=id, error=error):
            assert (id, error) == (b"1", b'{"code":1,"message":"later"}')
    assert answer.retry_after == 3.0
