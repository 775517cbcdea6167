"""The gateways of the matrix, for all who try something through them.

Each worker has its own, started when the first of its cells needs them.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from tests.matrix.hall import Hall, Visit
from tests.matrix.ways import WAYS, Way
from tools.compatibility import RESULTS, Cell


@pytest.fixture(scope="session")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    with ExitStack() as stack:
        yield Hall(tmp_path_factory.mktemp("matrix"), stack)


@pytest.fixture(scope="session", params=WAYS, ids=lambda way: f"from-{way.slug}")
def visit(request: pytest.FixtureRequest, hall: Hall) -> Iterator[Visit]:
    """A client that stays for all the servers."""
    way: Way = request.param
    visit = Visit(hall, way)
    yield visit
    visit.end()


@pytest.fixture(scope="session")
def record() -> Callable[[Cell], None]:
    """Keeps what a cell came to, if somebody wants to make a page of it."""
    folder = os.environ.get(RESULTS)

    def keep(cell: Cell) -> None:
        if folder is not None:
            with Path(folder, f"{os.getpid()}.jsonl").open("ab") as file:
                file.write(msgspec.json.encode(cell) + b"\n")

    return keep
