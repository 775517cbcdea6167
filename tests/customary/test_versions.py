"""Which revision a client gets when it asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import LineClient
from tests.journeys.scripts import Scripted, gateway


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LineClient]:
    """A pipe on which any number of handshakes may be tried."""
    path: Path = tmp_path_factory.mktemp("versions")
    with gateway(path, {"idle": Scripted(path).command}) as opened:
        yield opened


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("2024-10-07", "2024-11-05"),
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2027-01-01", "2025-11-25"),
        ("junk", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_a_revision_is_agreed_on(client: LineClient, asked: str, given: str) -> None:
    # Nothing but the version: clients have been seen to leave out the rest.
    answer = client.request("initialize", {"protocolVersion": asked})
    assert answer["result"]["protocolVersion"] == given


def test_a_handshake_without_a_version_is_refused(client: LineClient) -> None:
    answer = client.request("initialize", {"capabilities": {}})
    assert answer["error"]["code"] == -32602
