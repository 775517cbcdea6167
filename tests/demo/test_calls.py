"""What a tool may tell its client."""

import pytest

from anyport.demo.calls import LEVELS, Call, Change, Tool, World, declares
from anyport.demo.faults import Fault
from anyport.demo.options import Options
from anyport.demo.revisions import Json
from tests.demo.fakes import FakeCall, new_tasks


def test_progress_goes_only_to_those_who_gave_a_token() -> None:
    silent, told = FakeCall(), FakeCall(params={"_meta": {"progressToken": 0}})

    for call in (silent, told):
        call.progress(1, 2, "half")

    assert silent.sent == []
    assert told.sent[0]["params"] == {
        "progressToken": 0,
        "progress": 1,
        "total": 2,
        "message": "half",
    }


@pytest.mark.parametrize("token", [1.5, True, [], {}])
def test_a_token_that_is_no_token_is_refused(token: object) -> None:
    with pytest.raises(Fault, match="progressToken"):
        FakeCall(params={"_meta": {"progressToken": token}})


@pytest.mark.parametrize("wanted", [None, *LEVELS])
def test_logs_below_the_wanted_level_are_kept_back(wanted: str | None) -> None:
    call = FakeCall(log_level=wanted)

    for level in LEVELS:
        call.log(level, "text")

    heard = LEVELS[LEVELS.index(wanted) :] if wanted else ()
    assert [message["params"]["level"] for message in call.sent] == list(heard)


def test_every_watcher_learns_of_a_change_even_if_one_leaves() -> None:
    world = World(Options(), {}, new_tasks)
    heard = []

    def leaves(change: Change) -> None:
        heard.append("leaves")
        world.watchers.remove(leaves)

    world.watchers += [leaves, lambda change: heard.append(change.method)]
    world.announce(Change(method="m"))

    assert heard == ["leaves", "m"]


def test_a_tool_is_no_task_unless_it_says_so() -> None:
    def run(_call: Call, _given: Json) -> Json:
        return {}

    plain = Tool(descriptor={}, run=run)
    eager = Tool(descriptor={"execution": {"taskSupport": "required"}}, run=run)

    assert (plain.task_support, eager.task_support) == ("forbidden", "required")


@pytest.mark.parametrize(
    ("capabilities", "required", "able"),
    [
        ({}, {"sampling": {}}, False),
        ({"sampling": {}}, {"sampling": {}}, True),
        ({"sampling": True}, {"sampling": {}}, False),
        ({"elicitation": {}}, {"elicitation": {"form": {}}}, True),
        ({"elicitation": {}}, {"elicitation": {"url": {}}}, False),
        ({"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}, False),
        ({"elicitation": {"url": {}}}, {"elicitation": {}}, True),
    ],
)
def test_a_capability_is_declared_or_it_is_not(
    capabilities: Json, required: Json, able: bool
) -> None:
    assert declares(capabilities, required) is able
