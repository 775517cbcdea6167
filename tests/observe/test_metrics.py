"""What is counted, and what is not told apart."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.observe.metrics import (
    OPERATION,
    OPERATION_BOUNDS,
    OTHER_LABEL,
    OVERHEAD,
    OVERHEAD_BOUNDS,
    REQUEST,
    SERIES_MAX,
    TOOL_NAME_CHARS_MAX,
    TOOL_NAMES_MAX,
    UNSORTED_TIMES_MAX,
    CallLabels,
    Histogram,
    HistogramFamily,
    Metrics,
    copy_histograms,
    error_type,
)
from anyport.protocol.errors import Timeout


def call(
    tool: str = "read", error: str = "", server: str = "docs", profile: str = "dev"
) -> CallLabels:
    return ("tools/call", profile, "2025-11-25", "tcp", server, tool, error)


def metrics() -> Metrics:
    return Metrics(lambda: 0.0)


def count(histogram: Histogram) -> float:
    return sum(histogram[:-1])


def naive(bounds: tuple[float, ...], values: list[float]) -> Histogram:
    counts = [0.0] * (len(bounds) + 1)
    for value in values:
        counts[bisect_left(bounds, value)] += 1
    return [*counts, sum(sorted(values))]


SECONDS = st.floats(min_value=0, max_value=1000) | st.sampled_from(OPERATION_BOUNDS)


@given(st.lists(st.tuples(SECONDS, SECONDS | st.none()), max_size=UNSORTED_TIMES_MAX // 2))
def test_every_call_is_counted_under_the_bound_it_reaches(
    calls: list[tuple[float, float | None]],
) -> None:
    numbers = metrics()
    for own, waited in calls:
        numbers.count_call(call(), own + (waited or 0.0), waited)
    numbers.update_histograms()

    if not calls:
        assert numbers.operations == {}
        return
    key = ("tools/call", "dev", "2025-11-25", "tcp", "")
    took = [own + (waited or 0.0) for own, waited in calls]
    rest = [total - (waited or 0.0) for total, (_, waited) in zip(took, calls, strict=True)]
    waits = [waited for _, waited in calls if waited is not None]
    assert numbers.operations == {key: naive(OPERATION_BOUNDS, took)}
    assert numbers.requests == {("tools/call", "docs", "read", ""): naive(OPERATION_BOUNDS, waits)}
    assert numbers.overheads == {("tools/call",): naive(OVERHEAD_BOUNDS, rest)}


def test_what_is_counted_is_sorted_by_itself_before_it_becomes_much() -> None:
    numbers = metrics()
    for _ in range(UNSORTED_TIMES_MAX // 2):
        numbers.count_call(call(), 0.5, 0.25)

    [counted] = numbers.operations.values()
    assert count(counted) == UNSORTED_TIMES_MAX // 2


def test_calls_with_the_same_labels_can_be_counted_without_a_look_up() -> None:
    numbers = metrics()
    series = numbers.series_for(call())
    series.add(0.5, 0.25)
    numbers.count_call(call(), 0.5, 0.25)
    numbers.update_histograms()

    assert numbers.series_for(call()) is series
    [counted] = numbers.requests.values()
    assert (count(counted), counted[-1]) == (2, 0.5)


def test_what_no_server_was_asked_for_is_the_gateways_own_time() -> None:
    numbers = metrics()
    numbers.count_call(("tools/list", "dev", "2025-11-25", "pipe", "", "", ""), 0.25, None)
    numbers.update_histograms()

    assert numbers.requests == {}
    assert numbers.overheads[("tools/list",)][-1] == 0.25


@pytest.mark.parametrize(
    ("status", "code", "label"),
    [
        ("success", None, ""),
        ("failure", None, "tool_error"),
        ("failure", -32602, "-32602"),
        ("failure", 4711, OTHER_LABEL),
        ("timeout", -32000, "timeout"),
        ("cancelled", None, "cancelled"),
    ],
)
def test_an_ending_has_one_of_a_few_labels(status: str, code: int | None, label: str) -> None:
    assert error_type(status, code) == label  # type: ignore[arg-type]


def test_a_tool_is_told_apart_once_it_has_worked() -> None:
    numbers = metrics()
    numbers.count_call(call("invented", "-32602"), 1.0, 1.0)
    numbers.count_call(call("read"), 1.0, 1.0)
    numbers.count_call(call("read", "tool_error"), 1.0, 1.0)
    numbers.update_histograms()

    assert {(tool, error) for _, _, tool, error in numbers.requests} == {
        *((OTHER_LABEL, "-32602"), ("read", ""), ("read", "tool_error")),
    }


def test_no_more_tools_are_told_apart_than_the_limit() -> None:
    numbers = metrics()
    for number in range(TOOL_NAMES_MAX + 10):
        numbers.count_call(call(f"t{number}"), 1.0, 1.0)
    numbers.count_call(call("x" * (TOOL_NAME_CHARS_MAX + 1)), 1.0, 1.0)
    numbers.update_histograms()

    assert len(numbers.requests) == TOOL_NAMES_MAX + 1
    assert count(numbers.requests["tools/call", "docs", OTHER_LABEL, ""]) == 11


def test_no_more_series_are_kept_than_the_limit() -> None:
    numbers = metrics()
    for number in range(SERIES_MAX + 10):
        numbers.count_call(call("", profile=f"p{number}"), 1.0, 1.0)
    numbers.update_histograms()

    assert len(numbers.operations) == SERIES_MAX + 1
    assert count(numbers.operations["tools/call", OTHER_LABEL, "2025-11-25", "tcp", ""]) == 10
    assert sum(map(count, numbers.requests.values())) == SERIES_MAX + 10


def test_a_session_is_counted_when_it_ends_and_only_once() -> None:
    moments = iter([0.0, 10.0, 12.5])
    numbers = Metrics(lambda: next(moments))
    numbers.start_lifetime("s1")
    numbers.end_session("s1", "dev", "2025-11-25", "tcp")
    numbers.end_session("s1", "dev", "2025-11-25", "tcp")
    numbers.end_session("never opened", "dev", "2025-11-25", "tcp")

    [ended] = numbers.sessions.values()
    assert (count(ended), ended[-1]) == (1, 2.5)


def test_a_connection_is_counted_under_its_server() -> None:
    moments = iter([0.0, 10.0, 10.5, 11.0])
    numbers = Metrics(lambda: next(moments))
    connection = object()
    numbers.start_lifetime(connection)
    numbers.start_lifetime(connection)  # Ready again, with another session.
    numbers.end_connection(connection, "docs")

    assert numbers.connections[("docs",)][-1] == 1.0


def test_restarts_and_uptime_are_counted_from_the_start() -> None:
    moments = iter([10.0, 12.0])
    numbers = Metrics(lambda: next(moments))
    numbers.count_restart("docs")
    numbers.count_restart("docs")

    assert numbers.restarts == {"docs": 2}
    assert numbers.uptime_seconds == 2.0


def test_every_timeout_is_there_from_the_start_and_counted_by_its_name() -> None:
    numbers = metrics()
    assert numbers.timeouts == dict.fromkeys(Timeout, 0)

    numbers.count_timeout(Timeout.CAP)
    numbers.count_timeout(Timeout.CAP)

    assert numbers.timeouts[Timeout.CAP] == 2
    assert sum(numbers.timeouts.values()) == 2


# Histogram families


@pytest.mark.parametrize(
    ("family", "labels"),
    [
        (OVERHEAD, ("mcp_method_name",)),
        (REQUEST, ("mcp_method_name", "server", "gen_ai_tool_name", "error_type")),
    ],
)
def test_labels_are_attributes_without_our_name(
    family: HistogramFamily, labels: tuple[str, ...]
) -> None:
    assert family.labels == labels


def test_what_is_read_does_not_change_any_more() -> None:
    metrics = Metrics(lambda: 0.0)
    call = ("ping", "dev", "2025-06-18", "tcp", "", "", "")
    metrics.count_call(call, 1.0, None)
    before = copy_histograms(metrics)
    metrics.count_call(call, 1.0, None)

    assert [family for family, _ in before][:1] == [OPERATION]
    [(_, counts)] = dict(before)[OPERATION]
    assert (sum(counts[:-1]), counts[-1]) == (1, 1.0)
