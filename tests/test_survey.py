"""tools/survey.py counts what it says it counts."""

from pathlib import Path

import pytest

from tools.survey import implementations, main, mannered_words, measure, read_codebase

SESSION = '''\
"""Sessions."""

import asyncio
from dataclasses import dataclass
from typing import Protocol


# A session ends with its client.
@dataclass
class Listener:
    on_open: Callable[[], None]
    on_close: Callable[[], None] | None


class Clock(Protocol):
    def now(self) -> float: ...


class Session:
    def answered(self) -> None:
        """Whoever asked."""

    def need(self) -> None: ...
'''

STORE = """\
from .session import Session


class SystemClock:
    def now(self) -> float:
        return 0.0  # Nobody looks.


class FasterClock(SystemClock): ...


class Session: ...
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "proxy"
    for name, text in {
        "__init__.py": '"""A proxy."""\n',
        "session.py": SESSION,
        "store/__init__.py": "from ..session import Session\n",
        "store/memory.py": "from proxy import session\n",
        "store/disk.py": STORE.replace(".session", "..session"),
        "tests/test_session.py": "def test_nothing(): ...\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_the_figures_of_a_small_package(package: Path) -> None:
    figures = measure(read_codebase(package))

    assert figures["modules"] == "4"
    assert figures["lines"] == str(len((SESSION + STORE).splitlines()) + 2)
    assert figures["most modules in one package"] == "3 (proxy.store)"
    assert figures["modules with one importer"] == "0"
    assert figures["classes"] == "6"
    assert figures["class names used for several"] == "1"
    assert figures["Protocols"] == figures["  with one implementation"] == "1"
    assert figures["dataclasses of callables"] == "1"
    assert figures["comments, share of lines"] == "2.7%"
    assert figures["bare participles as methods"] == "1"


def test_a_class_that_inherits_an_implementation_is_none_of_its_own(package: Path) -> None:
    codebase = read_codebase(package)

    assert implementations(codebase.modules) == {"Clock": ["SystemClock"]}


def test_mannered_words_are_counted_in_prose_alone(package: Path) -> None:
    counted = mannered_words(read_codebase(package).modules)

    assert {word: n for word, n in counted.items() if n} == {"nobody": 1, "whoever": 1}


def test_several_code_bases_are_shown_side_by_side(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(package), str(package / "store")]) == 0

    head, _, modules, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["proxy", "store"]
    assert modules.split() == ["modules", "4", "3"]


def test_one_code_base_is_shown_by_package(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(package)]) == 0

    shown = capsys.readouterr().out
    assert "proxy.store" in shown
    assert "proxy.session.Session.answered" in shown
