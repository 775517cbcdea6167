"""The table of revisions against the official schemas."""

import pytest

from anyport.demo.revisions import REVISIONS
from tests.demo.schema import _document

SHAPES = {
    "implementation": "Implementation",
    "tool": "Tool",
    "resource": "Resource",
    "template": "ResourceTemplate",
    "prompt": "Prompt",
    "argument": "PromptArgument",
}


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_has_the_members_of_its_schema(revision: str, shape: str) -> None:
    official = set(_document(revision)[1][SHAPES[shape]]["properties"])

    assert REVISIONS[revision].fields[shape] == official


@pytest.mark.parametrize("revision", REVISIONS)
def test_trimming_leaves_only_what_is_known(revision: str) -> None:
    row = REVISIONS[revision]

    trimmed = row.trim("tool", {"name": "a", "inputSchema": {}, "unheard_of": 1})

    assert trimmed == {"name": "a", "inputSchema": {}}


def test_the_oldest_revision_comes_first() -> None:
    assert list(REVISIONS) == sorted(REVISIONS)
