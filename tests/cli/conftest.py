"""Commands under test see no configuration and no state but the test's own."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Running, running
from tests.cli.stage import Stage, tiny_entry


@pytest.fixture
def stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Stage:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("ANYPORT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("ANYPORT_DEBUG", raising=False)
    monkeypatch.delenv("ANYPORT_TOKEN", raising=False)
    return Stage(tmp_path, capsys)


@pytest.fixture(scope="session")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A gateway that runs elsewhere, for all who only ask it; its tiny server notes nothing here.

    Profiles: `default` has the tiny server and one that cannot start, `dev` the tiny one alone.
    """
    folder = tmp_path_factory.mktemp("there")
    config = {
        "mcpServers": {
            "tiny": tiny_entry(folder / "notes"),
            "gone": {"command": str(folder / "gone")},
            "off": {"command": sys.executable, "disabled": True},
        },
        "profiles": {"default": {}, "dev": {"servers": ["tiny"], "gatewayTools": False}},
    }
    file = folder / "anyport.json"
    file.write_text(json.dumps(config))
    with running("--config", str(file), "--state-dir", str(folder / "state")) as gateway:
        yield gateway
