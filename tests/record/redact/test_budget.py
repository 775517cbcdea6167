import pytest

from anyport.protocol.scheduler import LONG_SECONDS
from anyport.record.redact.budget import (
    LOOP_STEPS_MAX,
    NESTED_MAX,
    BudgetExceeded,
    LoopBudget,
    RedactionBudget,
)


def test_a_budget_ends_where_it_is_spent() -> None:
    budget = RedactionBudget(3)
    budget.spend(2)
    budget.spend(1)
    with pytest.raises(BudgetExceeded):
        budget.spend(1)
    assert budget.spent_steps == 3


def test_nesting_ends_too() -> None:
    budget = RedactionBudget()
    for _ in range(NESTED_MAX):
        budget.enter_nested()
    with pytest.raises(BudgetExceeded):
        budget.enter_nested()


def test_an_exchange_takes_half_of_what_its_turn_has_left() -> None:
    turn = LoopBudget()
    first = turn.allot()
    assert first.steps_left == LOOP_STEPS_MAX // 2
    with pytest.raises(BudgetExceeded):
        first.spend(LOOP_STEPS_MAX)
    turn.charge(first)
    second = turn.allot()
    assert second.steps_left == LOOP_STEPS_MAX // 4
    second.spend(100)
    turn.charge(second)
    assert turn.allot().steps_left == LOOP_STEPS_MAX // 4 - 50
    turn.reset()
    assert turn.allot().steps_left == LOOP_STEPS_MAX // 2


def test_all_that_is_looked_through_in_a_turn_is_no_long_time() -> None:
    step_seconds = 1e-6
    assert LOOP_STEPS_MAX * step_seconds <= LONG_SECONDS
