"""How much of a test is done: a part on every commit, all of it by `make soak`.

This is the one place that reads `ANYPORT_SCALE`. It does not know what is counted, nor how long it
takes; each test names both of its figures.
"""

import json
import os
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")

VARIABLE: Final = "ANYPORT_SCALE"
FIGURES_VARIABLE: Final = "ANYPORT_FIGURES"
"""The file that `measured` adds to; without one nothing is kept."""
FULL: Final = os.environ.get(VARIABLE) == "full"


def scaled(part: T, *, full: T) -> T:
    """What to use: `part` on every commit, `full` where time is no matter."""
    return full if FULL else part


def measured(**figures: float | int | str) -> None:
    """Keep what a test has measured, for the page that tells of it."""
    file = os.environ.get(FIGURES_VARIABLE)
    if file:
        test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
        with Path(file).open("a") as lines:
            lines.write(json.dumps({"test": test, **figures}) + "\n")
