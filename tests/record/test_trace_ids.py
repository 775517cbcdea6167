import pytest

from anyport.record.trace_ids import (
    TraceContext,
    normalise_trace_id,
    parse_traceparent,
)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00", False),
        (f"00-{TRACE}-{SPAN}-ff", True),
        (f"00-{TRACE}-{SPAN}-02", False),
        (f"01-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
    ],
)
def test_a_valid_traceparent_is_read(text: str, sampled: bool) -> None:
    assert parse_traceparent(text) == TraceContext(trace_id=TRACE, span_id=SPAN, sampled=sampled)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "garbage",
        f"ff-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-01-",
        f"00-{TRACE}-{SPAN}-01.",
        f"cc-{TRACE}-{SPAN}-01.what",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}0-{SPAN}-01",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01\n",
        f" 00-{TRACE}-{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
        f"cc-{TRACE}-{SPAN}-01-" + "x" * 1_000_000,
    ],
)
def test_an_invalid_traceparent_is_ignored(text: str) -> None:
    assert parse_traceparent(text) is None


def test_what_came_in_a_later_version_is_rendered_as_version_00() -> None:
    parent = parse_traceparent(f"cc-{TRACE}-{SPAN}-ff-more")
    assert parent is not None
    assert parent.traceparent == f"00-{TRACE}-{SPAN}-01"


def test_the_flag_of_a_trace_that_is_not_sampled_is_kept() -> None:
    assert TraceContext(trace_id=TRACE, span_id=SPAN, sampled=False).traceparent.endswith("-00")


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (TRACE, TRACE),
        (TRACE.upper(), TRACE),
        ("550e8400-e29b-41d4-a716-446655440000", "550e8400e29b41d4a716446655440000"),
        (" 550E8400-E29B-41D4-A716-446655440000 ", "550e8400e29b41d4a716446655440000"),
        ("0" * 32, None),
        ("550e8400-e29b41d4a716-446655440000", None),
        ("", None),
        ("x" * 32, None),
    ],
)
def test_a_trace_id_is_stored_in_one_form(text: str, stored: str | None) -> None:
    assert normalise_trace_id(text) == stored
