"""Which configuration a run stands on."""

from pathlib import Path

import pytest

from anyport.cli.options import Given
from anyport.cli.setup import read_config, read_setup
from anyport.config import UnknownProfile
from tests.cli.stage import Stage

SERVER = '[mcpServers.{0}]\ncommand = "{0}"\n'


def test_files_that_are_named_are_laid_over_one_another(tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text(SERVER.format("one"))
    second.write_text(SERVER.format("two"))
    (tmp_path / "anyport.toml").write_text(SERVER.format("other"))

    config = read_config(Given(config=(first, second)), {}, tmp_path)

    assert list(config.servers) == ["one", "two"]


def test_the_file_here_comes_before_the_users_own(tmp_path: Path) -> None:
    own = tmp_path / "config" / "anyport"
    own.mkdir(parents=True)
    (own / "anyport.toml").write_text(SERVER.format("own"))
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    assert list(read_config(Given(), environ, tmp_path).servers) == ["own"]

    (tmp_path / "anyport.json").write_text('{"mcpServers": {"here": {"command": "x"}}}')
    assert list(read_config(Given(), environ, tmp_path).servers) == ["here"]


def test_with_no_file_at_all_the_demo_server_is_used_and_that_is_said(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = read_setup(Given())

    assert list(setup.config.servers) == ["demo"]
    assert setup.profile == "default"
    assert setup.state_dir == stage.state
    told = capsys.readouterr()
    assert "found no anyport.toml or anyport.json here or in" in told.err
    assert str(stage.folder / "config" / "anyport") in told.err
    assert "demo server" in told.err


def test_a_configuration_that_is_found_needs_no_words(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    stage.configure()
    read_setup(Given())
    assert capsys.readouterr().err == ""


def test_a_profile_that_is_not_there_is_refused(stage: Stage) -> None:
    with pytest.raises(UnknownProfile):
        read_setup(Given(profile="dev"))
