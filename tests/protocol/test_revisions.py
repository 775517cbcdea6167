"""The table of revisions agrees with the specifications."""

import pytest

from anyport.protocol.revisions import (
    FIRST_CONTENT,
    LATER_CONTENT,
    LEGACY,
    MODERN,
    NEWEST_LEGACY,
    NEWEST_MODERN,
    REVISIONS,
    UNNEGOTIATED,
    Era,
    find_revision,
    negotiate,
)

ALL = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


def having(column: str) -> list[str]:
    """The revisions that have a feature."""
    return [name for name, revision in REVISIONS.items() if getattr(revision, column)]


def test_revisions_are_oldest_first_and_only_the_newest_is_modern() -> None:
    assert list(REVISIONS) == ALL
    assert [revision.name for revision in LEGACY] == ALL[:-1]
    assert [revision.name for revision in MODERN] == ALL[-1:]
    assert (NEWEST_LEGACY.name, NEWEST_MODERN.name) == ("2025-11-25", "2026-07-28")
    assert {revision.era for revision in LEGACY} == {Era.LEGACY}


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("batches", ["2025-03-26"]),
        ("completions_capability", ALL[1:]),
        ("null_ids", ALL[:3]),
        ("structured", ALL[2:]),
        ("elicitation", ALL[2:]),
        ("rich_forms", ALL[3:]),
        ("rich_sampling", ALL[3:]),
    ],
)
def test_what_a_revision_has_is_what_the_specification_gave_it(
    column: str, names: list[str]
) -> None:
    assert having(column) == names


def test_unknown_tools_are_reported_as_each_revision_has_it() -> None:
    assert REVISIONS["2024-11-05"].unknown_tool == (-32601, "Tool not found: {}")
    assert {REVISIONS[name].unknown_tool for name in ALL[1:]} == {(-32602, "Unknown tool: {}")}


def test_a_client_that_skipped_the_handshake_is_taken_for_one_of_2025_03_26() -> None:
    assert UNNEGOTIATED.name == "2025-03-26"
    assert UNNEGOTIATED.batches
    assert not UNNEGOTIATED.missing_content


@pytest.mark.parametrize("name", ALL)
def test_content_of_a_kind_that_a_revision_has_not_is_noticed(name: str) -> None:
    revision = REVISIONS[name]
    has = FIRST_CONTENT | revision.content

    for kind in {*FIRST_CONTENT, *LATER_CONTENT, "film", "", "Text", "text "}:
        for block in (b'{"type":"%b"}', b'{"type": "%b"}'):
            found = revision.other_content.search(block % kind.encode())
            assert (found is None) == (kind in has)
    assert revision.other_content.search(b'{"type" : "film"}') is not None
    assert revision.other_content.search(b'{"type":1}') is not None
    assert revision.other_content.search(b'{"text":"\\"type\\":\\"film\\""}') is None


@pytest.mark.parametrize(
    ("asked", "name"), [(name, name) for name in ALL] + [("2024-10-07", "2024-11-05")]
)
def test_a_revision_is_found_by_either_of_its_names(asked: str, name: str) -> None:
    found = find_revision(asked)

    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("asked", ["", "2025-06-19", "2099-01-01", "junk", "2025-06-18 "])
def test_an_unknown_revision_is_not_found(asked: str) -> None:
    assert find_revision(asked) is None


@pytest.mark.parametrize(
    ("asked", "agreed"),
    [(name, name) for name in ALL[:-1]]
    + [("2024-10-07", "2024-11-05")]
    + [(name, "2025-11-25") for name in ("2026-07-28", "2099-01-01", "1.0", "junk", "")],
)
def test_a_handshake_agrees_on_what_was_asked_or_counters_with_our_newest(
    asked: str, agreed: str
) -> None:
    assert negotiate(asked).name == agreed
