"""Where configuration and state lie."""

import sys
from pathlib import Path

import platformdirs
import pytest

from anyport.cli.places import state_dir, user_config_dir


def test_the_variables_of_xdg_are_honoured() -> None:
    assert user_config_dir({"XDG_CONFIG_HOME": "/etc/mine"}) == Path("/etc/mine/anyport")
    assert state_dir(None, {"XDG_STATE_HOME": "/var/mine"}) == Path("/var/mine/anyport")


def test_a_relative_path_in_them_is_ignored() -> None:
    environ = {"XDG_STATE_HOME": "here", "HOME": "/h"}
    assert state_dir(None, environ) == state_dir(None, {"HOME": "/h"})


def test_the_command_line_wins_over_our_variable_and_that_over_xdg() -> None:
    environ = {"ANYPORT_STATE_DIR": "/ours", "XDG_STATE_HOME": "/xdg"}
    assert state_dir(Path("given"), environ) == Path("given")
    assert state_dir(None, environ) == Path("/ours")
    assert state_dir(None, {**environ, "ANYPORT_STATE_DIR": ""}) == Path("/xdg/anyport")


def test_without_them_the_platform_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert user_config_dir({}) == platformdirs.user_config_path("anyport", appauthor=False)
    assert state_dir(None, {}) == platformdirs.user_state_path("anyport", appauthor=False)


def test_a_platform_with_folders_of_its_own_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platformdirs, "user_state_path", lambda *_, **__: Path("/Library/x"))
    monkeypatch.setattr(platformdirs, "user_config_path", lambda *_, **__: Path("/Library/y"))
    assert state_dir(None, {}) == Path("/Library/x")
    assert user_config_dir({}) == Path("/Library/y")
