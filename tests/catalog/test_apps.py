"""The views that tools name are found, and made public where they have to be."""

import json
from typing import Any

import pytest

from anyport.catalog.apps import rewrite_tool, view_uris

VIEW = "ui://dice/view"


def tool(about: Any) -> bytes:
    return json.dumps({"name": "dice", "_meta": about}).encode()


def public(uri: str) -> str:
    return uri.replace("ui://", "ui://a/")


@pytest.mark.parametrize(
    "about",
    [
        {"ui": {"resourceUri": VIEW}},
        {"ui/resourceUri": VIEW},
        {"ui": {"resourceUri": VIEW, "visibility": ["app"]}, "ui/resourceUri": VIEW},
        {"ui": 7, "ui/resourceUri": VIEW},
    ],
)
def test_both_spellings_are_read(about: Any) -> None:
    assert view_uris(tool(about)) == (VIEW,)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"name":"x"}',
        b'{"name":"resourceUri"}',
        tool({"ui": {"resourceUri": 7}}),
        tool({"ui": {"resourceUri": "https://example.com"}}),
        tool({"ui": ["resourceUri"]}),
        tool("resourceUri"),
        b'["resourceUri"]',
    ],
)
def test_most_tools_name_none(raw: bytes) -> None:
    assert view_uris(raw) == ()


def test_two_spellings_may_name_two_views() -> None:
    named = view_uris(tool({"ui": {"resourceUri": VIEW}, "ui/resourceUri": "ui://other"}))

    assert set(named) == {VIEW, "ui://other"}


def test_every_spelling_is_made_public_and_all_else_keeps_its_bytes() -> None:
    raw = (
        b'{ "name": "x", "_meta": {"v": 1.0, "ui": {"resourceUri": "ui://d", "visibility": '
        b'["app"]}, "ui/resourceUri": "ui://d"} }'
    )

    assert rewrite_tool(raw, public) == raw.replace(b"ui://d", b"ui://a/d")


def test_what_is_public_already_is_not_touched() -> None:
    raw = tool({"ui": {"resourceUri": VIEW}})

    assert rewrite_tool(raw, str) is raw


def test_a_tool_that_names_two_views_in_one_place_is_left_alone() -> None:
    raw = b'{"name":"x","_meta":{"ui":{"resourceUri":"ui://a","resourceUri":"ui://b"}}}'

    assert rewrite_tool(raw, public) is raw
