"""Pages and cursors."""

import base64

import pytest

from anyport.demo.faults import Fault
from anyport.demo.options import Options
from anyport.demo.paging import page
from anyport.demo.revisions import Json
from anyport.demo.tools import TOOLS
from tests.demo.driver import Demo

ENTRIES: list[Json] = [{"n": number} for number in range(5)]


def all_pages(options: Options) -> tuple[list[list[int]], list[str]]:
    pages: list[list[int]] = []
    cursors: list[str] = []
    params: Json = {}
    while True:
        result = page(options, "things", ENTRIES, params)
        pages.append([entry["n"] for entry in result["things"]])
        if "nextCursor" not in result:
            return pages, cursors
        cursors.append(result["nextCursor"])
        params = {"cursor": cursors[-1]}


def test_without_a_page_size_there_is_one_page() -> None:
    assert all_pages(Options()) == ([[0, 1, 2, 3, 4]], [])
    assert page(Options(), "things", [], {}) == {"things": []}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("empty", [False, True])
def test_the_pages_together_are_the_list(size: int, empty: bool) -> None:
    pages, cursors = all_pages(Options(page_size=size, empty_cursor=empty))

    assert [number for numbers in pages for number in numbers] == [0, 1, 2, 3, 4]
    assert all(len(numbers) <= size for numbers in pages)
    assert ("" in cursors) is (empty and size < len(ENTRIES))


@pytest.mark.parametrize(
    "cursor",
    [
        None,
        7,
        "",
        "!",
        "ÿ",
        "abc",
        base64.urlsafe_b64encode(b"\xff").decode(),
        base64.urlsafe_b64encode(b"others:2").decode(),
        base64.urlsafe_b64encode(b"things:-2").decode(),
        base64.urlsafe_b64encode(b"things:two").decode(),
    ],
)
def test_a_cursor_that_was_never_given_out_is_refused(cursor: object) -> None:
    with pytest.raises(Fault) as refused:
        page(Options(page_size=2), "things", ENTRIES, {"cursor": cursor})

    assert refused.value.code == -32602


@pytest.mark.parametrize("option", [[], ["--empty-cursor"]])
def test_a_client_that_follows_the_cursors_sees_every_tool(option: list[str]) -> None:
    with Demo("--page-size", "7", "--tools", "30", *option) as demo:
        demo.handshake()
        names: list[str] = []
        params: Json = {}
        while True:
            result = demo.ask("tools/list", params)["result"]
            names += [tool["name"] for tool in result["tools"]]
            if "nextCursor" not in result:
                break
            params = {"cursor": result["nextCursor"]}

        assert len(names) == len(set(names)) == len(TOOLS) + 30
        assert names[-1] == "tool_0029"
