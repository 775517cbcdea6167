"""Who may say what, in which revision."""

import pytest

from anyport.lint.model import CLIENT, SERVER
from anyport.lint.vocabulary import (
    MISNAMED_METHODS,
    can_request,
    is_known_method,
    revisions_with,
    senders,
)
from anyport.protocol.revisions import REVISIONS

ALL = tuple(REVISIONS)


@pytest.mark.parametrize(
    ("method", "revisions"),
    [
        ("initialize", ALL[:4]),
        ("server/discover", ALL[4:]),
        ("elicitation/create", ("2025-06-18", "2025-11-25")),
        ("roots/list", ALL[:4]),
        ("tasks/result", ("2025-11-25",)),
        ("notifications/initialized", ALL[:4]),
        ("notifications/elicitation/complete", ("2025-11-25",)),
        ("notifications/progress", ALL),
        ("nothing/at_all", ()),
    ],
)
def test_a_word_belongs_to_revisions(method: str, revisions: tuple[str, ...]) -> None:
    assert tuple(revisions_with(method)) == revisions


def test_each_end_has_words_of_its_own() -> None:
    legacy, modern = REVISIONS["2025-11-25"], REVISIONS["2026-07-28"]

    assert can_request("tools/call", CLIENT, legacy)
    assert not can_request("tools/call", SERVER, legacy)
    assert can_request("sampling/createMessage", SERVER, legacy)
    assert not can_request("sampling/createMessage", SERVER, modern)
    assert can_request("ping", SERVER, legacy)
    assert senders("notifications/progress", legacy) == {CLIENT, SERVER}
    assert senders("notifications/progress", modern) == {SERVER}
    assert not senders("nothing", modern)


def test_what_is_no_word_of_mcp_is_called_something_that_is() -> None:
    for wrong, right in MISNAMED_METHODS.items():
        assert not is_known_method(wrong), wrong
        assert is_known_method(right), right
