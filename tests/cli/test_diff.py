"""`anyport check --diff`: what a reload would change, told by the gateway that runs."""

import json
from typing import Any

from anyport.cli.diff import lines
from anyport.gateway.api.answers import ListShift, Reloaded
from tests.cli.running import Running, running
from tests.cli.stage import Stage, tiny_entry


def configure(stage: Stage, *slugs: str, **more: Any) -> None:
    entries = {slug: tiny_entry(stage.notes) for slug in slugs}
    content = {"gateway": {"watch": False}, "mcpServers": entries, **more}
    (stage.folder / "anyport.json").write_text(json.dumps(content))


def servers(there: Running) -> set[str]:
    return {server["slug"] for server in there.get("/api/v1/servers")[1]["servers"]}


def test_tools_that_would_come_and_go_are_told_and_nothing_is_taken_over(stage: Stage) -> None:
    configure(stage, "one", "two")
    with running() as there:
        configure(stage, "one", "three")
        ran = stage.run("check", "--diff", "--url", there.url)
        assert ran.code == 1
        assert "+ server three\n- server two\n" in ran.out
        assert "  + three__add\n" in ran.out
        assert "  - two__add\n" in ran.out
        assert "one__add" not in ran.out
        assert servers(there) == {"one", "two"}


def test_tools_that_would_be_called_otherwise_are_told_so(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(stage, "one", profiles={"default": {"servers": ["one"], "prefix": "never"}})
        ran = stage.run("check", "--diff", "--url", there.url, "--json")
        [tools] = [each for each in ran.json["lists"] if each["kind"] == "tools"]
        assert ["one__add", "add"] in tools["renamed"]


def test_nothing_is_told_as_that_with_exit_code_0(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        ran = stage.run("check", "--diff", "--url", there.url)
        assert (ran.code, ran.out) == (0, "nothing would change\n")


def test_files_that_cannot_be_used_are_told_with_their_faults(stage: Stage) -> None:
    configure(stage, "one")
    with running() as there:
        configure(stage, "one", profils={})
        ran = stage.run("check", "--diff", "--url", there.url)
        assert ran.code == 1
        assert "did you mean profiles?" in ran.err


def test_a_gateway_is_only_asked_for_the_difference(stage: Stage) -> None:
    configure(stage, "one")
    ran = stage.run("check", "--url", "http://127.0.0.1:1")
    assert ran.code == 2
    assert "--diff" in ran.err


def test_what_holds_from_the_next_start_on_is_told_as_that() -> None:
    found = Reloaded(
        added=(),
        removed=(),
        changed=(),
        profiles=("dev",),
        settings=("gateway.listen",),
        at_start=("gateway.listen",),
        lists=(
            ListShift(
                profile="dev", kind="tools", added=(), removed=(), renamed=(), changed=("x",)
            ),
        ),
    )
    assert list(lines(found)) == [
        "~ profile dev",
        "~ setting gateway.listen (from the next start on)",
        "",
        "tools of profile dev:",
        "  ~ x is described otherwise",
    ]
