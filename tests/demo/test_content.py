"""Blocks of content in old and new revisions."""

from anyport.demo import content
from anyport.demo.revisions import REVISIONS


def test_a_link_carries_only_what_its_revision_knows() -> None:
    resource = {"uri": "demo://a", "name": "a", "title": "A", "icons": []}

    assert content.link(REVISIONS["2025-06-18"], resource) == {
        "type": "resource_link",
        "uri": "demo://a",
        "name": "a",
        "title": "A",
    }


def test_a_value_is_left_out_where_there_is_no_place_for_it() -> None:
    old, new = REVISIONS["2025-03-26"], REVISIONS["2025-06-18"]

    assert "structuredContent" not in content.structured(old, "1", {"n": 1})
    assert content.structured(new, "1", {"n": 1})["structuredContent"] == {"n": 1}
