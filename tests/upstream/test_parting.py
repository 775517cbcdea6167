"""What becomes of calls when their connection ends."""

from anyport.upstream.call import Answer, Lost
from anyport.upstream.parting import BROKEN, STOPPED, Parting, numbers
from anyport.upstream.sign import Again, Sign
from anyport.wire import codec
from tests.upstream.fakes import connected


def test_what_was_sent_may_have_been_done_and_what_was_not_cannot() -> None:
    assert BROKEN.sent("gone") == Lost("gone", sign=Sign.ACCIDENT, again=Again.IF_SAFE)
    assert BROKEN.unsent("gone") == Lost("gone", sign=Sign.NONE, again=Again.ALWAYS)


def test_nothing_is_learned_from_an_end_that_was_wanted() -> None:
    assert STOPPED.sent("enough") == STOPPED.unsent("enough") == Lost("enough")


def test_only_requests_of_ours_are_told_from_lines() -> None:
    lines = [
        codec.request(b"12", "tools/call", b'{"id":7}'),
        codec.request(b"13", "ping", None),
        codec.notification("notifications/cancelled", b'{"requestId":14}'),
        codec.result(b"15", b"{}"),
        codec.failure(b"16", codec.error(-1, "no")),
        b"",
    ]

    assert numbers(lines) == {12, 13}


def test_calls_that_were_never_written_are_told_apart() -> None:
    connection, _, _ = connected()
    answers: list[Answer] = []
    for _ in range(3):
        connection.call("ping", None, answers.append)

    connection.end("gone", Parting(unwritten=frozenset({2})))

    assert answers == [BROKEN.sent("gone"), BROKEN.unsent("gone"), BROKEN.sent("gone")]
    assert connection.call("ping", None, answers.append) == BROKEN.unsent("gone")
