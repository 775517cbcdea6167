"""The watch that every test here is under."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests.reliability.probe import Probe, watched

Watch = Callable[..., AbstractContextManager[Probe]]


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    """Starts a gateway under watch; takes the servers and the rest of its configuration."""
    return partial(watched, tmp_path)
