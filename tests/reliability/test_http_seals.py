"""What clients carry for a gateway, tampered with and sent back: refused, in the same words."""

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from anyport.gateway.elicitation.request_state import INVALID_STATE
from tests.harness import DEMO, Message
from tests.journeys.clients import META, mirrored, request
from tests.journeys.http_gateway import HttpGateway, serving
from tests.rig.scale import scaled
from tests.rig.tampering import changes

pytestmark = pytest.mark.slow

CHANGES: Final = scaled(100, full=10_000)
"""Of each kind; the great number is tried without a network between."""
TOKENS: Final = {name: f"token-of-{name}-7d1c0a9e" for name in ("me", "they")}
TASKS: Final = "io.modelcontextprotocol/tasks"
ABLE: Final[Message] = {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}
ABOUT: Final[Message] = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientCapabilities": ABLE,
    f"{META}clientInfo": {"name": "test", "version": "1"},
}
Ask = Callable[[str, Message], Message]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpGateway]:
    servers = {
        "old": [*DEMO, "--legacy-only"],
        "new": [*DEMO, "--modern-only", "--tasks", "--tools", "2100"],
    }
    path: Path = tmp_path_factory.mktemp("carried")
    with serving(path, servers, gateway={"tokens": TOKENS, "listSeconds": 30}) as site:
        yield site


def asker(site: HttpGateway, who: str = "me") -> Ask:
    """A modern client of one person."""

    def ask(method: str, params: Message) -> Message:
        message = request(method, {**params, "_meta": ABOUT})
        bearer = ("Authorization", f"Bearer {TOKENS[who]}")
        return site.post(message, *mirrored(message), bearer).ending()

    return ask


def refusal(answer: Message) -> tuple[int, str]:
    error = answer["error"]
    return error["code"], error["message"]


@pytest.mark.parametrize("server", ["old", "new"])
def test_states_that_were_changed_or_are_anothers_are_refused_in_one_way(
    site: HttpGateway, server: str
) -> None:
    mine, theirs = asker(site), asker(site, "they")
    call = {"name": f"{server}__elicit", "arguments": {}}
    asked, other = (ask("tools/call", call)["result"] for ask in (mine, theirs))
    (key,) = asked["inputRequests"]
    state = asked["requestState"]
    answers = {"inputResponses": {key: {"action": "decline"}}}

    def back(ask: Ask, state: str, **more: Any) -> Message:
        return ask("tools/call", {**call, **answers, "requestState": state, **more})

    said = {
        refusal(back(mine, changed))
        for changed in changes(state, other["requestState"], Random(1), CHANGES)
    }
    said.add(refusal(back(theirs, state)))
    said.add(refusal(back(mine, other["requestState"])))
    said.add(refusal(back(mine, state, arguments={"kind": "form"})))
    said.add(refusal(back(mine, state, name=f"{'new' if server == 'old' else 'old'}__elicit")))
    assert said == {(-32602, INVALID_STATE)}
    assert not back(mine, state)["result"].get("isError")


def test_ids_of_tasks_that_were_changed_or_are_anothers_are_not_found(site: HttpGateway) -> None:
    mine, theirs = asker(site), asker(site, "they")
    brew = {"name": "new__brew_only", "arguments": {"hold": True}}
    id, other = (ask("tools/call", brew)["result"]["taskId"] for ask in (mine, theirs))
    ways: list[tuple[str, Message]] = [
        ("tasks/get", {}),
        ("tasks/update", {"inputResponses": {}}),
        ("tasks/cancel", {}),
    ]
    said = set()
    for number, changed in enumerate(changes(id, other, Random(2), CHANGES)):
        method, params = ways[number % len(ways)]
        said.add(refusal(mine(method, {"taskId": changed, **params})))
    said |= {refusal(theirs(method, {"taskId": id, **params})) for method, params in ways}
    assert len(said) == 1, said
    assert {code for code, _ in said} == {-32602}
    assert mine("tasks/get", {"taskId": id})["result"]["status"] == "working"


def test_cursors_that_were_changed_are_refused_in_one_way(site: HttpGateway) -> None:
    mine = asker(site)
    cursor = mine("tools/list", {})["result"]["nextCursor"]
    said = {
        refusal(mine("tools/list", {"cursor": changed}))
        for changed in changes(cursor.rstrip("="), cursor, Random(3), CHANGES)
    }
    said.add(refusal(mine("prompts/list", {"cursor": cursor})))
    assert len(said) == 1, said
    assert {code for code, _ in said} == {-32602}
    assert mine("tools/list", {"cursor": cursor})["result"]["tools"]
