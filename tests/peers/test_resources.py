"""Resources in every revision."""

import base64

import pytest

from tests.peers.demo.media import PNG
from tests.peers.driver import MODERN, REVISIONS, Demo


@pytest.mark.parametrize("revision", REVISIONS)
def test_resources_are_listed_and_read(revision: str) -> None:
    with Demo() as demo:
        ask = demo.speak(revision)
        resources = ask("resources/list")["result"]["resources"]
        templates = ask("resources/templates/list")["result"]["resourceTemplates"]
        (text,) = ask("resources/read", {"uri": "demo://greeting"})["result"]["contents"]
        (blob,) = ask("resources/read", {"uri": "demo://logo"})["result"]["contents"]

    uris = [resource["uri"] for resource in resources]
    assert uris == ["demo://greeting", "demo://logo", "demo://counter"]
    assert [template["uriTemplate"] for template in templates] == ["demo://items/{id}"]
    assert text["text"].startswith("Hello")
    assert base64.b64decode(blob["blob"]) == PNG


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_was_touched_has_changed_and_what_is_not_there_is_told(revision: str) -> None:
    with Demo() as demo:
        ask = demo.speak(revision)
        for uri in ("demo://counter", "demo://items/apple"):
            before = ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
            ask("tools/call", {"name": "touch", "arguments": {"uri": uri}})
            after = ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
            assert "0" in before
            assert after == before.replace("0", "1")
        for uri in ("demo://none", "demo://items/{id}", ""):
            error = ask("resources/read", {"uri": uri})["error"]
            assert error["code"] == (-32602 if revision == MODERN else -32002)
            assert error["data"] == {"uri": uri}
