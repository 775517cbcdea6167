"""A short search for inputs that break something, for each parser; `make soak` searches longer."""

import random
import re
import subprocess
import sys

import pytest

from tests.fuzz import corpus
from tests.fuzz.__main__ import mutated
from tests.fuzz.targets import TARGETS, hold
from tests.rig.scale import measured, scaled

SECONDS = scaled(3, full=600)
RUNS_MIN = 50
"""Fewer would be no search; thousands are usual where nothing else runs."""


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_search_finds_nothing_that_breaks_a_parser(target: str) -> None:
    before = corpus.file_of(target).read_bytes()
    argv = [sys.executable, "-m", "tests.fuzz", target, "--seconds", str(SECONDS)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = re.search(r"Done (\d+) runs", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) >= RUNS_MIN
    assert corpus.file_of(target).read_bytes() == before, "a search leaves the corpus alone"
    measured(target=target, seconds=SECONDS, runs=int(found[1]))


@pytest.mark.parametrize("target", TARGETS)
def test_inputs_that_are_changed_blindly_break_nothing_either(target: str) -> None:
    chance, known = random.Random(target), corpus.read(target)
    for _ in range(scaled(150, full=20_000)):
        hold(target, mutated(chance, chance.choice(known), chance.choice(known)))
