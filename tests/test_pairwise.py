"""The pairwise selection covers every pair, and not much more often than it must."""

from itertools import product

import pytest

from tests.pairwise import covering_rows, pairs_of, pairwise


@pytest.mark.parametrize("sizes", [(2, 2), (3, 3, 2), (5, 3, 3, 3), (4, 6, 1, 2)])
def test_every_two_values_meet(sizes: tuple[int, ...]) -> None:
    rows = list(product(*map(range, sizes)))

    chosen = covering_rows(rows)

    assert set().union(*map(pairs_of, chosen)) == set().union(*map(pairs_of, rows))
    *_, second, first = sorted(sizes)
    assert first * second <= len(chosen) <= first * second * 1.5


def test_what_is_left_out_is_for_the_exhaustive_run() -> None:
    every = pairwise("ab", (1, 2), "xy")

    left_out = [given.values for given in every if given.marks == (pytest.mark.exhaustive,)]
    assert [given.values for given in every] == list(product("ab", (1, 2), "xy"))
    assert len(left_out) == 4
