"""Prompts and completion, in every revision."""

import pytest

from tests.harness import Message
from tests.peers.driver import REVISIONS, Demo

GREET: Message = {"type": "ref/prompt", "name": "greet"}
ITEMS: Message = {"type": "ref/resource", "uri": "demo://items/{id}"}


@pytest.mark.parametrize("revision", REVISIONS)
def test_prompts_are_listed_written_and_completed(revision: str) -> None:
    with Demo() as demo:
        ask = demo.speak(revision)
        prompts = ask("prompts/list")["result"]["prompts"]
        names = {prompt["name"]: [a["name"] for a in prompt["arguments"]] for prompt in prompts}
        assert names == {"greet": ["name", "style"], "review": ["code"]}

        params: Message = {"name": "greet", "arguments": {"name": "Ann", "style": "pirate"}}
        (message,) = ask("prompts/get", params)["result"]["messages"]
        assert message["content"]["text"] == "Greet Ann in a pirate manner."

        params = {"name": "review", "arguments": {"code": "x = 1"}}
        _, message = ask("prompts/get", params)["result"]["messages"]
        assert message["content"]["resource"]["text"] == "x = 1"

        for params in ({}, {"name": "unknown"}, {"name": "greet"}):
            assert ask("prompts/get", params)["error"]["code"] == -32602

        for ref, name, typed, values in (
            (GREET, "style", "f", ["formal", "friendly"]),
            (GREET, "style", "x", []),
            (ITEMS, "id", "ap", ["apple", "apricot"]),
        ):
            params = {"ref": ref, "argument": {"name": name, "value": typed}}
            completion = ask("completion/complete", params)["result"]["completion"]
            assert completion == {"values": values, "total": len(values), "hasMore": False}

        params = {"ref": GREET, "argument": {"name": "a", "value": ""}}
        assert ask("completion/complete", params)["error"]["code"] == -32602
