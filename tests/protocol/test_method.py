"""Every revision has the methods the specification gives it, and no others."""

import pytest

from anyport.protocol.method import (
    CHANGES,
    INITIALIZED,
    LISTS,
    METHODS,
    QUESTIONS,
    Kind,
    Travel,
    find_method,
)
from anyport.protocol.revision import LEGACY, MODERN, REVISIONS, Revision

SHARED = {
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
}
HANDSHAKE_ERA = {
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
}
MODERN_ERA = {"server/discover", "subscriptions/listen"}
SKILLS_METHODS = {"skills/list", "skills/get", "resources/directory/read"}
TASKS_METHODS: dict[str, set[str]] = {
    **{name: set() for name in REVISIONS},
    "2025-11-25": {"tasks/get", "tasks/cancel", "tasks/result", "tasks/list"},
    "2026-07-28": {"tasks/get", "tasks/cancel", "tasks/update"},
}


@pytest.mark.parametrize("revision", LEGACY, ids=lambda revision: revision.name)
def test_a_legacy_revision_has_the_methods_of_the_handshake_era(revision: Revision) -> None:
    found = {name for name in METHODS if find_method(name, revision)}

    assert found == SHARED | HANDSHAKE_ERA | SKILLS_METHODS | TASKS_METHODS[revision.name]


@pytest.mark.parametrize("revision", MODERN, ids=lambda revision: revision.name)
def test_a_modern_revision_has_lost_the_handshake_and_what_it_remembered(
    revision: Revision,
) -> None:
    found = {name for name in METHODS if find_method(name, revision)}

    assert found == SHARED | MODERN_ERA | SKILLS_METHODS | TASKS_METHODS[revision.name]


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
@pytest.mark.parametrize("name", ["", "tools", "Tools/list", "tools/list ", "tasks", "roots/list"])
def test_a_method_that_clients_may_not_send_does_not_exist(name: str, revision: Revision) -> None:
    assert find_method(name, revision) is None


def test_a_row_is_found_under_its_own_name() -> None:
    assert all(row.name == name for name, row in METHODS.items())


def test_every_kind_of_offer_has_its_list_and_its_news_of_change() -> None:
    assert LISTS == {
        Kind.TOOLS: "tools/list",
        Kind.RESOURCES: "resources/list",
        Kind.TEMPLATES: "resources/templates/list",
        Kind.PROMPTS: "prompts/list",
        Kind.SKILLS: "skills/list",
    }
    assert CHANGES[Kind.TEMPLATES] == CHANGES[Kind.RESOURCES]
    assert set(CHANGES) == set(Kind)


def test_exactly_the_calls_of_one_server_may_need_input_and_are_recorded() -> None:
    calls = {"tools/call", "prompts/get", "resources/read"}

    assert {name for name, row in METHODS.items() if row.may_need_input} == calls
    assert {name for name, row in METHODS.items() if row.event} == calls


def test_what_goes_by_name_or_uri_says_of_which_kind_it_is() -> None:
    for row in METHODS.values():
        if row.travel in (Travel.BY_NAME, Travel.BY_URI, Travel.MERGE):
            assert row.kind is not None, row.name


def test_a_server_may_ask_three_things_each_with_its_capability() -> None:
    assert QUESTIONS == {
        "sampling/createMessage": "sampling",
        "elicitation/create": "elicitation",
        "roots/list": "roots",
    }


def test_both_spellings_of_the_confirmation_are_known() -> None:
    assert {"notifications/initialized", "initialized"} == INITIALIZED
