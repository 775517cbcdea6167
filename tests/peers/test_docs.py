"""The README of the demo server is complete."""

import re
from pathlib import Path

from tests.peers.demo.apps import APP_TOOLS
from tests.peers.demo.brew_tools import BREW_TOOLS
from tests.peers.demo.options import _parser
from tests.peers.demo.tools import TOOLS

PAGE = Path(__file__).with_name("README.md").read_text()


def test_every_tool_is_in_the_table_with_its_arguments() -> None:
    for name, tool in {**TOOLS, **BREW_TOOLS, **APP_TOOLS}.items():
        (row,) = re.findall(rf"^\| `{name}` \|([^|]*)\|", PAGE, re.MULTILINE)

        named = re.findall(r"`(\w+)", row.replace(' or `"url"`', ""))
        assert named == list(tool.descriptor["inputSchema"]["properties"])


def test_every_option_is_on_the_page() -> None:
    options = set(re.findall(r"--[a-z][a-z-]*", _parser().format_help())) - {"--help"}

    assert options == set(re.findall(r"--[a-z][a-z-]*", PAGE))
