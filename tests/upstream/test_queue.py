"""Whose turn it is: properties that hold whoever comes and goes."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from anyport.config.schema import ServerConfig
from anyport.upstream.queue import Places, Turns, places_of

CLIENTS = "abcde"
steps = st.lists(st.tuples(st.sampled_from(["add", "take", "drop"]), st.sampled_from(CLIENTS)))


@dataclass(eq=False)
class Waiter:
    who: object
    home: Any = None
    went: list["Waiter"] = field(default_factory=list)

    def go(self, one: "Waiter") -> None:
        self.went.append(one)


def test_nobody_waits_behind_another_clients_second_call() -> None:
    turns: Turns[str] = Turns()
    for one in ("a1", "a2", "a3", "b1", "c1", "c2"):
        turns.add(one[0], one)

    assert [turns.take() for _ in range(6)] == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert len(turns) == 0


@given(steps)
def test_all_come_out_once_in_their_clients_order_and_the_count_is_right(
    script: list[tuple[str, str]],
) -> None:
    turns: Turns[tuple[str, int]] = Turns()
    waiting: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for number, (step, who) in enumerate(script):
        if step == "add":
            turns.add(who, (who, number))
            waiting[who].append((who, number))
        elif step == "take" and len(turns):
            one = turns.take()
            assert one == waiting[one[0]].pop(0)
        elif step == "drop" and waiting[who]:
            turns.drop(who, waiting[who].pop())
        assert len(turns) == sum(map(len, waiting.values()))
        assert all(turns.of(who) == len(waiting[who]) for who in CLIENTS)


@given(st.lists(st.sampled_from(CLIENTS), min_size=1))
def test_between_two_turns_of_a_client_every_other_that_waits_has_one(arrivals: list[str]) -> None:
    turns: Turns[tuple[str, int]] = Turns()
    for number, who in enumerate(arrivals):
        turns.add(who, (who, number))
    order = [turns.take()[0] for _ in arrivals]

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
    turns: Turns[tuple[str, int]] = Turns()
    for number, each in enumerate(arrivals):
        turns.add(each, (each, number))
    before = Counter(arrivals)

    displaced = turns.displace(who)

    most = max(before.values())
    if displaced is None:
        assert most <= before[who] + 1
        assert len(turns) == len(arrivals)
    else:
        greedy, number = displaced
        assert before[greedy] == most > before[who] + 1
        assert number == max(at for at, each in enumerate(arrivals) if each == greedy)
        assert turns.of(greedy) == most - 1 >= before[who] + 1


def test_nobody_gives_way_where_nobody_waits() -> None:
    turns: Turns[str] = Turns()

    assert turns.displace("a") is None
    turns.drop("a", "never came")
    assert len(turns) == 0


def test_free_places_go_to_those_whose_turn_it_is() -> None:
    places: Places[Waiter] = Places(2, 3, 1.0)
    home = Waiter("home")
    for who in ("a", "a", "b"):
        places.waiting.add(who, Waiter(who, home))
    places.taken = 2
    assert places.full
    assert places.words == "open calls: 2, waiting: 3"

    places.admit()
    assert home.went == []
    places.taken = 0
    places.admit()

    assert [one.who for one in home.went] == ["a", "b"]
    assert places.taken == 2
    assert not places.full


def test_the_configuration_says_how_many() -> None:
    config = ServerConfig(slug="x", name="x", calls_max=3, queue_max=4, queue_seconds=5.0)

    places: Places[Waiter] = places_of(config)

    assert (places.calls_max, places.queue_max, places.queue_seconds) == (3, 4, 5.0)
