import json
from pathlib import Path

import pytest

from tests.conformance.suite import HUNG, Check, hung, read_findings

STAMP = "2026-07-28T10-20-30-456Z"


def write(folder: Path, name: str, *checks: dict[str, str], stamp: str = STAMP) -> None:
    place = folder / f"{name}-{stamp}"
    place.mkdir(parents=True)
    (place / "checks.json").write_text(json.dumps(checks))


def test_findings_are_read_by_the_scenario(tmp_path: Path) -> None:
    write(tmp_path, "server-ping", {"id": "ping", "status": "SUCCESS", "description": "Answers"})
    write(
        tmp_path, "server-server-initialize", {"id": "a", "status": "FAILURE", "errorMessage": "No"}
    )
    write(tmp_path, "auth/metadata-default", {"id": "b", "status": "INFO"})

    assert read_findings(tmp_path) == {
        "ping": [Check(id="ping", status="SUCCESS", message="Answers")],
        "server-initialize": [Check(id="a", status="FAILURE", message="No")],
        "auth/metadata-default": [Check(id="b", status="INFO", message="")],
    }


def test_a_scenario_that_never_ended_is_missing_from_the_findings(tmp_path: Path) -> None:
    (tmp_path / f"server-ping-{STAMP}").mkdir()
    assert read_findings(tmp_path) == {}


def test_of_a_scenario_that_ran_twice_the_second_time_counts(tmp_path: Path) -> None:
    later = STAMP.replace("T10", "T11")
    write(tmp_path, "server-ping", {"id": "ping", "status": "SUCCESS"}, stamp=later)
    write(tmp_path, "server-ping", {"id": HUNG, "status": "FAILURE"})
    assert [check.id for check in read_findings(tmp_path)["ping"]] == ["ping"]


def test_a_scenario_that_the_suite_gave_up_has_hung(tmp_path: Path) -> None:
    write(tmp_path, "server-ping", {"id": "ping", "status": "SUCCESS"})
    write(tmp_path, "server-tools-list", {"id": HUNG, "status": "FAILURE"})
    assert hung(read_findings(tmp_path)) == ["tools-list"]


def test_results_of_an_unknown_naming_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ping").mkdir()
    (tmp_path / "ping" / "checks.json").write_text("[]")
    with pytest.raises(AssertionError, match="ping is not how the suite names"):
        read_findings(tmp_path)
