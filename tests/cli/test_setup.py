"""Which configuration a run stands on."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from anyport.cli.exit_codes import CommandFailed, WrongUsage
from anyport.cli.options import ListenOptions, SharedOptions
from anyport.cli.serve.serve import serve
from anyport.cli.setup import read_config, read_setup, record_obstacle
from anyport.config import UnknownProfile
from anyport.config.model import ProfileConfig
from anyport.gateway.gateway import Gateway
from tests.cli.stage import Stage
from tests.record.story import note, opened

SERVER = '[mcpServers.{0}]\ncommand = "{0}"\n'


def test_files_that_are_named_are_laid_over_one_another(tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text(SERVER.format("one"))
    second.write_text(SERVER.format("two"))
    (tmp_path / "anyport.toml").write_text(SERVER.format("other"))

    config = read_config(SharedOptions(config=(first, second)), {}, tmp_path)

    assert list(config.servers) == ["one", "two"]


def test_the_file_here_comes_before_the_users_own(tmp_path: Path) -> None:
    own = tmp_path / "config" / "anyport"
    own.mkdir(parents=True)
    (own / "anyport.toml").write_text(SERVER.format("own"))
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}

    assert list(read_config(SharedOptions(), environ, tmp_path).servers) == ["own"]

    (tmp_path / "anyport.json").write_text('{"mcpServers": {"here": {"command": "x"}}}')
    assert list(read_config(SharedOptions(), environ, tmp_path).servers) == ["here"]


def test_with_no_file_at_all_the_demo_server_is_used_and_that_is_said(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    setup = read_setup(SharedOptions())

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
    read_setup(SharedOptions())
    assert capsys.readouterr().err == ""


def test_a_profile_that_is_not_there_is_refused(stage: Stage) -> None:
    with pytest.raises(UnknownProfile):
        read_setup(SharedOptions(profile="dev"))


def test_a_gateway_does_not_start_on_a_state_directory_that_others_may_write(
    tmp_path: Path,
) -> None:
    tmp_path.chmod(0o777)
    options = SharedOptions(state_dir=tmp_path)
    with pytest.raises(CommandFailed, match="is writable by other users"):
        read_setup(options)
    with pytest.raises(CommandFailed, match="is writable by other users"):
        serve(options, ListenOptions())


def test_a_command_is_the_one_server_there_is(tmp_path: Path) -> None:
    (tmp_path / "anyport.toml").write_text(SERVER.format("other"))
    named = tmp_path / "named.toml"
    named.write_text(SERVER.format("third") + "[gateway]\nlistSeconds = 7\n")
    options = SharedOptions(
        config=(named,), command=("python", "server.py", "--fast"), transparent=True
    )

    config = read_config(options, {}, tmp_path)

    ((slug, server),) = config.servers.items()
    assert (server.command, server.args) == ("python", ("server.py", "--fast"))
    assert (
        config.profiles["default"]
        == ProfileConfig(slug="default", servers=(slug,)).as_transparent()
    )
    assert config.gateway.list_seconds == 7
    assert list(read_config(SharedOptions(command=("x",)), {}, tmp_path).servers) == ["server"]


def test_a_configured_server_is_shown_as_it_is_if_it_is_the_only_one(tmp_path: Path) -> None:
    one = '[profiles.one]\nservers = ["a"]\n'
    some = '[profiles.some]\nservers = ["a"]\ntools = { deny = ["x"] }\n[profiles.both]\n'
    file = tmp_path / "anyport.toml"
    file.write_text(SERVER.format("a") + SERVER.format("b") + one + some)
    config = read_config(SharedOptions(profile="one", transparent=True), {}, tmp_path)
    assert config.profiles["one"].transparent
    assert not config.profiles["both"].transparent

    with pytest.raises(WrongUsage, match="the profile 'both' has 2: choose another with --profile"):
        read_config(SharedOptions(profile="both", transparent=True), {}, tmp_path)
    with pytest.raises(WrongUsage, match="'some' denies some of its tools"):
        read_config(SharedOptions(profile="some", transparent=True), {}, tmp_path)


def recording_gateway(path: Path, on_failure: str) -> Gateway:
    journal = opened(path)
    journal.on_failure = on_failure
    note(journal)
    return cast(Gateway, SimpleNamespace(journal=journal))


def test_a_gateway_that_can_record_may_begin(tmp_path: Path) -> None:
    assert record_obstacle(recording_gateway(tmp_path, "block")) is None


def test_one_that_cannot_does_not_begin_if_it_must(tmp_path: Path) -> None:
    (tmp_path / "events").write_bytes(b"in the way")
    words = record_obstacle(recording_gateway(tmp_path, "block"))
    assert words is not None
    assert 'record.onFailure is "block"' in words
    assert record_obstacle(recording_gateway(tmp_path, "degrade")) is None
