"""Rules about methods."""

import pytest

from anyport.lint.vocabulary import MISNAMED_METHODS
from tests.lint.checking import broken, messages
from tests.lint.conversations import afresh, ask, give, hello, note, stamped, whole


@pytest.mark.parametrize("name", MISNAMED_METHODS)
def test_a_name_that_is_not_of_mcp_is_corrected(name: str) -> None:
    assert messages("not-an-mcp-name", note(name)) == [f"{name} is called {MISNAMED_METHODS[name]}"]


@pytest.mark.parametrize(
    "name", ["ping", "logging/setLevel", "resources/subscribe", "tasks/result"]
)
def test_what_was_removed_is_not_asked_without_a_session(name: str) -> None:
    assert "method-of-other-revision" in broken(*afresh(name, whole()))


@pytest.mark.parametrize("name", ["initialize", "server/discover"])
def test_a_probe_for_the_other_era_is_no_mistake(name: str) -> None:
    said = [*hello(), ask(name, {}, 7), give({}, 7)]
    assert "method-of-other-revision" not in broken(*said)


def test_a_server_does_not_ask_what_its_revision_has_not() -> None:
    asked = [ask("elicitation/create", {}, 7), give({"action": "cancel"}, 7)]

    assert "method-of-other-revision" in broken(*hello("2025-03-26"), *asked)
    assert "method-of-other-revision" not in broken(*hello("2025-06-18"), *asked)


def test_a_client_may_tell_progress_in_a_session_only() -> None:
    told = {"from": "client", "frame": note("notifications/progress", {"progressToken": 1})}

    assert "wrong-sender" not in broken(*hello(), told)
    assert "wrong-sender" in broken(ask("tools/list", stamped()), told)


def test_a_server_that_calls_a_tool_of_its_client_is_mistaken() -> None:
    told = {"from": "server", "frame": ask("tools/call", {"name": "a"}, 7)}
    assert "wrong-sender" in broken(*hello(), told)


def test_an_unknown_method_is_told_once() -> None:
    assert broken(*hello(), ask("weather/get"), give({})) == {"unknown-method"}
