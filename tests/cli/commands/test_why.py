"""`anyport why`."""

import sys

from tests.cli.running import Running
from tests.cli.stage import Stage, tiny_entry


def test_a_tool_that_is_there_is_told_step_by_step(stage: Stage) -> None:
    stage.configure()

    ran = stage.run("why", "add")

    assert (ran.code, ran.err) == (0, "")
    first, _, title, titles, *rows = ran.out.splitlines()
    assert first == "'add' is visible to clients of the profile 'default'"
    assert title == "the tool 'add' of the server 'tiny'"
    assert titles.split() == ["STEP", "STATE", "WHY"]
    assert [row.split()[:2] for row in rows] == [
        *(["configured", "good"], ["profile", "good"], ["started", "good"]),
        *(["listed", "good"], ["rules", "good"], ["name", "good"]),
    ]
    assert "its public name is 'tiny__add'" in rows[-1]


def test_where_a_server_is_defined_is_told_with_file_and_line(stage: Stage) -> None:
    stage.configure()

    told = stage.run("why", "tiny", "--json").json["stories"][0]["steps"][0]["words"]

    assert str(stage.folder) in told
    assert told.rpartition(":")[2].isdigit()


def test_what_is_not_there_is_a_failure_with_the_reason_and_near_misses(stage: Stage) -> None:
    stage.configure(off={"command": "nothing", "disabled": True})

    ran = stage.run("why", "tiny/ad")
    assert ran.code == 1
    assert "listed      bad    it lists" in ran.out
    assert "Did you mean tiny__add" in ran.out

    ran = stage.run("why", "off__x")
    assert ran.code == 1
    assert "it is disabled in the configuration" in ran.out

    ran = stage.run("why", "unheard-of")
    assert ran.code == 1
    assert "nothing is known about it" in ran.out


def test_a_server_that_does_not_start_is_told_with_the_reason(stage: Stage) -> None:
    stage.configure(broken={"command": str(stage.folder / "absent")})

    ran = stage.run("why", "broken__x", "--json")

    assert ran.code == 1
    steps = {step["stage"]: step for step in ran.json["stories"][0]["steps"]}
    assert not steps["started"]["good"]
    assert "does not exist; install the command" in steps["started"]["words"]


def test_what_is_listed_of_a_server_that_is_down_is_a_failure_with_the_reason(
    stage: Stage,
) -> None:
    tiny = tiny_entry(stage.notes)
    tiny["command"] = str(stage.folder / "start")
    start = stage.folder / "start"
    start.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    start.chmod(0o755)
    stage.configure(tiny=tiny)
    assert stage.run("why", "tiny__add").code == 0

    start.write_text("#!/bin/sh\nexit 3\n")
    ran = stage.run("why", "tiny__add")

    assert ran.code == 1
    assert ran.out.startswith("'tiny__add' is listed, but calls to it fail: ")
    assert "exit code 3" in ran.out.splitlines()[0]
    assert "Did you mean" not in ran.out


def test_an_unknown_profile_is_wrong_usage(stage: Stage) -> None:
    stage.configure()

    assert stage.run("why", "add", "--profile", "nobody").code == 2


def test_a_gateway_that_runs_can_be_asked(stage: Stage, there: Running) -> None:
    ran = stage.run("why", "add", "--url", there.url, "--json")

    assert ran.code == 0
    assert ran.json["profile"] == "default"
    where = ran.json["stories"][0]["steps"][0]["words"]
    assert where == "the server 'tiny' is defined in anyport.json:1"
    dev = stage.run("why", "gone", "--url", f"{there.url}/mcp/dev")
    assert dev.code == 1
    assert "the profile 'dev' has only: tiny" in dev.out
