"""The page about the demo server leaves nothing out."""

import re
from pathlib import Path

import pytest

from anyport.demo.apps import APP_TOOLS
from anyport.demo.brew_tools import BREW_TOOLS
from anyport.demo.options import _parser
from anyport.demo.tools import TOOLS

PAGE = (Path(__file__).parents[2] / "docs" / "demo-server.md").read_text()


ALL_TOOLS = {**TOOLS, **BREW_TOOLS, **APP_TOOLS}


@pytest.mark.parametrize("name", ALL_TOOLS)
def test_every_tool_is_in_the_table_with_its_arguments(name: str) -> None:
    (row,) = re.findall(rf"^\| `{name}` \|([^|]*)\|", PAGE, re.MULTILINE)

    named = re.findall(r"`(\w+)", row.replace(' or `"url"`', ""))
    assert named == list(ALL_TOOLS[name].descriptor["inputSchema"]["properties"])


def test_every_option_is_on_the_page() -> None:
    options = set(re.findall(r"--[a-z][a-z-]*", _parser().format_help())) - {"--help"}

    assert options == set(re.findall(r"--[a-z][a-z-]*", PAGE))
