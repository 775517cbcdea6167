"""Pairwise testing: of all combinations of several axes, enough for every two values to meet.

The rest is marked `exhaustive`, for `make test-all`.
"""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def pairwise(*axes: Sequence[Any]) -> list[ParameterSet]:
    """Every combination, for `parametrize`."""
    rows = list(product(*map(range, map(len, axes))))
    chosen = covering_rows(rows)
    return [
        pytest.param(
            *(values[at] for values, at in zip(axes, row, strict=True)),
            marks=() if row in chosen else pytest.mark.exhaustive,
        )
        for row in rows
    ]


def covering_rows(rows: Sequence[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """A covering array of strength two, by the greedy method; the same each time."""
    missing = set().union(*map(pairs_of, rows))
    chosen = set()
    while missing:
        best = max(rows, key=lambda row: len(pairs_of(row) & missing))
        missing -= pairs_of(best)
        chosen.add(best)
    return chosen


def pairs_of(row: tuple[int, ...]) -> set[tuple[tuple[int, int], ...]]:
    """Every two places of a row with what is there."""
    return set(combinations(enumerate(row), 2))
