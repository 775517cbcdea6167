"""A session moves along its table, and nowhere else."""

from itertools import product

import pytest

from anyport.protocol.session import TRANSITIONS, OutOfOrder, State, Step, advance

LIFE = {
    State.NEW: (State.OPENING, State.NEW, State.NEW, State.CLOSED),
    State.OPENING: (State.OPENING, State.READY, State.READY, State.CLOSED),
    State.READY: (State.OPENING, State.READY, State.READY, State.CLOSED),
    State.CLOSED: (None, None, None, State.CLOSED),
}
"""After initialize, initialized, a request, the end; None is refused."""


@pytest.mark.parametrize(("state", "step"), list(product(State, Step)))
def test_every_step_in_every_state_leads_where_it_must_or_is_refused(
    state: State, step: Step
) -> None:
    expected = dict(zip(Step, LIFE[state], strict=True))[step]

    if expected is not None:
        assert advance(state, step) is expected
        return
    assert (state, step) not in TRANSITIONS
    with pytest.raises(OutOfOrder) as refusal:
        advance(state, step)
    assert (refusal.value.state, refusal.value.step) == (state, step)
    assert str(refusal.value) == f"{step.value} is not allowed while the session is closed"


def test_nothing_leads_out_of_a_closed_session() -> None:
    assert {after for (state, _), after in TRANSITIONS.items() if state is State.CLOSED} == {
        State.CLOSED
    }
