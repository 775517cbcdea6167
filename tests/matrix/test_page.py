"""The page of the matrix is the one that the tests come to."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.matrix.cells import every_cell
from tests.matrix.exceptions import RULES
from tools.compatibility import PAGE, main, page, read_cells


def test_the_page_says_what_the_matrix_comes_to() -> None:
    """A cell that came out otherwise has failed; so the page is that of every good run."""
    assert PAGE.read_text() == page(list(every_cell())), "run `make compatibility`"


def test_every_rule_is_needed() -> None:
    told = {cell.note for cell in every_cell()}
    assert {rule.sentence for rule in RULES} <= told
    assert len({rule.sentence for rule in RULES}) == len(RULES)


def test_the_results_of_several_workers_are_read_in_the_order_of_the_matrix(tmp_path: Path) -> None:
    cells = list(every_cell())
    for number in range(3):
        lines = [msgspec.json.encode(cell) for cell in cells[number::3]]
        (tmp_path / f"{number}.jsonl").write_bytes(b"\n".join(lines))

    assert page(read_cells(tmp_path)) == page(cells)


def test_a_run_with_a_failure_leaves_the_page_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    before = PAGE.read_text()

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(argv, 1)

    assert main(run) == 1
    assert PAGE.read_text() == before
    assert "stays as it was" in capsys.readouterr().err
