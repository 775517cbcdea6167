"""A tool is let through when a rule allows it and none denies it."""

import pytest

from anyport.policy.tool_rules import ToolDecision, ToolRules


@pytest.mark.parametrize(
    ("allow", "deny", "allowed", "reason"),
    [
        (["*"], [], True, "allowed by '*'"),
        ([], [], False, "not in the allow list"),
        (["read_*"], [], True, "allowed by 'read_*'"),
        (["write_*"], [], False, "not in the allow list"),
        (["files/*"], [], True, "allowed by 'files/*'"),
        (["files/read_file"], [], True, "allowed by 'files/read_file'"),
        (["other/*"], [], False, "not in the allow list"),
        (["*"], ["read_*"], False, "denied by 'read_*'"),
        (["*"], ["files/*"], False, "denied by 'files/*'"),
        (["*"], ["other/*"], True, "allowed by '*'"),
        (["READ_*"], [], False, "not in the allow list"),
        (["read_fil[a-e]"], [], True, "allowed by 'read_fil[a-e]'"),
        (["read_fil?"], ["read_file?"], True, "allowed by 'read_fil?'"),
        (["read"], [], False, "not in the allow list"),
    ],
)
def test_deny_beats_allow_and_nobody_is_allowed_by_nothing(
    allow: list[str], deny: list[str], allowed: bool, reason: str
) -> None:
    verdict = ToolRules(allow=allow, deny=deny).decide("files", "read_file")

    assert verdict == ToolDecision(allowed=allowed, reason=reason)


def test_without_rules_every_tool_is_let_through() -> None:
    assert ToolRules().decide("any", "thing").allowed


def test_a_tool_with_a_slash_in_its_name_is_not_taken_for_another_servers() -> None:
    rules = ToolRules(allow=["files/delete"])

    assert rules.decide("files", "delete").allowed
    assert not rules.decide("evil", "delete").allowed
    assert not rules.decide("files-2", "delete").allowed
