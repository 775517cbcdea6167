"""What is brewed, and how it ends."""

from anyport.demo.brew import Brew
from anyport.demo.faults import Fault


def test_a_good_brew_says_how_much_there_is_and_what_it_was_told() -> None:
    told = {"action": "accept", "content": {"sugar": True}}

    assert Brew(cups=2).outcome(None) == {"content": [{"type": "text", "text": "2 of 2 cups"}]}
    outcome = Brew(ask=True).outcome(told)
    assert isinstance(outcome, dict)
    assert outcome["content"][1]["text"] == '{"action":"accept","content":{"sugar":true}}'


def test_a_brew_can_fail_as_a_tool_does() -> None:
    outcome = Brew(fail=True).outcome(None)

    assert isinstance(outcome, dict) and outcome["isError"] is True


def test_a_brew_can_break_as_a_server_does() -> None:
    outcome = Brew(cups=3, broken=True, fail=True).outcome(None)

    assert isinstance(outcome, Fault)
    assert (outcome.code, outcome.data) == (4002, {"cups": 3})
