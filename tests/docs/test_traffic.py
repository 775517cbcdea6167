"""What the pages say of the traffic is true."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from anyport.cli.commands.traffic import TITLES
from anyport.config import load
from anyport.config.model import Capture
from anyport.gateway.api.views import DETAILS_BYTES_MAX
from anyport.record.filter.keys import FRAME_KINDS, OUTCOMES
from anyport.record.traffic import ClientSide, Row, ServerSide, Sizes, Timings
from tests.docs.test_docs import fences, text_of

PAGE = text_of("docs/guides/traffic.md")


def table(heading: str, column: int = 0) -> list[str]:
    """The words in code of a column of the table below a heading."""
    below = PAGE.partition(f"\n{heading}\n")[2]
    rows = re.search(r"^\|.*?(?=\n\n)", below, re.MULTILINE | re.DOTALL)
    assert rows is not None
    cells = [line.split(" | ")[column] for line in rows[0].splitlines()[2:]]
    return [word for cell in cells for word in re.findall(r'`"?([^`"]+)"?`', cell)]


def cell(member: str) -> str:
    [found] = re.findall(rf"^\| `{member}` \| (.*) \|$", PAGE, re.MULTILINE)
    return str(found)


def test_every_member_of_a_row_is_explained() -> None:
    assert table("## A row") == list(Row.__struct_fields__)


@pytest.mark.parametrize(
    ("member", "shape"),
    [("client", ClientSide), ("upstream", ServerSide), ("timings", Timings), ("sizes", Sizes)],
)
def test_every_member_of_a_part_is_named(member: str, shape: type[msgspec.Struct]) -> None:
    named = set(re.findall(r"`(\w+)`", cell(member)))
    assert set(shape.__struct_fields__) == named


def test_every_kind_of_frame_is_explained() -> None:
    assert table("### Frames") == list(FRAME_KINDS)


def test_every_outcome_is_named() -> None:
    named = re.findall(r"`(\w+)`", cell("outcome"))
    assert [word for word in named if word not in ("isError", "off")] == list(OUTCOMES)
    for outcome in OUTCOMES:
        assert f"`{outcome}`" in text_of("docs/reference/commands/traffic.md")


def test_every_capture_level_is_explained() -> None:
    assert set(table("## How much is recorded")) == set(get_args(Capture))


def test_every_column_is_explained() -> None:
    page = text_of("docs/reference/commands/traffic.md")
    assert all(f"`{title}`" in page for title in TITLES)


def test_the_configuration_of_the_page_loads(tmp_path: Path) -> None:
    [example] = fences("docs/guides/traffic.md", "toml")
    file = tmp_path / "anyport.toml"
    file.write_text(example)
    config = load([file], {})

    assert config.record.capture == "shape"
    assert config.capture("dev", "github") == "full"
    assert config.capture("dev", "other") == "off"


def test_the_numbers_on_the_page_are_ours() -> None:
    assert f"after {DETAILS_BYTES_MAX // 1024**2} MiB of" in text_of("docs/reference/api.md")
