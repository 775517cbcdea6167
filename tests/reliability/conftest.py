"""The watch that every test here is under."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.rig.faulty_disk import FaultyDisk
from tests.rig.http_probe import HttpProbe, http_probe
from tests.rig.probe import Probe, watched

Watch = Callable[..., AbstractContextManager[Probe]]
Serve = Callable[..., AbstractContextManager[HttpProbe]]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """Starts a gateway under watch; takes the servers and the rest of its configuration."""
    return partial(watched, tmp_path)


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Starts a gateway over HTTP under the same watch."""
    return partial(http_probe, tmp_path)


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultyDisk:
    """Spoils the disk and the clock of the gateways that the test starts."""
    shim = FaultyDisk(tmp_path, tmp_path / "state")
    for name, value in shim.environ.items():
        monkeypatch.setenv(name, value)
    return shim
