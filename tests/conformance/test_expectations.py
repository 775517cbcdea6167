from tests.conformance.expectations import (
    Excuse,
    excused,
    expected_of,
    judge,
    passing,
    read_baseline,
    read_excuses,
    tally,
)
from tests.conformance.suite import Check
from tests.conformance.ways import WAYS

PASSED = Check(id="named", status="SUCCESS", message="has a name")
FAILED = Check(id="named", status="FAILURE", message="has no name")
WARNED = Check(id="named", status="WARNING", message="has an odd name")
SKIPPED = Check(id="named", status="SKIPPED", message="was not asked")


def test_what_passes_as_often_as_directly_is_good() -> None:
    assert judge({"named": 2}, [PASSED, PASSED], set()) == []


def test_a_failure_is_told_with_its_message() -> None:
    assert judge({"named": 1}, [FAILED], set()) == ["named: has no name"]


def test_one_failure_among_successes_is_a_failure() -> None:
    assert judge({"named": 1}, [PASSED, FAILED], set()) == ["named: has no name"]


def test_a_warning_is_a_failure() -> None:
    assert judge({"named": 1}, [PASSED, WARNED], set()) == ["named: has an odd name"]


def test_a_check_that_is_skipped_or_not_reached_is_a_failure() -> None:
    for found in ([], [SKIPPED], [PASSED, SKIPPED]):
        [fault] = judge({"named": 2}, found, set())
        assert fault == f"named: passes 2 times directly, {found.count(PASSED)} times here"


def test_a_failure_of_a_check_that_is_new_counts() -> None:
    assert judge({}, [FAILED], set()) == ["named: has no name"]


def test_a_check_that_fails_directly_may_fail_or_pass() -> None:
    assert judge({"named": 0}, [FAILED], set()) == []
    assert judge({"named": 0}, [PASSED], set()) == []


def test_a_listed_failure_is_excused() -> None:
    assert judge({"named": 1}, [FAILED], {"named"}) == []


def test_a_listed_check_that_passes_is_a_fault() -> None:
    assert judge({"named": 1}, [PASSED], {"named"}) == [
        "named: passes, yet is listed as an exception"
    ]


def test_a_pattern_excuses_what_it_matches_and_is_needed_while_something_does() -> None:
    assert judge({"named": 1}, [FAILED], {"n*"}) == []
    assert judge({"named": 1}, [FAILED], {"m*"}) == [
        "named: has no name",
        "m*: passes, yet is listed as an exception",
    ]


def test_a_tally_counts_what_passes_and_expects_nothing_of_what_fails_directly() -> None:
    other = Check(id="other", status="SUCCESS", message="")
    note = Check(id="note", status="INFO", message="")
    findings = {"scenario": [PASSED, other, FAILED, other, note]}
    assert tally(findings) == {"scenario": {"named": 0, "other": 2}}


def test_a_scenario_passes_in_which_something_succeeds_and_nothing_fails() -> None:
    note = Check(id="note", status="INFO", message="")
    findings = {"good": [PASSED, WARNED, note], "bad": [PASSED, FAILED], "silent": [note], "no": []}
    assert passing(findings) == {"good"}


def test_of_a_server_that_does_not_know_a_revision_is_expected_what_one_does_that_knows_it() -> (
    None
):
    baseline = {
        "sdk1": {"2025-11-25": {"ping": {"a": 1}}},
        "sdk2": {"2026-07-28": {"ask": {"b": 1}}},
    }
    assert expected_of(baseline, "sdk1", "2025-11-25") == {"ping": {"a": 1}}
    assert expected_of(baseline, "sdk1", "2026-07-28") == {"ask": {"b": 1}}


def test_an_exception_is_for_one_way_revision_and_scenario() -> None:
    text = """
    [[exception]]
    way = "http"
    revision = "2025-11-25"
    scenario = "ping"
    check = "named"
    why = "The suite is like that."
    """
    excuses = read_excuses(text)
    assert excuses == (
        Excuse(
            way="http",
            revision="2025-11-25",
            scenario="ping",
            check="named",
            why="The suite is like that.",
        ),
    )
    assert excused(excuses, "http", "2025-11-25", "ping") == {"named"}
    assert excused(excuses, "sse", "2025-11-25", "ping") == set()
    assert excused(excuses, "http", "2025-06-18", "ping") == set()
    assert excused(excuses, "http", "2025-11-25", "tools-list") == set()


def test_every_exception_is_for_something_that_is_run() -> None:
    baseline = read_baseline()
    run = {
        (name, revision, scenario)
        for name, way in WAYS.items()
        if not way.direct
        for revision in way.revisions
        for scenario in expected_of(baseline, way.sdk, revision)
    } | {
        ("client", revision, scenario)
        for revision, scenarios in baseline["client"].items()
        for scenario in scenarios
    }
    for excuse in read_excuses():
        assert any(excused([excuse], *place) for place in run), excuse
        assert excuse.why.endswith("."), excuse
