"""The tool that has a view, and the one that only the view calls."""

import re
from collections.abc import Coroutine

import pytest

from anyport.demo.apps import APP_TOOLS, MIME_TYPE, VIEW
from anyport.demo.faults import Fault
from anyport.demo.options import Options
from anyport.demo.resources import list_resources, read_resource, touch
from anyport.demo.revisions import REVISIONS
from anyport.demo.tools import list_tools, start_tools
from tests.demo.fakes import FakeCall


def with_app(revision: str = "2026-07-28", *, apps: bool = True) -> FakeCall:
    call = FakeCall(revision, options=Options(apps=apps))
    call.world.tools.update(start_tools(0, apps=apps))
    return call


@pytest.mark.parametrize("revision", REVISIONS)
def test_its_tools_name_the_view_where_the_revision_has_a_place_for_it(revision: str) -> None:
    listed = {tool["name"]: tool for tool in list_tools(with_app(revision), {})["tools"]}

    shows = revision not in ("2024-11-05", "2025-03-26")
    for name in APP_TOOLS:
        assert ("_meta" in listed[name]) is shows
    if shows:
        about = listed["dice_again"]["_meta"]
        assert about["ui"] == {"resourceUri": VIEW, "visibility": ["app"]}
        assert about["ui/resourceUri"] == VIEW


def test_the_view_is_a_page_that_calls_by_the_names_its_author_knows() -> None:
    call = with_app()
    (listed,) = [each for each in list_resources(call, {})["resources"] if each["uri"] == VIEW]
    (page,) = read_resource(call, {"uri": VIEW})["contents"]

    assert listed["mimeType"] == page["mimeType"] == MIME_TYPE
    assert page["_meta"]["ui"]["prefersBorder"] is True
    assert re.findall(r'name: "(dice\w*)"', page["text"])[0] in APP_TOOLS
    assert "_meta" not in read_resource(with_app("2024-11-05"), {"uri": VIEW})["contents"][0]


def test_both_tools_throw_the_same() -> None:
    for tool in APP_TOOLS.values():
        done = tool.run(with_app(), {"faces": 20})
        assert not isinstance(done, Coroutine)
        assert done["content"][0]["text"] == "A 20, the best of 20."


def test_without_the_option_there_is_no_view_and_it_never_changes() -> None:
    call = with_app(apps=False)

    assert not {tool["name"] for tool in list_tools(call, {})["tools"]} & APP_TOOLS.keys()
    assert VIEW not in {each["uri"] for each in list_resources(call, {})["resources"]}
    with pytest.raises(Fault):
        read_resource(call, {"uri": VIEW})
    assert touch(with_app().world, VIEW) is None
