"""The page of promises: every test that it names is there, and so is every figure in full."""

import ast
import re
from collections.abc import Sized
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.record.adversarial_texts import PIECES, STRUCTURES
from tests.rig import flooding_peers

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "evidence" / "reliability.md").read_text()
ROW: Final = re.compile(r"^\| (.+?) \| `pytest (\S+?)` \| (.*?) \| (.*?) \|$", re.MULTILINE)
NUMBER: Final = re.compile(r"\d[\d,]*(?:\.\d+)?")

WAYS: Final = {
    "test_clients_that_flood_delay_nobody_else": flooding_peers.CLIENTS,
    "test_clients_that_nobody_knows_delay_each_other_as_little": flooding_peers.NAMELESS,
    "test_stdio_servers_that_flood_delay_nobody_else": (
        *flooding_peers.LINES,
        *flooding_peers.STDERR,
    ),
    "test_servers_over_http_that_flood_delay_nobody_else": flooding_peers.STREAMS,
    "test_lookalikes_take_no_longer_than_ten_times_prose": PIECES,
    "test_payloads_of_many_small_parts_take_no_longer_than_ten_times_prose": STRUCTURES,
}
"""What each of these tests is done with; the page says how many that are."""


class Promise(NamedTuple):
    """A row of the page."""

    words: str
    test: str
    commit: str
    full: str


PROMISES: Final = [Promise(*found) for found in ROW.findall(PAGE)]


@cache
def source(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text())


def named_in(path: str) -> set[str]:
    return {node.name for node in source(path).body if isinstance(node, ast.FunctionDef)}


@cache
def numbers_in(path: str) -> set[float]:
    """Every number in a file, and in those of the rig that it uses."""
    tree = source(path)
    used = {
        f"{node.module.replace('.', '/')}.py"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests.rig.")
        if node.module is not None
    }
    trees = [tree, *(source(each) for each in used)]
    constants = (node for each in trees for node in ast.walk(each))
    values = {node.value for node in constants if isinstance(node, ast.Constant)}
    return {value for value in values if isinstance(value, int | float)}


def test_every_row_is_a_promise() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    heads = [line for line in rows if line.startswith("| promise |")]
    assert len(PROMISES) == len(rows) - len(heads)
    assert len(PROMISES) > 80


def test_a_promise_names_a_test_that_is_there() -> None:
    tests = [promise.test.partition("::") for promise in PROMISES]
    assert not [(path, name) for path, _, name in tests if name not in named_in(path)]


def test_no_promise_is_made_twice() -> None:
    tests = [promise.test for promise in PROMISES]
    assert len(set(tests)) == len(tests)


def test_what_is_done_in_full_is_done_by_the_test() -> None:
    for promise in PROMISES:
        words = re.sub(r"\[.*?\]\(.*?\)", "", promise.full)
        found = {float(number.replace(",", "")) for number in NUMBER.findall(words)}
        # A figure may be made of others; one of them is in the test as it stands.
        assert not found or found & numbers_in(promise.test.partition("::")[0]), promise


@pytest.mark.parametrize(("test", "ways"), WAYS.items())
def test_a_promise_counts_the_ways_in_which_it_is_tried(test: str, ways: Sized) -> None:
    (words,) = [each.words for each in PROMISES if each.test.endswith(f"::{test}")]
    assert f" {len(ways)} ways" in words


def test_every_part_of_the_rig_is_described() -> None:
    folder = ROOT / "tests" / "rig"
    page = (folder / "README.md").read_text()
    # What the simulator is made of inside is told by its own files.
    parts = [
        path.name for path in folder.glob("*.py") if not path.name.startswith(("test_", "sim"))
    ]
    assert not [name for name in parts if f"`{name}`" not in page]
    told = re.findall(r"`(\w+\.(?:py|c))`", page)
    assert not [name for name in told if not (folder / name).exists()]
