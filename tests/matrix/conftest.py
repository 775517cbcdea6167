"""The gateways of the matrix, for all who try something through them.

Each worker has its own, started when the first of its cells needs them.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from tests.matrix.endpoints import ENDPOINTS, Endpoint
from tests.matrix.environment import MatrixClients, MatrixEnvironment
from tests.matrix.features import FEATURES
from tools.compatibility import RESULTS, Cell


@pytest.hookimpl(tryfirst=True)  # Before tests are chosen by their marks.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The whole matrix is for `make test-all`; for each change, every pair of two things in it.

    Each client meets each server, and each feature each client and each server, at least once.
    """
    for item in items:
        if isinstance(item, pytest.Function) and {"clients", "server", "feature"} <= {
            *getattr(getattr(item, "callspec", None), "params", {})
        }:
            params = item.callspec.params
            numbers = (ENDPOINTS.index(params["clients"]), ENDPOINTS.index(params["server"]))
            if FEATURES.index(params["feature"]) not in chosen_features(*numbers):
                item.add_marker(pytest.mark.exhaustive)


def chosen_features(client: int, server: int) -> set[int]:
    """A pairwise selection: a Latin square, and on its diagonal the features it does not reach.

    No library is needed: with as many clients as servers this is the smallest such selection.
    """
    offsets = range(len(ENDPOINTS), len(FEATURES)) if client == server else ()
    return {(client + offset) % len(FEATURES) for offset in (server, *offsets)}


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MatrixEnvironment]:
    with ExitStack() as stack:
        yield MatrixEnvironment(tmp_path_factory.mktemp("matrix"), stack)


@pytest.fixture(scope="session", params=ENDPOINTS, ids=lambda endpoint: f"from-{endpoint.slug}")
def clients(
    request: pytest.FixtureRequest, environment: MatrixEnvironment
) -> Iterator[MatrixClients]:
    """A client that stays for all the servers."""
    endpoint: Endpoint = request.param
    clients = MatrixClients(environment, endpoint)
    yield clients
    clients.end()


@pytest.fixture(scope="session")
def record() -> Callable[[Cell], None]:
    """Keeps what a cell came to, if somebody wants to make a page of it."""
    folder = os.environ.get(RESULTS)

    def keep(cell: Cell) -> None:
        if folder is not None:
            with Path(folder, f"{os.getpid()}.jsonl").open("ab") as file:
                file.write(msgspec.json.encode(cell) + b"\n")

    return keep
