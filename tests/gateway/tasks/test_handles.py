"""The tasks that clients were given, under ids of ours."""

from dataclasses import replace
from functools import partial

import pytest
from msgspec import structs

from anyport.gateway.tasks.handles import (
    NATIVE_ID_CHARACTERS_MAX,
    RESULTS_BYTES_MAX,
    TASK_SECONDS_MAX,
    TASKS_OF_PRINCIPAL_MAX,
    TaskHandle,
    TaskHandles,
)
from anyport.protocol.exchange import Question
from anyport.protocol.principal import Principal
from anyport.protocol.revisions import Era
from anyport.protocol.sealing import KEY_BYTES, Seal
from anyport.protocol.tasks import Task
from anyport.wire.jsonrpc import Failure, Result
from tests.gateway.fakes import LEGACY, MODERN, FakeServer, caller
from tests.upstream.fakes import connected

ME = caller(None, MODERN)
OTHER = replace(ME, principal=Principal("token", "other"))
ELSEWHERE = replace(ME, profile="elsewhere")
WORKING = Task(status="working", created=b'"a"', updated=b'"b"')
BRIEF = Task(status="working", created=b'"a"', updated=b'"b"', ttl=b"2000")
OVER = Task(status="completed", created=b'"a"', updated=b'"b"', result=b"{}")
SERVER = FakeServer("s", MODERN)
SERVERS = {"s": SERVER}


def handles(key: bytes = bytes(KEY_BYTES)) -> TaskHandles:
    return TaskHandles(Seal([key]))


def opened(
    them: TaskHandles, native: str = "native", era: Era = Era.MODERN, task: Task = WORKING
) -> TaskHandle:
    handle = them.create(ME, SERVER, era, native, task, 0.0)
    assert handle is not None
    return handle


def test_a_task_is_found_by_its_owner_alone() -> None:
    them = handles()
    handle = opened(them)

    assert them.find(handle.id, ME, SERVERS, 1.0) is handle
    assert them.find(handle.id, OTHER, SERVERS, 1.0) is None
    assert them.find(handle.id, ELSEWHERE, SERVERS, 1.0) is None
    assert "native" not in handle.id


@pytest.mark.parametrize("id", [None, "", "native", "x" * 100_000])
def test_an_id_that_is_none_of_ours_is_nothing(id: str | None) -> None:
    assert handles().find(id, ME, SERVERS, 1.0) is None


def test_a_task_of_a_modern_server_outlives_the_process_for_its_owner() -> None:
    id = opened(handles(), task=BRIEF).id
    later = handles()

    assert later.find(id, OTHER, SERVERS, 1.0) is None
    assert later.find(id, ME, {}, 1.0) is None
    found = later.find(id, ME, SERVERS, 1.0)
    assert found is not None
    assert (found.native, found.server, found.era) == ("native", SERVER, Era.MODERN)
    assert handles().find(id, ME, SERVERS, 2.0) is None
    assert handles(b"x" * KEY_BYTES).find(id, ME, SERVERS, 1.0) is None


@pytest.mark.parametrize(("native", "era"), [("native", Era.LEGACY), ("", Era.MODERN)])
def test_a_task_of_a_session_or_of_ours_does_not(native: str, era: Era) -> None:
    id = opened(handles(), native, era).id

    assert handles().find(id, ME, SERVERS, 1.0) is None


def test_tasks_that_no_server_knows_of_have_ids_of_their_own() -> None:
    them = handles()

    assert opened(them, "").id != opened(them, "").id


def test_a_task_is_forgotten_after_its_time() -> None:
    them = handles()
    brief = opened(them, "1", task=BRIEF)
    long = opened(them, "2")

    assert them.find(brief.id, ME, SERVERS, 1.9) is brief
    assert them.find(brief.id, ME, SERVERS, 2.0) is None
    assert them.find(long.id, ME, SERVERS, TASK_SECONDS_MAX - 1) is long
    assert them.of_caller(ME, 3.0) == [long]


def test_the_server_calls_it_by_its_own_id() -> None:
    them, line = handles(), SERVER.connection
    handle = opened(them)

    assert them.of_server(SERVER, "native", line) is handle
    assert them.of_server(SERVER, "other", line) is None
    assert them.of_server(FakeServer("t"), "native", line) is None


def test_a_session_calls_it_so_and_another_session_may_call_another_one_so() -> None:
    them, line = handles(), SERVER.connection
    before, after = (opened(them, era=Era.LEGACY) for _ in range(2))
    before.connection, after.connection = connected(LEGACY)[0], line

    assert them.of_server(SERVER, "native", line) is after
    assert them.of_connection(line) == [after]
    assert them.of_server(SERVER, "native", connected(LEGACY)[0]) is None


def test_a_list_shows_the_tasks_of_one_principal_in_one_profile() -> None:
    them = handles()
    first, second = opened(them, "1"), opened(them, "2")

    assert them.of_caller(ME, 1.0) == [second, first]
    assert them.of_caller(OTHER, 1.0) == []
    assert them.of_caller(ELSEWHERE, 1.0) == []


def test_those_that_are_over_make_room_and_those_that_are_not_do_not() -> None:
    them = handles()
    over = opened(them, "over", task=OVER)
    for number in range(TASKS_OF_PRINCIPAL_MAX - 1):
        opened(them, f"{number}")

    newest = opened(them, "newest")
    assert them.find(over.id, ME, {}, 1.0) is None
    assert them.create(ME, SERVER, Era.MODERN, "one more", WORKING, 1.0) is None
    assert them.create(OTHER, SERVER, Era.MODERN, "another's", WORKING, 1.0) is not None
    assert them.find(newest.id, ME, {}, 1.0) is newest


def test_an_id_too_long_to_travel_is_refused() -> None:
    native = "x" * (NATIVE_ID_CHARACTERS_MAX + 1)

    assert handles().create(ME, SERVER, Era.MODERN, native, WORKING, 0.0) is None


# How it stands.


def question(said: list[Result | Failure]) -> Question:
    return Question("roots/list", None, said.append)


def test_what_is_over_never_goes_on() -> None:
    handle = opened(handles())
    over = structs.replace(OVER, result=None)
    handle.update(over)
    assert not handle.is_settled

    assert handle.update(WORKING) is over
    assert handle.update(OVER) is OVER
    assert handle.is_settled
    assert handle.update(over) is OVER


def test_what_was_cancelled_stays_so_whatever_comes_of_it() -> None:
    handle = opened(handles())
    cancelled = handle.update(structs.replace(WORKING, status="cancelled"))

    assert handle.update(OVER) is cancelled
    assert handle.is_settled


def test_when_it_is_over_nobody_is_asked_or_told_any_more() -> None:
    handle = opened(handles())
    said: list[Result | Failure] = []
    ends: list[str] = []
    handle.add_question(question(said))
    handle.on_end = partial(ends.append, "over")

    handle.update(WORKING)
    assert (said, ends) == ([], [])
    handle.update(OVER)
    handle.close()

    assert isinstance(said[0], Failure)
    assert ends == ["over"]
    assert not handle.open_questions


def test_the_key_of_a_question_is_never_used_again() -> None:
    handle = opened(handles())
    for _ in range(3):
        handle.add_question(question([]))
    handle.open_questions["q2"].answer(Result(b"", b"{}"))

    assert handle.open_questions.keys() == {"q1", "q3"}
    handle.add_question(question([]))
    assert handle.open_questions.keys() == {"q1", "q3", "q4"}


def test_results_make_room_for_results_and_those_of_their_owner_first() -> None:
    them = handles()
    large = structs.replace(OVER, result=b"x" * (RESULTS_BYTES_MAX // 4))
    strangers = them.create(OTHER, SERVER, Era.LEGACY, "other", large, 0.0)
    mine = [opened(them, f"{number}", Era.LEGACY, large) for number in range(4)]
    working = opened(them, "working", Era.LEGACY)

    them.limit_results(mine[-1])

    assert strangers is not None
    assert them.find(strangers.id, OTHER, SERVERS, 1.0) is strangers
    assert them.of_caller(ME, 1.0) == [working, *reversed(mine[1:])]

    more = [structs.replace(large, result=b"x" * (RESULTS_BYTES_MAX - 1))]
    alone = opened(them, "alone", Era.LEGACY, more[0])
    them.limit_results(alone)
    assert them.of_caller(ME, 1.0) == [alone, working]
    assert them.of_caller(OTHER, 1.0) == []
