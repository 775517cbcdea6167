"""A running gateway and its files: watched, read again on SIGHUP, and what is told of it."""

import json
import signal
import sys
from pathlib import Path

import pytest

from anyport.cli.options import SharedOptions
from anyport.cli.serve.config_watch import describe_changes, make_config_reader
from anyport.config import Config, load
from anyport.config.model import UnknownProfile
from anyport.gateway.config_diff import ConfigDiff
from anyport.gateway.reload import ReloadRefused
from tests.cli.running import Running, running, wait_until
from tests.cli.stage import Stage, tiny_entry
from tests.harness import LineClient, read_events

UNWATCHED = {"watch": False}


def servers(there: Running) -> set[str]:
    _, page = there.get("/api/v1/servers")
    return {server["slug"] for server in page["servers"]}


def reloads(stage: Stage) -> list[str]:
    events = read_events(stage.state)
    return [e["status"] for e in events if e["event_type"] == "gateway.config_reloaded"]


def test_a_changed_file_is_taken_over(stage: Stage) -> None:
    stage.configure()
    with running() as there:
        stage.configure(second=tiny_entry(stage.notes))
        wait_until(lambda: servers(there) == {"tiny", "second"})

        stage.configure(third=tiny_entry(stage.notes))
        wait_until(lambda: servers(there) == {"tiny", "third"})

        there.process.terminate()
        code, words = there.end()
    assert code == 0
    assert "the configuration was reloaded: added second; profiles default" in words
    assert "added third; removed second" in words
    assert reloads(stage) == ["success", "success"]


def test_a_file_that_another_takes_the_place_of_is_taken_over(stage: Stage) -> None:
    file = stage.configure()
    with running() as there:
        new = file.with_suffix(".new")
        new.write_text(json.dumps({"mcpServers": {"other": tiny_entry(stage.notes)}}))
        new.replace(file)
        wait_until(lambda: servers(there) == {"other"})


def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_with_the_reason(
    stage: Stage,
) -> None:
    file = stage.configure()
    with running() as there:
        good = file.read_text()
        file.write_text(good[:-2])
        wait_until(lambda: reloads(stage) == ["failure"])
        assert servers(there) == {"tiny"}

        file.write_text(json.dumps({"mcpServers": {"x": {"command": "no-such-program"}}}))
        wait_until(lambda: reloads(stage) == ["failure"] * 2)
        assert servers(there) == {"tiny"}

        there.process.terminate()
        code, words = there.end()
    assert code == 0
    assert "anyport: the configuration was not reloaded: " in words
    assert "server 'x': the command no-such-program is not found" in words


def test_without_watching_a_signal_is_needed(stage: Stage) -> None:
    file = stage.configure()

    def write(*slugs: str) -> None:
        entries = {slug: tiny_entry(stage.notes) for slug in slugs}
        file.write_text(json.dumps({"gateway": UNWATCHED, "mcpServers": entries}))

    write("tiny")
    with running() as there:
        write("tiny", "second")
        there.process.send_signal(signal.SIGHUP)
        wait_until(lambda: servers(there) == {"tiny", "second"})
    assert reloads(stage) == ["success"]


def test_a_file_that_appears_takes_the_place_of_the_demo(stage: Stage) -> None:
    with running() as there:
        assert servers(there) == {"demo"}
        stage.configure()
        wait_until(lambda: servers(there) == {"tiny"})


def test_variables_in_a_file_of_their_own_are_watched_too(stage: Stage) -> None:
    variables = stage.folder / "tiny.env"
    variables.write_text("A=1\n")
    stage.configure(tiny={**tiny_entry(stage.notes), "envFile": str(variables)})
    with running():
        variables.write_text("A=2\n")
        wait_until(lambda: reloads(stage) == ["success"])


def test_a_client_on_stdin_learns_that_there_is_more(stage: Stage) -> None:
    file = stage.configure()
    client = LineClient([sys.executable, "-m", "anyport", "stdio", "--config", str(file)])
    try:
        client.initialize()
        client.request("tools/list")
        stage.configure(second=tiny_entry(stage.notes))
        client.wait_method("notifications/tools/list_changed")
        tools = client.request("tools/list")["result"]["tools"]
        assert "second__add" in {tool["name"] for tool in tools}
        assert client.finish() == 0
    finally:
        client.kill()


def test_files_that_could_not_be_used_are_tried_again_when_something_else_has_changed(
    stage: Stage,
) -> None:
    variables = stage.folder / "new.env"
    stage.configure()
    with running() as there:
        stage.configure(second={**tiny_entry(stage.notes), "envFile": str(variables)})
        wait_until(lambda: reloads(stage) == ["failure"])
        variables.write_text("A=1\n")
        wait_until(lambda: servers(there) == {"tiny", "second"})
    assert reloads(stage) == ["failure", "success"], "that they still cannot be used is no news"


def test_who_put_a_file_back_as_it_was_is_told_that_all_is_well(stage: Stage) -> None:
    file = stage.configure()
    with running() as there:
        good = file.read_text()
        file.write_text("{")
        wait_until(lambda: reloads(stage) == ["failure"])
        file.write_text(good)
        stage.run("reload", "--url", there.url)
        there.process.terminate()
        _, words = there.end()
    assert "the configuration was reloaded: nothing has changed" in words


def test_a_server_that_was_added_and_does_not_run_is_named(stage: Stage) -> None:
    stage.configure()
    with running() as there:
        stage.configure(bad={"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]})
        ran = stage.run("reload", "--url", there.url)
        assert ran.code == 0
        there.process.terminate()
        _, words = there.end()
    assert "server 'bad' is not running: exit code 3" in words


# What is read.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"mcpServers": {}}', "it has no servers any more"),
        ('{"mcpServers": {"x": {"command": "sh"}}}', "it has no tokens any more"),
    ],
)
def test_a_save_that_would_leave_nothing_is_refused(stage: Stage, text: str, words: str) -> None:
    file = stage.configure()
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, "gateway": {"tokens": {"ada": "a-long-token-of-hers"}}}))
    before = load([file], {})
    file.write_text(text)
    with pytest.raises(ReloadRefused, match=words):
        read(stage, before)


def test_a_file_that_is_gone_does_not_open_the_demo_to_everybody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stage.configure()
    before = load([file], {})
    file.unlink()
    monkeypatch.chdir(stage.folder)
    with pytest.raises(ReloadRefused, match="the configuration file is gone"):
        make_config_reader(SharedOptions(), lambda config: config, lambda _: None)(before)


def read(stage: Stage, before: Config, **judged: str) -> Config:
    options = SharedOptions(config=(stage.folder / "anyport.json",))
    return make_config_reader(options, lambda config: config, lambda config: judged.get("reason"))(
        before
    )


def test_a_configuration_that_this_gateway_must_not_have_is_refused(stage: Stage) -> None:
    config = load([stage.configure()], {})
    with pytest.raises(ReloadRefused, match="not for all the world"):
        read(stage, config, reason="not for all the world")


def test_a_server_that_could_not_run_before_either_is_no_reason_to_refuse(stage: Stage) -> None:
    config = load([stage.configure(bad={"command": "no-such-program"})], {})
    assert read(stage, config).servers == config.servers


def test_a_profile_that_is_gone_is_a_reason_to_refuse(stage: Stage) -> None:
    config = load([stage.configure()], {})

    def shape(config: Config) -> Config:
        raise UnknownProfile("dev", ("default",))

    options = SharedOptions(config=(Path(stage.folder / "anyport.json"),))
    with pytest.raises(ReloadRefused, match="there is no profile 'dev'"):
        make_config_reader(options, shape, lambda _: None)(config)


# What is told.


def test_what_changed_is_told_in_one_line_and_what_needs_a_restart_in_another() -> None:
    found = ConfigDiff(
        added=("a",), changed=("b", "c"), sections=("gateway.listen",), at_start=("gateway.listen",)
    )
    assert describe_changes(found) == [
        "the configuration was reloaded: added a; changed b, c; settings gateway.listen",
        "restart the gateway to apply: gateway.listen",
    ]


def test_nothing_is_told_as_that() -> None:
    assert describe_changes(ConfigDiff()) == ["the configuration was reloaded: nothing has changed"]
