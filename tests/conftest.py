"""What every test runs under, and nothing else: fixtures live beside the tests that use them."""

import os
import signal
from collections.abc import Generator

import hypothesis
import pytest

IN_CI = bool(os.environ.get("CI"))

# A shell that runs us in the background has us ignore Ctrl-C, and what we start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

if not IN_CI:  # In CI hypothesis loads a profile of its own, which also fixes the examples.
    # How long examples take is a test of the machine's load, not of the code.
    hypothesis.settings.register_profile(
        "anyport", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
    )
    hypothesis.settings.load_profile("anyport")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # pytest tells an expected failure as a skip too.
    if not hasattr(report, "wasxfail"):
        refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """In CI a skip is a failure: a test that silently stopped running protects nobody."""
    if IN_CI and report.outcome == "skipped":
        where = report.longrepr
        reason = where[2] if isinstance(where, tuple) else report.longreprtext
        report.outcome = "failed"
        report.longrepr = f"CI allows no skips. {reason}"
