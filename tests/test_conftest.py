"""The rule of tests/conftest.py, tried on small suites; workers are on because `make` uses them."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow

SKIPS_A_TEST = """
import pytest

@pytest.mark.skip(reason="no such server here")
def test_that_is_skipped(): ...

@pytest.mark.xfail(reason="not yet")
def test_that_fails_as_expected(): raise AssertionError

def test_that_passes(): ...
"""
SKIPS_ITSELF = "import pytest; pytest.importorskip('no_such_module')"


def run_suite(pytester: pytest.Pytester, source: str) -> pytest.RunResult:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text())
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess("-n", "1")


def test_a_skipped_test_fails_in_ci_and_an_expected_failure_does_not(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")

    result = run_suite(pytester, SKIPS_A_TEST)

    result.assert_outcomes(passed=1, xfailed=1, errors=1)
    result.stdout.fnmatch_lines(["ERROR *test_that_is_skipped*no skips*no such server here*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_module_that_skips_itself_fails_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", "true")

    result = run_suite(pytester, SKIPS_ITSELF)

    result.assert_outcomes(errors=1)
    assert result.ret != pytest.ExitCode.OK


def test_a_skip_outside_ci_is_only_a_skip(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)

    result = run_suite(pytester, SKIPS_A_TEST)

    result.assert_outcomes(passed=1, xfailed=1, skipped=1)
    assert result.ret == pytest.ExitCode.OK
