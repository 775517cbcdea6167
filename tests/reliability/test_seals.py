"""What clients carry for the gateway, tampered with in every way: none of it is taken.

States of both kinds, ids of tasks, cursors: a hundred thousand changes to each of which there must
be the same answer, in the same words. While keys are replaced, nothing that is good is refused.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final, cast

import pytest

from anyport.catalog.catalog import CatalogEntry
from anyport.catalog.paging import render_page
from anyport.gateway.calls.call import Call
from anyport.gateway.calls.call_table import CallTable
from anyport.gateway.elicitation.parked_calls import ParkedCalls, Parking
from anyport.gateway.elicitation.request_state import (
    INVALID_STATE,
    STATE_SECONDS_MAX,
    RequestStates,
)
from anyport.gateway.tasks.handles import TASK_SECONDS_MAX, TaskHandles
from anyport.protocol.errors import Fault
from anyport.protocol.exchange import Caller, Ending, Exchange, Question
from anyport.protocol.methods import OfferKind
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Era
from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.protocol.tasks import Task
from tests.gateway.fakes import MODERN, Asked, FakeClock, FakeServer, caller
from tests.rig.tampering import changes

pytestmark = pytest.mark.slow

CHANGES: Final = 100_000
KEY: Final = bytes(KEY_BYTES)
OTHER_KEY: Final = bytes(reversed(range(KEY_BYTES)))
ME: Final = caller(None, MODERN)
THEY: Final = replace(ME, principal=Principal("token", "they"))
ELSEWHERE: Final = replace(ME, profile="elsewhere")
CALL: Final[dict[str, Any]] = {"name": "s__ask", "arguments": {"a": 1}}
TASK: Final = Task(status="working", created=b'"a"', updated=b'"b"')
ENTRIES: Final = [
    CatalogEntry(name, "s", name, b'{"name":"%b"}' % name.encode()) for name in "abcd"
]
NOT_FOUND: Final = "not found"


class Parked:
    """A call that waits, on a legacy server, for its client to come back."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.parking: Parking | None = None
        exchange.lease_owner = "call-1"

    def park(self) -> Exchange:
        return self.exchange

    def resume(self, exchange: Exchange) -> None:
        self.exchange = exchange

    def finish(self, ending: Ending) -> None: ...
    def abandon(self) -> None: ...


class Gateway:
    """All that takes back what a client was given, under some keys."""

    def __init__(self, *keys: bytes, now: float = 1000.0) -> None:
        self.now = now
        self.seal = Seal(keys)
        self.cursor_key = keys[0]
        self.states = RequestStates(self.seal, lambda: self.now)
        self.handles = TaskHandles(self.seal)
        self.clock = FakeClock()
        self.parked_calls = ParkedCalls(CallTable(self.clock), self.seal, self.clock)
        self.servers = {slug: FakeServer(slug, MODERN) for slug in ("s", "t")}

    def state(self, by: Caller = ME, slug: str = "s") -> str:
        """Given for a question of a modern server."""
        raw = self.states.bind(Asked("tools/call", CALL, by).exchange, slug, b'"inner"')
        assert isinstance(raw, bytes)
        return str(json.loads(raw))

    def parked(self) -> str:
        """Given for a question of a legacy server."""
        asked = Asked("tools/call", CALL, ME)
        call = cast(Call, Parked(asked.exchange))
        self.parked_calls.add_question(call, Question("roots/list", None, lambda _: None))
        self.clock.due.pop()[1]()
        return str(asked.ending["requestState"])

    def task(self) -> str:
        handle = self.handles.create(ME, self.servers["s"], Era.MODERN, "native", TASK, self.now)
        assert handle is not None
        self.handles.forget(handle)  # So that it is found by what its id says, or not at all.
        return handle.id

    def cursor(self) -> str:
        first = render_page(OfferKind.TOOLS, ENTRIES, None, size=2, key=self.cursor_key)
        assert isinstance(first, bytes)
        return str(json.loads(first)["nextCursor"])

    def call_again(
        self, state: str, call: dict[str, Any] = CALL, by: Caller = ME, slug: str = "s"
    ) -> str | None:
        """What is said to one who comes back with a state; None if it is taken."""
        asked = Asked("tools/call", {**call, "requestState": state}, by)
        if self.parked_calls.resume(asked.exchange):
            return asked.ending if isinstance(asked.ending, str) else None
        outcome = self.states.unbind(asked.exchange, asked.exchange.params, slug, Era.MODERN)
        return outcome.message if isinstance(outcome, Fault) else None

    def look(self, id: str, by: Caller = ME) -> str | None:
        found = self.handles.find(id, by, self.servers, self.now)
        if found is None:
            return NOT_FOUND
        self.handles.forget(found)
        return None

    def turn(
        self, cursor: str, kind: OfferKind = OfferKind.TOOLS, entries: Any = ENTRIES
    ) -> str | None:
        outcome = render_page(
            kind, entries, json.dumps(cursor).encode(), size=2, key=self.cursor_key
        )
        return outcome.message if isinstance(outcome, Fault) else None


def test_of_a_hundred_thousand_changes_none_is_taken_and_all_are_refused_in_one_way() -> None:
    gateway, chance = Gateway(KEY, OTHER_KEY), Random(43)
    foreign = Gateway(OTHER_KEY)
    kinds: list[tuple[list[str], Callable[[str], str | None]]] = [
        ([gateway.state(), foreign.state()], gateway.call_again),
        ([gateway.parked(), foreign.parked()], gateway.call_again),
        ([gateway.task(), foreign.task()], gateway.look),
        ([gateway.cursor(), foreign.cursor()], gateway.turn),
    ]
    for (good, other), take in kinds:
        said = set()
        for changed in changes(good, other, chance, CHANGES // len(kinds)):
            told = take(changed)
            assert told is not None, f"{changed!r} was taken for {good!r}"
            said.add(told)
        assert len(said) == 1, said
        assert take(good) is None, "and the good one still is"


def test_what_was_given_for_one_use_is_good_for_no_other() -> None:
    gateway = Gateway(KEY)
    given = {
        "state": gateway.state(),
        "parked": gateway.parked(),
        "task": gateway.task(),
        "cursor": gateway.cursor(),
        "session": gateway.seal.seal("session", b"[]"),
    }
    uses: dict[str, Callable[[str], str | None]] = {
        "state": gateway.call_again,
        "task": gateway.look,
        "cursor": gateway.turn,
    }
    for use, take in uses.items():
        foreign = {kind: take(token) for kind, token in given.items() if kind != use}
        if use == "state":
            assert foreign.pop("parked") is None, "both are states, and it tells them apart"
        assert None not in foreign.values(), (use, foreign)
        assert len(set(foreign.values())) == 1


@pytest.mark.parametrize("make", [Gateway.state, Gateway.parked])
def test_a_state_is_good_for_one_caller_and_one_call(make: Callable[[Gateway], str]) -> None:
    gateway = Gateway(KEY)
    state = make(gateway)
    wrong = [
        gateway.call_again(state, by=THEY),
        gateway.call_again(state, by=ELSEWHERE),
        gateway.call_again(state, {**CALL, "name": "s__other"}),
        gateway.call_again(state, {**CALL, "arguments": {"a": 2}}),
        gateway.call_again(state, {"name": "s__ask"}),
    ]
    assert set(wrong) == {INVALID_STATE}
    assert gateway.call_again(state) is None


def test_a_state_is_good_for_one_server_and_for_its_time() -> None:
    gateway = Gateway(KEY)
    state = gateway.state()
    assert gateway.call_again(state, slug="t") == INVALID_STATE
    assert gateway.call_again(state) is None
    gateway.now += STATE_SECONDS_MAX
    assert gateway.call_again(state) == INVALID_STATE


def test_a_parked_call_is_come_back_to_once_and_in_its_time() -> None:
    gateway = Gateway(KEY)
    state = gateway.parked()
    assert gateway.call_again(state) is None
    assert gateway.call_again(state) == INVALID_STATE, "once"
    state = gateway.parked()
    for _, act in gateway.clock.due:
        act()
    assert gateway.call_again(state) == INVALID_STATE, "and in time"


def test_the_id_of_a_task_is_good_for_its_owner_alone() -> None:
    gateway = Gateway(KEY)
    id = gateway.task()
    assert gateway.look(id, THEY) == gateway.look(id, ELSEWHERE) == NOT_FOUND
    assert gateway.look(id) is None
    del gateway.servers["s"]
    assert gateway.look(id) == NOT_FOUND, "nobody else has it"


def test_a_task_is_known_for_its_time() -> None:
    gateway = Gateway(KEY)
    handle = gateway.handles.create(ME, gateway.servers["s"], Era.MODERN, "n", TASK, gateway.now)
    assert handle is not None
    assert gateway.handles.find(handle.id, ME, gateway.servers, gateway.now) is handle
    late = gateway.now + TASK_SECONDS_MAX
    assert gateway.handles.find(handle.id, ME, gateway.servers, late) is None


def test_a_cursor_is_good_for_one_list_in_one_state() -> None:
    gateway = Gateway(KEY)
    cursor = gateway.cursor()
    wrong = {gateway.turn(cursor, OfferKind.PROMPTS), gateway.turn(cursor, entries=ENTRIES[1:])}
    assert len(wrong) == 1
    assert None not in wrong
    assert gateway.turn(cursor) is None


def test_while_keys_are_replaced_nothing_that_is_good_is_refused() -> None:
    chance = Random(44)
    keys = [chance.randbytes(KEY_BYTES) for _ in range(1000)]
    states, tasks = [], []
    for number in range(1, len(keys)):
        gateway = Gateway(keys[number], keys[number - 1])
        states.append(gateway.state())
        tasks.append(gateway.task())
        for state, task in zip(states[-2:], tasks[-2:], strict=True):
            assert gateway.call_again(state) is None
            assert gateway.look(task) is None
        for state, task in zip(states[-5:-2], tasks[-5:-2], strict=True):
            assert gateway.call_again(state) == INVALID_STATE
            assert gateway.look(task) == NOT_FOUND
