"""The command line."""

import pytest

from anyport.demo.options import Options, read_options
from anyport.demo.revisions import REVISIONS


def test_without_options_every_revision_is_spoken() -> None:
    assert read_options([]) == Options(revisions=frozenset(REVISIONS))


def test_an_era_narrows_the_revisions() -> None:
    assert read_options(["--modern-only"]).revisions == {"2026-07-28"}
    assert read_options(["--legacy-only"]).revisions == set(REVISIONS) - {"2026-07-28"}
    both = ["--revision", "2024-11-05", "--revision", "2026-07-28"]
    assert read_options(both).revisions == {"2024-11-05", "2026-07-28"}
    assert read_options([*both, "--legacy-only"]).revisions == {"2024-11-05"}


@pytest.mark.parametrize(
    "argv",
    [
        ["--legacy-only", "--modern-only"],
        ["--revision", "2024-11-05", "--modern-only"],
        ["--revision", "tomorrow"],
        ["--page-size", "0"],
        ["--tools", "many"],
        ["--http", "-1"],
        ["--http", "65536"],
        ["--http", "0", "--json-only", "--sse-only"],
        ["--http", "0", "--transport", "pigeon"],
        ["--http", "0", "--lose-sessions", "0"],
        ["--drop-streams"],
        ["--host", "0.0.0.0"],
    ],
)
def test_options_that_make_no_sense_are_refused(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        read_options(argv)

    assert refused.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_http_has_options_of_its_own() -> None:
    argv = ["--http", "0", "--sse-only", "--drop-streams", "--lose-sessions", "3"]
    options = read_options([*argv, "--transport", "streamable", "--host", "::1"])

    assert (options.http_port, options.host, options.transport) == (0, "::1", "streamable")
    assert (options.style, options.drop_streams, options.lose_sessions) == ("sse", True, 3)


def test_tasks_are_there_when_asked_for() -> None:
    assert not read_options([]).tasks
    assert read_options(["--tasks"]).tasks


def test_apps_and_skills_are_there_when_asked_for() -> None:
    plain, both = read_options([]), read_options(["--apps", "--skills"])
    assert (plain.apps, plain.skills, both.apps, both.skills) == (False, False, True, True)


def test_the_revisions_of_an_era_are_told_apart() -> None:
    options = Options(revisions=frozenset({"2026-07-28", "2025-06-18", "2024-11-05"}))

    assert list(options.legacy) == ["2024-11-05", "2025-06-18"]
    assert list(options.modern) == ["2026-07-28"]
