"""Whose turn it is: properties that hold whoever comes and goes."""

from collections import Counter, defaultdict
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from anyport.config.model import ServerConfig
from anyport.upstream.call_queue import CallSlots, FairQueue, call_slots_of
from anyport.upstream.connection import Connection
from anyport.upstream.pending_call import PendingCall

CLIENTS = "abcde"
steps = st.lists(st.tuples(st.sampled_from(["add", "take", "drop"]), st.sampled_from(CLIENTS)))


class SlotRecorder:
    """A connection that records which calls got a slot."""

    def __init__(self) -> None:
        self.admitted: list[PendingCall] = []

    def on_slot(self, call: PendingCall) -> None:
        self.admitted.append(call)


def test_nobody_waits_behind_another_clients_second_call() -> None:
    queue: FairQueue[str] = FairQueue()
    for one in ("a1", "a2", "a3", "b1", "c1", "c2"):
        queue.add(one[0], one)

    assert [queue.take() for _ in range(6)] == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert len(queue) == 0


@given(steps)
def test_all_come_out_once_in_their_clients_order_and_the_count_is_right(
    script: list[tuple[str, str]],
) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    waiting: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for number, (step, who) in enumerate(script):
        if step == "add":
            queue.add(who, (who, number))
            waiting[who].append((who, number))
        elif step == "take" and len(queue):
            one = queue.take()
            assert one == waiting[one[0]].pop(0)
        elif step == "drop" and waiting[who]:
            queue.drop(who, waiting[who].pop())
        assert len(queue) == sum(map(len, waiting.values()))
        assert all(queue.count_of(who) == len(waiting[who]) for who in CLIENTS)


@given(st.lists(st.sampled_from(CLIENTS), min_size=1))
def test_between_two_turns_of_a_client_every_other_that_waits_has_one(arrivals: list[str]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number, who in enumerate(arrivals):
        queue.add(who, (who, number))
    order = [queue.take()[0] for _ in arrivals]

    left = Counter(arrivals)
    since: dict[str, set[str]] = {}
    for who in order:
        others = {other for other in CLIENTS if other != who and left[other] > 0}
        assert who not in since or since[who] >= others & (since[who] | others)
        assert who not in since or others <= since[who]
        left[who] -= 1
        for known in since.values():
            known.add(who)
        since[who] = set()


@given(st.lists(st.sampled_from(CLIENTS), min_size=1), st.sampled_from(CLIENTS))
def test_who_gives_way_has_more_than_the_newcomer_will_have(arrivals: list[str], who: str) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for number, each in enumerate(arrivals):
        queue.add(each, (each, number))
    before = Counter(arrivals)

    displaced = queue.displace(who)

    most = max(before.values())
    if displaced is None:
        assert most <= before[who] + 1
        assert len(queue) == len(arrivals)
    else:
        greedy, number = displaced
        assert before[greedy] == most > before[who] + 1
        assert number == max(at for at, each in enumerate(arrivals) if each == greedy)
        assert queue.count_of(greedy) == most - 1 >= before[who] + 1


def test_nobody_gives_way_where_nobody_waits() -> None:
    queue: FairQueue[str] = FairQueue()

    assert queue.displace("a") is None
    queue.drop("a", "never came")
    assert len(queue) == 0


def test_free_places_go_to_those_whose_turn_it_is() -> None:
    slots = CallSlots(2, 3, 1.0)
    connection = SlotRecorder()
    for client in ("a", "a", "b"):
        call = PendingCall("tools/call", lambda _: None, client=client)
        call.connection = cast(Connection, connection)
        slots.queue.add(client, call)
    slots.used = 2
    assert slots.full
    assert slots.summary == "open calls: 2, waiting: 3"

    slots.admit()
    assert connection.admitted == []
    slots.used = 0
    slots.admit()

    assert [call.client for call in connection.admitted] == ["a", "b"]
    assert slots.used == 2
    assert not slots.full


def test_the_configuration_says_how_many() -> None:
    config = ServerConfig(slug="x", name="x", calls_max=3, queue_max=4, queue_seconds=5.0)

    slots = call_slots_of(config)

    assert (slots.calls_max, slots.queue_max, slots.queue_seconds) == (3, 4, 5.0)
