"""Every revision has exactly the methods of its specification."""

import pytest

from anyport.protocol.methods import (
    CHANGE_NOTIFICATIONS,
    INITIALIZED_NOTIFICATIONS,
    LIST_METHODS,
    METHODS,
    QUESTION_CAPABILITIES,
    OfferKind,
    RoutingRule,
    find_method,
)
from anyport.protocol.revisions import LEGACY, MODERN, REVISIONS, Revision

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
    assert LIST_METHODS == {
        OfferKind.TOOLS: "tools/list",
        OfferKind.RESOURCES: "resources/list",
        OfferKind.TEMPLATES: "resources/templates/list",
        OfferKind.PROMPTS: "prompts/list",
        OfferKind.SKILLS: "skills/list",
    }
    assert CHANGE_NOTIFICATIONS[OfferKind.TEMPLATES] == CHANGE_NOTIFICATIONS[OfferKind.RESOURCES]
    assert set(CHANGE_NOTIFICATIONS) == set(OfferKind)


def test_exactly_the_calls_of_one_server_may_need_input_and_are_recorded() -> None:
    calls = {"tools/call", "prompts/get", "resources/read"}

    assert {name for name, row in METHODS.items() if row.may_need_input} == calls
    assert {name for name, row in METHODS.items() if row.event} == calls


def test_what_goes_by_name_or_uri_says_of_which_kind_it_is() -> None:
    for row in METHODS.values():
        if row.routing in (RoutingRule.BY_NAME, RoutingRule.BY_URI, RoutingRule.MERGE):
            assert row.kind is not None, row.name


def test_a_server_may_ask_three_things_each_with_its_capability() -> None:
    assert QUESTION_CAPABILITIES == {
        "sampling/createMessage": "sampling",
        "elicitation/create": "elicitation",
        "roots/list": "roots",
    }


def test_both_spellings_of_the_confirmation_are_known() -> None:
    assert {"notifications/initialized", "initialized"} == INITIALIZED_NOTIFICATIONS
