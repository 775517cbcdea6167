"""Every journey starts a gateway and its servers as processes: none belongs to the quick gate."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.journeys.capture_pairs import PAIRS, CapturePair, CapturePairs, capture_pairs
from tests.journeys.clients import every_kind
from tests.journeys.http_gateway import HttpGateway

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    """One gateway over HTTP with a server of each kind behind it, for all who leave it as it is."""
    with every_kind(tmp_path_factory.mktemp("every-kind")) as site:
        yield site


@pytest.fixture(scope="session")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CapturePairs]:
    """Clients of every kind before servers of both eras, and all they say is recorded."""
    with capture_pairs(tmp_path_factory.mktemp("captured"), record={"capture": "full"}) as found:
        yield found


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest, captured: CapturePairs) -> CapturePair:
    """One of the clients and one of the servers."""
    return captured.pair(request.param)
