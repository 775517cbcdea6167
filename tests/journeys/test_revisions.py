"""What one revision has and another has not, on its way between clients and servers of each.

Both servers say everything there is to say; what arrives is held against the official schema of
the client's revision.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness import Message
from tests.journeys.clients import LEGACY, META, MODERN, ModernClient, SessionClient, request
from tests.journeys.http_gateway import HttpGateway, serving
from tests.journeys.scripts import (
    EVERYTHING,
    Scripted,
    failure,
    note,
    question,
    result,
    rule,
    said,
    text,
)
from tests.schema import check_result, check_sent

BACKS: Final = ("old", "new")
NEWER: Final = ("2025-06-18", "2025-11-25")
CONTENT: Final = [
    {"type": "text", "text": "words"},
    {"type": "image", "data": "UklGRg==", "mimeType": "image/png"},
    {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "a:b", "text": "t"}},
    {"type": "resource_link", "uri": "a:b", "name": "it", "annotations": {"priority": 1}},
    {"type": "chart", "points": [1, 2]},
]
SUM_SCHEMA: Final[Message] = {
    "type": "object",
    "properties": {"sum": {"type": "number"}},
    "required": ["sum"],
}
SUM: Final[Message] = {**text('{"sum": 5}'), "structuredContent": {"sum": 5}}
TOOLS: Final = [
    {"name": "rich", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
    {"name": "odd", "inputSchema": {}, "outputSchema": {"type": "array"}},
    {"name": "add", "inputSchema": {"type": "object"}, "outputSchema": SUM_SCHEMA},
    *({"name": name, "inputSchema": {"type": "object"}} for name in ("pick", "count", "open")),
]
PROMPT: Final = {"messages": [{"role": "user", "content": block} for block in CONTENT]}
FORM: Final = {
    "mode": "form",
    "message": "Which?",
    "requestedSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "one": {"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"},
            "some": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        },
        "required": ["one"],
    },
}
ASKED: Final = "elicitation/create"
ABLE: Final[Message] = {"elicitation": {"form": {}, "url": {}}}
ACCEPTED: Final[Message] = {"action": "accept", "content": {"one": "a"}}
PROGRESS: Final = "notifications/progress"


def whole(of: Message, **more: Any) -> str:
    """A modern server's line."""
    info = {META + "serverInfo": {"name": "scripted", "version": "1"}, "vendor": 1}
    return result({"resultType": "complete", **of, "_meta": info, **more})


def calling(name: str, **meta: Any) -> Message:
    params: Message = {"name": name, "arguments": {}}
    return {**params, "_meta": meta} if meta else params


def counted(*numbers: float) -> list[str]:
    return [note(PROGRESS, f'{{"progressToken":$token,"progress":{n}}}') for n in numbers]


def legacy_server(path: Path) -> Scripted:
    """Of 2025-11-25."""
    task = {"_meta": {META + "related-task": {"taskId": "1"}, "vendor": 1}}
    asking = {**FORM, "elicitationId": "e", "_meta": {"progressToken": 5}}
    return Scripted(
        path,
        rule("tools/list", result({"tools": TOOLS})),
        rule("tools/call", result({"content": CONTENT, **task}), where={"name": "rich"}),
        rule("tools/call", result(SUM), where={"name": "add"}),
        rule("tools/call", question(7, ASKED, asking), where={"name": "pick"}, keep="call"),
        rule("answer", '{"jsonrpc":"2.0","id":$call,"result":{"content":[]},"vendor":1}'),
        rule("prompts/list", result({"prompts": [{"name": "p"}]})),
        rule("prompts/get", result(PROMPT)),
        rule("resources/list", result({"resources": [{"uri": "x:/old", "name": "x"}]})),
        rule("resources/read", failure({"code": -32002, "message": "gone"})),
        *(
            rule(f"resources/{verb}", result({"resultType": "complete", "more": 1}))
            for verb in ("subscribe", "unsubscribe")
        ),
        name="old",
    )


def modern_server(path: Path) -> Scripted:
    """Counts from the beginning whenever it is asked."""
    asks = {"q": {"method": ASKED, "params": FORM}}
    opens = {
        "q": {"method": ASKED, "params": {"mode": "url", "message": "m", "url": "https://e.com/"}}
    }
    needs: Message = {"resultType": "input_required", "requestState": "s"}
    discovered: Message = {"supportedVersions": [MODERN], "capabilities": EVERYTHING}
    hints: Message = {"ttlMs": 60_000, "cacheScope": "public"}
    gone = {"code": -32602, "message": "gone", "data": {"uri": "x:/new"}}
    listed = [{"uri": "x:/new", "name": "x"}, {"uri": "x:/newer", "name": "y"}]
    about = f'"_meta":{{"{META}subscriptionId":$id}}'
    told = f'{{"notifications":{{"resourceSubscriptions":["x:/new"]}},{about}}}'
    return Scripted(
        path,
        rule("server/discover", whole(discovered, **hints)),
        rule("initialize", failure({"code": -32601, "message": "no"})),
        rule("tools/list", whole({"tools": TOOLS}, **hints)),
        rule("tools/call", whole({"content": CONTENT}), where={"name": "rich"}),
        rule("tools/call", whole(SUM), where={"name": "add"}),
        rule(
            "tools/call",
            whole({"content": [], "structuredContent": [1, 2]}),
            where={"name": "odd"},
        ),
        *(
            rule(
                "tools/call",
                *counted(1, 2, 3),
                whole(text("ok")),
                where={"name": name, "requestState": "s"},
            )
            for name in ("pick", "count", "open")
        ),
        rule("tools/call", result({**needs, "inputRequests": asks}), where={"name": "pick"}),
        rule("tools/call", result({**needs, "inputRequests": opens}), where={"name": "open"}),
        rule(
            "tools/call",
            *counted(1, 2),
            result({**needs, "inputRequests": asks}),
            where={"name": "count"},
        ),
        rule("prompts/list", whole({"prompts": [{"name": "p"}]}, **hints)),
        rule("prompts/get", whole(PROMPT)),
        rule("resources/list", whole({"resources": listed}, **hints)),
        rule("resources/read", failure(gone), where={"uri": "x:/new"}),
        rule("resources/read", failure({"code": -32002, "message": "gone"})),
        rule("resources/templates/list", whole({"resourceTemplates": []}, **hints)),
        rule("subscriptions/listen", note("notifications/subscriptions/acknowledged", told)),
        name="new",
    )


@dataclass(frozen=True, slots=True)
class Stage:
    site: HttpGateway
    old: Scripted
    new: Scripted


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A server of each era that knows everything of its revision, and more."""
    path = tmp_path_factory.mktemp("revisions")
    old, new = legacy_server(path), modern_server(path)
    with serving(path, {"old": old.command, "new": new.command}) as site:
        ModernClient(site).request("tools/list")
        yield Stage(site, old, new)


# Results


@pytest.mark.parametrize("back", BACKS)
@pytest.mark.parametrize("revision", LEGACY)
def test_content_is_told_in_kinds_that_the_clients_revision_has(
    stage: Stage, revision: str, back: str
) -> None:
    client = SessionClient(stage.site, revision)

    for _ in range(2):  # The second one takes a shorter way.
        told = client.call(f"{back}__rich")["result"]
        assert told.pop("_meta")["vendor"] == 1
        check_result(revision, "tools/call", told)
        kinds = [block["type"] for block in told["content"]]
        assert kinds[:2] == ["text", "image"]
        assert kinds[2] == ("resource" if revision == "2024-11-05" else "audio")
        assert kinds[4] == ("resource_link" if revision in NEWER else "text")
        assert kinds[5] == "text"
        assert '"points": [1, 2]' in told["content"][5]["text"]
    prompt = client.request("prompts/get", {"name": f"{back}__p"})["result"]
    prompt.pop("_meta", None)
    check_result(revision, "prompts/get", prompt)


@pytest.mark.parametrize("back", BACKS)
def test_a_modern_client_is_told_everything_but_what_only_sessions_have(
    stage: Stage, back: str
) -> None:
    client = ModernClient(stage.site)

    for _ in range(2):
        told = client.request("tools/call", calling(f"{back}__rich"))["result"]
        assert told["resultType"] == "complete"
        assert told["content"] == CONTENT
        assert told["_meta"].keys() == {META + "serverInfo", "vendor"}
    assert client.request("tools/call", calling("new__odd"))["result"]["structuredContent"] == [
        1,
        2,
    ]


@pytest.mark.parametrize("revision", LEGACY)
def test_structured_content_that_is_no_object_is_text_in_a_session(
    stage: Stage, revision: str
) -> None:
    told = SessionClient(stage.site, revision).call("new__odd")["result"]

    assert said({"result": told}) == "[1, 2]"
    assert "structuredContent" not in told


@pytest.mark.parametrize("back", BACKS)
@pytest.mark.parametrize("revision", LEGACY)
def test_a_session_sees_the_schema_of_results_and_structured_content_or_neither(
    stage: Stage, revision: str, back: str
) -> None:
    client = SessionClient(stage.site, revision)
    knows = revision in NEWER

    (add,) = [
        tool
        for tool in client.request("tools/list")["result"]["tools"]
        if tool["name"] == f"{back}__add"
    ]
    assert add.get("outputSchema") == (SUM_SCHEMA if knows else None)
    for _ in range(2):  # The second one takes a shorter way.
        answer = client.call(f"{back}__add")
        assert answer["result"].get("structuredContent") == ({"sum": 5} if knows else None)
        assert said(answer) == '{"sum": 5}'
        check_result(revision, "tools/call", answer["result"])


@pytest.mark.parametrize("revision", LEGACY)
def test_lists_have_schemas_of_objects_and_no_hints_in_a_session(
    stage: Stage, revision: str
) -> None:
    told = SessionClient(stage.site, revision).request("tools/list")["result"]

    check_result(revision, "tools/list", told, strict=False)
    odd = [tool for tool in told["tools"] if tool["name"].endswith("__odd")]
    assert [tool["inputSchema"] for tool in odd] == [{"type": "object"}] * 2
    assert not [tool for tool in told["tools"] if "outputSchema" in tool and tool in odd]
    assert told.keys() == {"tools"}


def test_a_modern_list_says_nothing_of_tasks_in_sessions(stage: Stage) -> None:
    told = ModernClient(stage.site).request("tools/list")["result"]["tools"]

    assert not [tool for tool in told if "execution" in tool]
    assert [tool["outputSchema"] for tool in told if tool["name"].endswith("__odd")] == [
        {"type": "array"}
    ] * 2


@pytest.mark.parametrize("revision", LEGACY)
def test_results_that_say_nothing_are_empty(stage: Stage, revision: str) -> None:
    client = SessionClient(stage.site, revision)

    for method, params in (
        ("ping", None),
        ("logging/setLevel", {"level": "error"}),
        ("resources/subscribe", {"uri": "x:/old"}),
        ("resources/unsubscribe", {"uri": "x:/old"}),
        ("resources/subscribe", {"uri": "x:/new"}),
        ("resources/unsubscribe", {"uri": "x:/new"}),
    ):
        told = client.request(method, params)
        assert told.get("result") == {}, (method, params, told)


@pytest.mark.parametrize(
    ("fields", "kind"), [((), "resource_link"), ((("MCP-Protocol-Version", "2025-03-26"),), "text")]
)
def test_who_skips_the_handshake_is_told_in_the_words_of_the_revision_it_names(
    stage: Stage, fields: Any, kind: str
) -> None:
    message = request("tools/call", calling("new__rich"))

    told = stage.site.post(message, *fields).ending()["result"]["content"]

    assert [told[4]["type"], told[5]["type"]] == [kind, "text"]


# Errors


@pytest.mark.parametrize("back", BACKS)
def test_a_resource_that_is_gone_has_the_code_of_the_clients_era(stage: Stage, back: str) -> None:
    own = -32002 if back == "old" else -32602
    for client, code in ((SessionClient(stage.site), -32002), (ModernClient(stage.site), -32602)):
        error = client.request("resources/read", {"uri": f"x:/{back}"})["error"]

        assert (error["code"], error["message"]) == (code, "gone")
        assert error["data"]["originalError"]["code"] == own


def test_a_modern_server_with_a_code_of_the_other_era_is_quoted_to_every_client(
    stage: Stage,
) -> None:
    for client in (SessionClient(stage.site), ModernClient(stage.site)):
        error = client.request("resources/read", {"uri": "x:/newer"})["error"]

        assert (error["code"], error["message"]) == (-32002, "gone")


# Questions


@pytest.mark.parametrize("back", BACKS)
@pytest.mark.parametrize("revision", NEWER)
def test_a_form_is_one_of_the_clients_revision(stage: Stage, revision: str, back: str) -> None:
    client = SessionClient(stage.site, revision, ABLE)
    answer = client.start("tools/call", calling(f"{back}__pick"))

    asked = answer.wait_method(ASKED)
    client.reply(asked, {**ACCEPTED, "vendor": 1})

    asked["params"].pop("_meta", None)
    asked["params"].pop("elicitationId", None)
    check_sent(revision, asked)
    fields = asked["params"]["requestedSchema"]["properties"]
    if revision == "2025-06-18":
        assert fields == {"one": {"type": "string", "enum": ["a"], "enumNames": ["A"]}}
    else:
        assert asked["params"] == FORM
    assert "result" in answer.ending()
    # What the client adds to its answer is the server's to judge.
    if back == "old":
        assert stage.old.answers()[-1]["result"] == {**ACCEPTED, "vendor": 1}
    else:
        responses = stage.new.heard("tools/call")[-1]["params"]["inputResponses"]
        assert responses == {"q": {**ACCEPTED, "vendor": 1}}


@pytest.mark.parametrize("revision", LEGACY[:2])
def test_a_client_whose_revision_has_no_forms_is_not_asked_and_the_server_is_told(
    stage: Stage, revision: str
) -> None:
    client = SessionClient(stage.site, revision, ABLE)

    assert "result" in client.call("old__pick")

    error = stage.old.answers()[-1]["error"]
    assert error["code"] == -32602
    assert revision in error["message"]
    assert client.seen == []


def test_a_modern_server_is_not_kept_waiting_for_what_its_client_cannot_be_asked(
    stage: Stage,
) -> None:
    client = SessionClient(stage.site, "2025-06-18", ABLE)

    error = client.call("new__open")["error"]

    assert "2025-06-18, which has no way to ask this" in error["message"]
    assert client.seen == []


def test_a_modern_client_is_asked_in_the_words_of_its_era(stage: Stage) -> None:
    client = ModernClient(stage.site, **{META + "clientCapabilities": ABLE})

    told = client.request("tools/call", calling("old__pick"))["result"]

    check_result(MODERN, "tools/call", {name: told[name] for name in told if name != "_meta"})
    (entry,) = told["inputRequests"].values()
    assert entry == {"method": ASKED, "params": FORM}
    (key,) = told["inputRequests"]
    again = {"inputResponses": {key: ACCEPTED}, "requestState": told["requestState"]}
    assert "result" in client.request("tools/call", {**calling("old__pick"), **again})


def test_an_address_to_open_has_an_id_in_a_session(stage: Stage) -> None:
    client = SessionClient(stage.site, "2025-11-25", ABLE)
    answer = client.start("tools/call", calling("new__open"))

    asked = answer.wait_method(ASKED)
    client.reply(asked, {"action": "accept"})

    check_sent("2025-11-25", asked)
    assert answer.ending()["result"]["content"]


# Progress


def test_progress_comes_as_the_server_counts_it_in_each_round(stage: Stage) -> None:
    client = SessionClient(stage.site, "2025-11-25", ABLE)
    answer = client.start("tools/call", calling("new__count", progressToken="t"))

    client.reply(answer.wait_method(ASKED), ACCEPTED)
    answer.ending()

    reports = [told["params"] for told in answer.seen if told.get("method") == PROGRESS]
    assert reports == [{"progressToken": "t", "progress": number} for number in (1, 2, 1, 2, 3)]
