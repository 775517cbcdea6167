"""Why a tool is missing."""

import pytest

from anyport.cli.lookup import explain_missing
from anyport.routing.catalog import Entry

ENTRIES = [
    Entry("tiny__add", "tiny", "add", b"{}"),
    Entry("tiny__picture", "tiny", "picture", b"{}"),
    Entry("a__same", "a", "same", b"{}"),
    Entry("b__same", "b", "same", b"{}"),
]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("zzz", "there is no tool 'zzz'; 'anyport tools' lists what there is"),
        ("pictur", "there is no tool 'pictur'; did you mean tiny__picture?"),
        ("off__x", "there is no tool 'off__x'; server 'off' is disabled in the configuration"),
        ("same", "two servers have 'same': a__same, b__same"),
    ],
)
def test_a_missing_tool_is_explained(name: str, told: str) -> None:
    assert explain_missing(name, ENTRIES, disabled=["off"], separator="__") == told
