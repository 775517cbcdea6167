"""Resources in every revision."""

import base64
from collections.abc import Iterator

import pytest

from anyport.demo.media import PNG
from tests.demo.driver import MODERN, REVISIONS, Demo, Speaker


@pytest.fixture(scope="module", params=REVISIONS)
def speaking(request: pytest.FixtureRequest) -> Iterator[tuple[str, Speaker]]:
    with Demo() as demo:
        yield request.param, demo.speak(request.param)


def test_three_resources_and_a_template_are_listed(speaking: tuple[str, Speaker]) -> None:
    _, ask = speaking

    resources = ask("resources/list")["result"]["resources"]
    templates = ask("resources/templates/list")["result"]["resourceTemplates"]

    uris = [resource["uri"] for resource in resources]
    assert uris == ["demo://greeting", "demo://logo", "demo://counter"]
    assert [template["uriTemplate"] for template in templates] == ["demo://items/{id}"]


def test_text_and_picture_can_be_read(speaking: tuple[str, Speaker]) -> None:
    _, ask = speaking

    (text,) = ask("resources/read", {"uri": "demo://greeting"})["result"]["contents"]
    (blob,) = ask("resources/read", {"uri": "demo://logo"})["result"]["contents"]

    assert text["text"].startswith("Hello")
    assert base64.b64decode(blob["blob"]) == PNG


def test_the_counter_and_the_items_show_how_often_they_were_touched(
    speaking: tuple[str, Speaker],
) -> None:
    _, ask = speaking

    for uri in ("demo://counter", "demo://items/apple"):
        before = ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
        ask("tools/call", {"name": "touch", "arguments": {"uri": uri}})
        after = ask("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
        assert "0" in before
        assert after == before.replace("0", "1")


@pytest.mark.parametrize("uri", ["demo://none", "demo://items/", "demo://items/{id}", "apple", ""])
def test_what_is_not_there_is_told_with_the_code_of_the_era(
    speaking: tuple[str, Speaker], uri: str
) -> None:
    revision, ask = speaking

    error = ask("resources/read", {"uri": uri})["error"]

    assert error["code"] == (-32602 if revision == MODERN else -32002)
    assert error["data"] == {"uri": uri}
