"""How many functions one call goes through: tools/walk.py counts them, and here is the budget.

The budget is what they go through today, with some functions to spare that only help on the way.
Lower it when a change makes the way shorter.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import pytest

from tools.walk import ROOT, Function, Walk, follow_all, render

BUDGET: Final = {
    "plain call": {"hand-overs": 52, "files of hand-overs": 19, "functions": 265, "files": 68},
    "fast path": {"hand-overs": 23, "files of hand-overs": 10, "functions": 92, "files": 33},
    "elicitation": {"hand-overs": 116, "files of hand-overs": 26, "functions": 395, "files": 85},
}
PAGE: Final = ROOT / "docs" / "contributing" / "life-of-a-message.md"
SECTIONS: Final = {
    "plain call": "A call",
    "fast path": "The fast path",
    "elicitation": "An elicitation across eras",
}
"""The part of the page that follows each walk."""

Walks = dict[str, Walk]


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Walks:
    return {walk.name: walk for walk in follow_all(tmp_path_factory.mktemp("walk"))}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUDGET)
def test_a_walk_keeps_to_its_budget(walks: Walks, name: str) -> None:
    walk = walks[name]
    over = {key: n for key, n in walk.figures.items() if n > BUDGET[name][key]}
    assert not over, f"budget {BUDGET[name]}:\n{render(walk)}"


@pytest.mark.slow
def test_a_call_goes_to_the_server_and_comes_back(walks: Walks) -> None:
    for name in ("plain call", "fast path"):
        there, back = walks[name].legs
        assert there.hand_overs[0].file == "ingress/http/connection.py"
        assert there.hand_overs[-1].file == "upstream/stdio/pipe.py"
        assert back.hand_overs[0].file == "upstream/stdio/pipe.py"
        (answer,) = walks[name].answers
        assert answer["result"]["content"] == [{"type": "text", "text": "hello"}]


@pytest.mark.slow
def test_an_elicitation_has_four_legs(walks: Walks) -> None:
    walk = walks["elicitation"]

    first = [leg.hand_overs[0].file for leg in walk.legs]
    assert first == 2 * ["ingress/http/connection.py", "upstream/http/connection.py"]
    asked, answered = walk.answers
    assert asked["result"]["resultType"] == "input_required"
    assert "Ada" in str(answered["result"]["content"])


@pytest.mark.slow
def test_the_fast_path_is_shorter(walks: Walks) -> None:
    plain, fast = walks["plain call"].figures, walks["fast path"].figures

    assert all(fast[key] < plain[key] for key in plain)


# The page that follows them.


def functions_of(prose: str) -> Iterator[Function]:
    """Every function with the file that was named last; `f()` of `file.py` names it after."""
    prose = re.sub(r"`([\w.]+\(\))`\s+of\s+`([\w/]+\.py)`", r"`\2` `\1`", prose)
    file = ""
    for span in re.findall(r"`([\w/]+\.py|[\w.]+\(\))`", prose):
        if span.endswith(".py"):
            file = span
        else:
            yield Function(file, span.removesuffix("()"))


def section(title: str) -> str:
    return PAGE.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@cache
def defined(file: str) -> frozenset[str]:
    """The functions of a file: `name` and `Class.name`."""
    names: set[str] = set()
    for node in ast.parse((ROOT / "src" / "anyport" / file).read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return frozenset(names)


def test_a_function_on_the_page_is_in_its_file() -> None:
    named = set(functions_of(PAGE.read_text("utf-8")))
    assert len(named) >= 80
    assert not [each for each in sorted(named) if each.name not in defined(each.file)]


@pytest.mark.slow
@pytest.mark.parametrize("name", SECTIONS)
def test_the_page_follows_the_walk(walks: Walks, name: str) -> None:
    named = set(functions_of(section(SECTIONS[name])))
    assert len(named) >= 8
    assert not sorted(named - walks[name].functions)
