"""`anyport reload`: a running gateway takes over its files, and says what that changed."""

import json

from tests.cli.running import running
from tests.cli.stage import Stage, tiny_entry


def configure(stage: Stage, *slugs: str, **gateway: object) -> None:
    entries = {slug: tiny_entry(stage.notes) for slug in slugs}
    content = {"gateway": {"watch": False, **gateway}, "mcpServers": entries}
    (stage.folder / "anyport.json").write_text(json.dumps(content))


def test_a_running_gateway_takes_over_its_files_when_asked(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(stage, "one", "two")
        ran = stage.run("reload", "--url", there.url)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == "the configuration was reloaded: added two; profiles default\n"

        again = stage.run("reload", "--url", there.url, "--json")
        assert again.json["added"] == []
        assert again.json["settings"] == []


def test_the_gateway_of_this_configuration_is_meant_if_none_is_named(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(stage, "one", "two", listen=there.url.removeprefix("http://"))
        ran = stage.run("reload")
        assert ran.code == 0
        assert "added two" in ran.out
        assert "restart the gateway for what holds from the start on: gateway.listen" in ran.out


def test_files_that_cannot_be_used_change_nothing_and_the_faults_are_told(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(stage, "one", lissen="x")
        ran = stage.run("reload", "--url", there.url)
        assert ran.code == 1
        assert "stays as it is" in ran.err
        assert "did you mean listen?" in ran.err
        assert there.get("/api/v1/servers")[1]["servers"][0]["slug"] == "one"


def test_without_a_gateway_it_says_how_to_start_one(stage: Stage) -> None:
    configure(stage, "one", listen="127.0.0.1:1")
    ran = stage.run("reload")
    assert ran.code == 1
    assert "nothing answers at http://127.0.0.1:1" in ran.err


def test_a_broken_file_does_not_say_where_the_gateway_is(stage: Stage) -> None:
    (stage.folder / "anyport.json").write_text("{")
    ran = stage.run("reload")
    assert ran.code == 1
    assert "name it with --url" in ran.err
