"""Places with a server: who works, who waits, who is turned away."""

import json

import pytest

from anyport.protocol.errors import Situation, Timeout
from anyport.protocol.memory_budget import LARGE_BYTES, MemoryBudget
from anyport.upstream.call_queue import CallSlots
from anyport.upstream.connection import Connection
from anyport.upstream.pending_call import Answer, CallSubject, NoAnswer, PendingCall
from anyport.wire import jsonrpc
from anyport.wire.jsonrpc import Result
from anyport.wire.lines import Overlong
from tests.upstream.fakes import FakeChannel, FakeClock, RecordingListener, connected, say

HOG, POLITE = "hog", "polite"


def ask(
    connection: Connection, who: object, answers: list[Answer] | None = None
) -> PendingCall | NoAnswer:
    heard = [] if answers is None else answers
    return connection.call("a", None, heard.append, None, CallSubject(client=who))


def crowded(calls: int = 2, queue: int = 3) -> tuple[Connection, FakeChannel]:
    """A connection with few places, all taken by the hog."""
    connection, channel, _ = connected()
    connection.clock = FakeClock(1.0)
    connection.call_slots = CallSlots(calls, queue, 30.0)
    for _ in range(calls):
        assert isinstance(ask(connection, HOG), PendingCall)
    return connection, channel


def numbers(channel: FakeChannel) -> list[int]:
    return [frame["id"] for frame in channel.sent if "id" in frame]


def test_calls_beyond_the_places_wait_until_one_is_free() -> None:
    connection, channel = crowded()
    waiting = ask(connection, HOG)
    assert isinstance(waiting, PendingCall)
    assert numbers(channel) == [1, 2]
    assert (connection.open_calls, connection.waiting_calls) == (3, 1)

    say(connection, id=2, result={})

    assert numbers(channel) == [1, 2, 3]
    assert waiting.admitted_at >= waiting.queued_at > 0
    assert connection.waiting_calls == 0


def test_clients_take_turns() -> None:
    connection, channel = crowded(1, 10)
    for who in (HOG, HOG, HOG, POLITE, "third"):
        ask(connection, who)

    for number in (1, 2, 5, 6, 3):
        say(connection, id=number, result={})

    assert numbers(channel) == [1, 2, 5, 6, 3, 4]


def test_a_call_too_many_is_refused_at_once() -> None:
    connection, _ = crowded(2, 1)
    assert isinstance(ask(connection, HOG), PendingCall)

    assert ask(connection, HOG) == NoAnswer("open calls: 2, waiting: 1", Situation.BUSY)
    assert connection.open_calls == 3


def test_who_has_most_waiting_makes_room_for_somebody_who_has_less() -> None:
    connection, channel = crowded(1, 3)
    fates: list[list[Answer]] = [[], [], []]
    for fate in fates:
        ask(connection, HOG, fate)

    newcomer = ask(connection, POLITE)

    assert isinstance(newcomer, PendingCall)
    assert fates[:2] == [[], []]
    assert isinstance(fates[2][0], NoAnswer) and fates[2][0].situation is Situation.BUSY
    assert connection.waiting_calls == 3
    say(connection, id=1, result={})
    say(connection, id=2, result={})
    assert numbers(channel) == [1, 2, newcomer.number]


def test_nobody_is_displaced_for_one_who_has_as_much() -> None:
    connection, _ = crowded(1, 2)
    ask(connection, HOG)
    assert isinstance(ask(connection, POLITE), PendingCall)

    assert isinstance(ask(connection, "third"), NoAnswer)
    assert connection.waiting_calls == 2


def test_what_the_gateway_asks_for_itself_takes_no_place_and_never_waits() -> None:
    connection, channel = crowded(1, 1)
    ask(connection, HOG)
    assert isinstance(ask(connection, HOG), NoAnswer)

    own = connection.call("tools/list", None, lambda _: None)

    assert isinstance(own, PendingCall)
    assert numbers(channel)[-1] == own.number
    say(connection, id=own.number, result={})
    assert connection.call_slots.used == 1
    assert connection.waiting_calls == 1


def test_cancelling_frees_a_place_and_a_waiting_call_is_never_sent() -> None:
    connection, channel = crowded(2, 5)
    waiting, last = ask(connection, HOG), ask(connection, HOG)
    assert isinstance(waiting, PendingCall) and isinstance(last, PendingCall)

    connection.cancel(waiting, None)
    assert numbers(channel) == [1, 2]
    connection.cancel(channel.calls[0], None)

    assert numbers(channel) == [1, 2, last.number]
    assert connection.waiting_calls == 0


@pytest.mark.parametrize("seconds, given_up", [(29.9, False), (30.0, True)])
def test_a_call_that_waits_for_too_long_is_given_up_and_never_sent(
    seconds: float, given_up: bool
) -> None:
    connection, channel = crowded()
    answers: list[Answer] = []
    call = ask(connection, POLITE, answers)
    assert isinstance(call, PendingCall)

    connection.expire_queued(call, call.queued_at + seconds)

    wanted = [NoAnswer("30s", Situation.TIMED_OUT, timeout=Timeout.QUEUE)] if given_up else []
    assert answers == wanted
    say(connection, id=1, result={})
    assert (call.number in numbers(channel)) is not given_up


def test_a_call_that_is_being_worked_on_is_not_given_up_for_having_waited() -> None:
    connection, _ = crowded()
    answers: list[Answer] = []
    call = ask(connection, POLITE, answers)
    assert isinstance(call, PendingCall)
    say(connection, id=1, result={})

    connection.expire_queued(call, call.queued_at + 1000)

    assert answers == []


def test_the_end_reaches_every_call_open_or_waiting_and_later_ones_at_once() -> None:
    connection, _, listener = connected()
    connection.call_slots = CallSlots(2, 10, 30.0)
    answers: list[Answer] = []
    for _ in range(12):
        ask(connection, HOG, answers)

    connection.end("exit code 1")
    connection.end("something else")

    later = ask(connection, HOG, answers)
    assert isinstance(later, NoAnswer)
    reasons = [answer.reason for answer in (*answers, later) if isinstance(answer, NoAnswer)]
    assert reasons == ["exit code 1"] * 13
    assert listener.ends == 1
    assert (
        connection.open_calls == connection.call_slots.used == len(connection.call_slots.queue) == 0
    )


def test_connections_to_one_server_share_its_places() -> None:
    slots = CallSlots(2, 10, 30.0)
    pairs = [connected() for _ in range(2)]
    for connection, _, _ in pairs:
        connection.call_slots = slots
    (first, _, _), (second, two, _) = pairs
    ask(first, HOG)
    ask(first, HOG)
    waiting = ask(second, POLITE)
    assert isinstance(waiting, PendingCall)
    assert two.sent == []

    say(first, id=1, result={})

    assert numbers(two) == [waiting.number]
    ask(second, POLITE)
    first.end("it is gone")
    assert len(numbers(two)) == 2
    assert slots.used == 2


@pytest.mark.parametrize("plain", [True, False])
def test_a_large_answer_for_which_there_is_no_room_is_told_as_that(plain: bool) -> None:
    connection, _, _ = connected()
    connection.memory_budget = room = MemoryBudget(2 * LARGE_BYTES)
    room.used_bytes = 2 * LARGE_BYTES
    answers: list[Answer] = []
    ask(connection, HOG, answers)
    ask(connection, HOG, answers)
    text = "x" * (LARGE_BYTES + 1)
    told = {"jsonrpc": "2.0", "id": 1, "result": {"content": [], "text": text}}
    raw = json.dumps(told, separators=(",", ":") if plain else None).encode()

    connection.receive(raw)
    say(connection, id=2, result={"content": []})

    lost, small = answers
    assert isinstance(lost, NoAnswer) and lost.situation is Situation.OVERLOADED
    assert "the call was carried out" in lost.reason
    assert isinstance(small, Result)
    assert connection.call_slots.used == 0


def test_what_the_gateway_asks_for_itself_is_taken_even_so() -> None:
    connection, _, _ = connected()
    connection.memory_budget = MemoryBudget(0)
    answers: list[Answer] = []
    connection.call("tools/list", None, answers.append)

    say(connection, id=1, result={"text": "x" * (LARGE_BYTES + 1)})

    assert isinstance(answers[0], Result)


def test_an_answer_that_was_dropped_on_the_way_is_told_by_its_reason() -> None:
    connection = Connection(FakeChannel(), RecordingListener(), jsonrpc.OUTBOUND, FakeClock())
    answers: list[Answer] = []
    for _ in range(2):
        ask(connection, HOG, answers)
    limit = jsonrpc.OUTBOUND.bytes_max

    connection.receive(Overlong(limit, b'{"jsonrpc":"2.0","id":1,"result":{}}'))
    connection.receive(Overlong(limit + 1, b'{"jsonrpc":"2.0","id":2,"result":{}}'))

    assert [answer.situation for answer in answers if isinstance(answer, NoAnswer)] == [
        Situation.OVERLOADED,
        Situation.MISBEHAVED,
    ]
