"""Customary messages, as clients and servers of today write them, cross the gateway as printed."""

from pathlib import Path
from typing import Any

import pytest

from tests.customary.examples import STORIES, payloads, read_story, script, tell
from tests.harness import transparent
from tests.journeys.scripts import Scripted, gateway, tools

ISSUES = {"default": {"servers": ["github"], "separator": "/", "errors": "verbatim"}}
PLAIN = ("content", "empty", "everything", "fetch", "ideas", "issues", "reference")
SPECIAL = ("session", "status")
"""Told by `test_gateway_tools.py`, since the gateway itself takes part in them."""


def test_every_story_is_told() -> None:
    assert sorted((*PLAIN, *SPECIAL)) == sorted(path.stem for path in STORIES.iterdir())


@pytest.mark.parametrize("name", PLAIN)
def test_a_story_crosses_the_gateway_as_printed(tmp_path: Path, name: str) -> None:
    examples = read_story(f"{name}.txt")
    slug, prefix = ("github", "github/") if name == "issues" else ("scripted", "")
    profiles: dict[str, Any] = ISSUES if name == "issues" else transparent("scripted")
    rules = script(examples, prefix)
    if name == "issues":
        rules.append(tools("create_issue"))
    if name == "reference":
        # Its handshake declares less than it has, and what is not declared is not asked for.
        rules = [rule for rule in rules if rule["on"] != "initialize"]
    server = Scripted(tmp_path, *rules)
    with gateway(tmp_path, {slug: server.command}, profiles=profiles) as client:
        for example in examples:
            tell(client, example)
        # Whatever the examples did not ask for was not said either.
        assert client.finish() == 0
        expected = sum(len(example.hears) for example in examples)
        assert len(client.lines) == expected, client.lines[-1]
    sent = [example.says for example in examples if example.method == "tools/call"]
    wanted = [payloads(line.replace(prefix, "", 1))[0] for line in sent]
    arrived = [line for line in server.lines if b'"method":"tools/call"' in line]
    assert len(arrived) == len(wanted)
    for line, params in zip(arrived, wanted, strict=True):
        assert params in line
