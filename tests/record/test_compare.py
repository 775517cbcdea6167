"""Two answers compared."""

from typing import Any

import pytest

from anyport.protocol import meta
from anyport.record.compare import ABSENT, DIFFERENCES_MAX, CompareMode, compare, strip_hop_meta
from anyport.record.redact.redactor import MARK
from tests.record.story import CPU_SECONDS_MAX, cpu_seconds


def places(expected: Any, actual: Any, mode: CompareMode = CompareMode.RECORDED) -> list[str]:
    return [each.path for each in compare(expected, actual, mode).differences]


@pytest.mark.parametrize("mode", CompareMode)
@pytest.mark.parametrize(
    ("expected", "actual", "path"),
    [
        ({"result": {"a": [1, {"b": "x"}]}}, {"result": {"a": [1, {"b": "y"}]}}, "result.a[1].b"),
        ({"result": {"a": 1}}, {"result": {}}, "result.a"),
        ({"a": [1]}, {"a": [1, 2]}, "a[1]"),
        ({"a": [1, 2]}, {"a": [1]}, "a[1]"),
        ({"a": True}, {"a": 1}, "a"),
        ({"a": 0}, {"a": False}, "a"),
        ({"a": None}, {}, "a"),
        ({"a b": 1}, {"a b": 2}, '["a b"]'),
        ({"a": "1"}, {"a": 1}, "a"),
    ],
)
def test_a_difference_is_named_by_its_place(
    expected: Any, actual: Any, path: str, mode: CompareMode
) -> None:
    assert places(expected, actual, mode) == [path]


@pytest.mark.parametrize("mode", CompareMode)
def test_what_is_the_same_has_no_difference(mode: CompareMode) -> None:
    answer = {"result": {"content": [{"type": "text", "text": "x"}], "n": 1.0, "z": None}}
    assert places(answer, {"result": {"z": None, "n": 1, **answer["result"]}}, mode) == []


def test_more_members_are_a_difference_unless_a_part_is_expected() -> None:
    expected, actual = {"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}

    [inner, outer] = compare(expected, actual, CompareMode.EXACT).differences
    assert (inner.path, inner.expected, inner.actual) == ("a.c", ABSENT, 2)
    assert (outer.path, outer.expected, outer.actual) == ("d", ABSENT, 3)
    assert places(expected, actual, CompareMode.SUBSET) == []


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("at 2026-07-28T12:00:00.250+00:00", "at 2026-11-15T22:00:00Z"),
        ("at 2026-07-28 12:00", "at 2026-11-15 22:00"),
        ("Tue, 28 Jul 2026 12:00:00 GMT", "Sun, 15 Nov 2026 22:00:01 GMT"),
        ("Tue Jul 28 2026 12:00:00", "Sun Nov 15 2026 22:00:01"),
        ("took until 12:00:00", "took until 9:00:00.5"),
        (
            "id 123e4567-e89b-12d3-a456-426614174000",
            "id 00000000-0000-0000-0000-000000000001",
        ),
    ],
)
def test_times_and_ids_in_texts_are_passed_over_and_said_to_be(then: str, now: str) -> None:
    found = compare({"result": {"text": then}}, {"result": {"text": now}}, CompareMode.RECORDED)

    assert found.is_equal
    assert found.ignored_paths == ["result.text"]
    assert not compare(then, now, CompareMode.EXACT).is_equal
    assert not compare(then, now, CompareMode.SUBSET).is_equal


@pytest.mark.parametrize(
    ("then", "now"),
    [("at noon", "at night"), ("2026-07-28", "2026-07-29"), ("12:00", "13:00"), ("a1", "a2")],
)
def test_other_texts_are_not(then: str, now: str) -> None:
    assert not compare(then, now, CompareMode.RECORDED).is_equal


def test_what_a_server_made_up_is_passed_over_and_remembered() -> None:
    found = compare(
        {"nextCursor": "abc", "ttlMs": 5}, {"nextCursor": "xyz", "ttlMs": 7}, CompareMode.RECORDED
    )

    assert found.is_equal
    assert found.renamed_values == {"abc": "xyz"}
    assert places({"nextCursor": "abc"}, {}) == ["nextCursor"]
    assert places({"ttlMs": 5}, {"ttlMs": "5"}) == ["ttlMs"]


def test_what_was_redacted_may_be_anything() -> None:
    recorded = f"token {MARK} of {MARK}."

    assert compare(recorded, "token abc of me.", CompareMode.RECORDED).is_equal
    assert not compare(recorded, "token abc for me.", CompareMode.RECORDED).is_equal
    assert not compare(recorded, "token abc of me", CompareMode.RECORDED).is_equal
    assert not compare(f"aa{MARK}aa", "aaa", CompareMode.RECORDED).is_equal


def test_the_stamps_of_a_hop_do_not_count() -> None:
    stamps = {meta.SERVER_INFO: {"name": "x"}, meta.PROGRESS_TOKEN: 1, meta.TRACEPARENT: "00"}

    assert strip_hop_meta({"result": {"a": 1, "_meta": stamps}}) == {"result": {"a": 1}}
    assert strip_hop_meta({"_meta": {**stamps, "vendor/own": 1}}) == {"_meta": {"vendor/own": 1}}
    assert places({"result": {}}, {"result": {"_meta": {"vendor/own": 1}}}) == ["result._meta"]


def test_of_many_differences_some_are_told() -> None:
    found = compare(list(range(1000)), list(range(1, 1001)), CompareMode.EXACT)
    assert len(found.differences) == DIFFERENCES_MAX


@pytest.mark.parametrize("text", ["2026-07-28T", "12:", "1" * 8 + "-", "Mon, ", "[redacted]"])
def test_texts_of_strangers_are_compared_quickly(text: str) -> None:
    expected, actual = text * 50_000, text * 50_000 + "x"
    assert cpu_seconds(lambda: compare(expected, actual, CompareMode.RECORDED)) < CPU_SECONDS_MAX
