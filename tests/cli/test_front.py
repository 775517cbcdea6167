"""The gateway that a command line asks for."""

from pathlib import Path

import pytest

from anyport.cli.ending import WrongUsage
from anyport.cli.front import front
from anyport.cli.options import Given
from anyport.config import ConfigError, UnknownProfile
from tests.cli.stage import Stage


def test_what_is_wrong_is_told_before_anything_is_started(stage: Stage) -> None:
    with pytest.raises(UnknownProfile):
        front(Given(profile="zzz"))
    with pytest.raises(ConfigError):
        front(Given(config=(Path("absent.toml"),)))
    with pytest.raises(WrongUsage):
        front(Given(url="http://127.0.0.1", config=(Path("absent.toml"),)))
    assert not stage.state.exists()
