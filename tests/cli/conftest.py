"""Commands under test see no configuration and no state but the test's own."""

from pathlib import Path

import pytest

from tests.cli.stage import Stage


@pytest.fixture
def stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Stage:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ANYPORT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("ANYPORT_DEBUG", raising=False)
    return Stage(tmp_path, capsys)
