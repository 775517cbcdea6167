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
    ],
)
def test_options_that_make_no_sense_are_refused(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        read_options(argv)

    assert refused.value.code == 2
    assert "usage:" in capsys.readouterr().err
