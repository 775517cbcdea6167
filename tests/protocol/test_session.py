"""The state machine of a session."""

from itertools import product

import pytest

from anyport.protocol.session import TRANSITIONS, OutOfOrder, SessionEvent, SessionState, next_state

LIFE = {
    SessionState.NEW: (
        SessionState.OPENING,
        SessionState.NEW,
        SessionState.NEW,
        SessionState.CLOSED,
    ),
    SessionState.OPENING: (
        SessionState.OPENING,
        SessionState.READY,
        SessionState.READY,
        SessionState.CLOSED,
    ),
    SessionState.READY: (
        SessionState.OPENING,
        SessionState.READY,
        SessionState.READY,
        SessionState.CLOSED,
    ),
    SessionState.CLOSED: (None, None, None, SessionState.CLOSED),
}
"""Initialize, initialized, a request, the end; None is refused."""


@pytest.mark.parametrize(("state", "step"), list(product(SessionState, SessionEvent)))
def test_every_step_in_every_state_leads_where_it_must_or_is_refused(
    state: SessionState, step: SessionEvent
) -> None:
    expected = dict(zip(SessionEvent, LIFE[state], strict=True))[step]

    if expected is not None:
        assert next_state(state, step) is expected
        return
    assert (state, step) not in TRANSITIONS
    with pytest.raises(OutOfOrder) as refusal:
        next_state(state, step)
    assert (refusal.value.state, refusal.value.event) == (state, step)
    assert str(refusal.value) == f"{step.value} is not allowed while the session is closed"


def test_nothing_leads_out_of_a_closed_session() -> None:
    assert {after for (state, _), after in TRANSITIONS.items() if state is SessionState.CLOSED} == {
        SessionState.CLOSED
    }
