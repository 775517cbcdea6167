"""Tasks, without anybody to tell."""

import asyncio

import pytest

from anyport.demo.brew import Brew
from anyport.demo.faults import Fault
from anyport.demo.tasks import TASKS_MAX, Phase, Task, Tasks
from tests.demo.fakes import new_tasks


def start(brew: Brew) -> tuple[Task, list[Phase]]:
    """A task, and the phases it will enter."""
    task = new_tasks().start(brew, None, None)
    phases: list[Phase] = []
    task.watchers.append(lambda task: phases.append(task.phase))
    return task, phases


def test_each_look_is_a_step_and_the_last_one_ends_it() -> None:
    task, phases = start(Brew(cups=3))
    steps: list[int] = []
    task.on_step = steps.append

    seen = []
    while task.look():
        seen.append((task.phase, task.message))

    assert [phase for phase, _ in seen] == [Phase.WORKING, Phase.WORKING, Phase.DONE]
    assert [message for _, message in seen] == ["1 of 3 cups", "2 of 3 cups", "3 of 3 cups"]
    assert (phases, steps, task.is_over) == ([Phase.DONE], [1, 2, 3], True)


@pytest.mark.parametrize("cups", [1, 2])
def test_a_task_that_asks_goes_on_when_it_was_told(cups: int) -> None:
    task, phases = start(Brew(cups=cups, ask=True))

    task.answer({"action": "cancel"})
    assert task.look()
    assert not task.look()
    task.answer({"action": "accept"})
    task.answer({"action": "decline"})
    assert task.look()

    assert phases == [Phase.ASKING, Phase.WORKING, Phase.DONE]
    assert isinstance(task.outcome, dict)
    assert task.outcome["content"][1]["text"] == '{"action":"accept"}'


def test_a_question_that_cannot_be_put_ends_the_task() -> None:
    unaskable = Fault(1, "no")
    task = new_tasks().start(Brew(ask=True), None, unaskable)
    plain = new_tasks().start(Brew(), None, unaskable)

    assert task.look() and plain.look()

    assert (task.outcome, task.message) == (unaskable, "no")
    assert plain.outcome != unaskable


def test_a_task_on_hold_moves_only_when_it_is_cancelled() -> None:
    task, phases = start(Brew(hold=True))

    assert not task.look()
    task.cancel()

    assert not task.look()
    assert phases == [Phase.CANCELLED]
    assert isinstance(task.outcome, Fault) and task.outcome.code == -32800


def test_what_is_over_stays_as_it_is() -> None:
    task, phases = start(Brew(broken=True))
    task.look()
    outcome = task.outcome

    task.cancel()
    task.end({})
    task.answer({})

    assert (task.outcome, task.message) == (outcome, "The kettle broke")
    assert phases == [Phase.DONE]


def test_those_who_wait_are_woken_by_every_change() -> None:
    async def scene() -> None:
        task, _ = start(Brew(hold=True))
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for change in (task.stir, task.cancel):
                waiting = [group.create_task(task.change()) for _ in range(2)]
                await asyncio.sleep(0)
                change()
                await asyncio.wait(waiting)

    asyncio.run(scene())


def test_a_task_is_forgotten_when_its_time_is_over() -> None:
    clock = [1_000_000.0]
    tasks = Tasks(iter(["a", "b", "c"]).__next__, lambda: clock[0])
    short = tasks.start(Brew(cups=9), 1500, None)
    endless = tasks.start(Brew(), None, None)

    clock[0] += 1.25
    assert short.look()
    assert tasks.named({"taskId": "a"}) is short
    assert short.created_at == "1970-01-12T13:46:40.000Z"
    assert short.updated_at == "1970-01-12T13:46:41.250Z"
    clock[0] += 0.25

    assert tasks.find("a") is None
    assert tasks.all() == [endless]
    assert (short.phase, endless.phase) == (Phase.CANCELLED, Phase.WORKING)


def test_the_oldest_task_makes_room() -> None:
    tasks = new_tasks()
    oldest, *_ = [tasks.start(Brew(), None, None) for _ in range(TASKS_MAX + 1)]

    assert oldest.phase is Phase.CANCELLED
    assert tasks.find("task-1") is None
    assert [task.identity for task in tasks.all()[:1]] == ["task-2"]


@pytest.mark.parametrize("taskless", [{}, {"taskId": "unheard of"}, {"taskId": 1}])
def test_a_task_that_is_not_there_is_a_fault(taskless: dict[str, object]) -> None:
    with pytest.raises(Fault) as refused:
        new_tasks().named(taskless)

    assert refused.value.code == -32602
