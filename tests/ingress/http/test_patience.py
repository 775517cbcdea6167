"""How long a client may take, and what it is told."""

import pytest

from anyport.ingress.http.patience import (
    AGE_SECONDS_MAX,
    AGE_SPREAD,
    BODY_SECONDS_MAX,
    HEAD_SECONDS_MAX,
    IDLE_SECONDS_MAX,
    overdue,
    until,
    words,
)
from anyport.protocol.timeouts import Timeout


@pytest.mark.parametrize(
    ("head_read", "begun", "open_seconds", "timeout"),
    [
        (True, False, HEAD_SECONDS_MAX, Timeout.BODY),
        (True, True, 1000.0, Timeout.BODY),
        (False, True, 1000.0, Timeout.HEAD),
        (False, False, HEAD_SECONDS_MAX, Timeout.HEAD),
        (False, False, IDLE_SECONDS_MAX, Timeout.IDLE),
        (False, False, 1000.0, Timeout.IDLE),
    ],
)
def test_which_time_is_over(
    head_read: bool, begun: bool, open_seconds: float, timeout: Timeout
) -> None:
    assert overdue(head_read=head_read, begun=begun, open_seconds=open_seconds) is timeout


def test_a_client_whose_request_did_not_come_is_told_how_long_it_had() -> None:
    assert f"{HEAD_SECONDS_MAX:g} s" in words(Timeout.HEAD)
    assert f"{BODY_SECONDS_MAX:g} s" in words(Timeout.BODY)


def test_connections_that_were_opened_together_are_not_all_closed_together() -> None:
    assert until(5.0, 0.0) == 5.0 + AGE_SECONDS_MAX
    assert until(5.0, 1.0) == 5.0 + AGE_SECONDS_MAX * (1 - AGE_SPREAD)
