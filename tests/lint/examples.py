"""For each rule, a conversation that breaks it and one that keeps it."""

from typing import Final

from anyport.protocol import meta
from tests.lint.conversations import (
    ELICIT,
    FORMS,
    MODERN,
    NEWEST,
    TRACE,
    Conversation,
    afresh,
    ask,
    call,
    fail,
    give,
    hello,
    kept,
    listed,
    note,
    page,
    question,
    reports,
    stamped,
    text,
    tool,
    whole,
)

EXAMPLES: Final[dict[str, tuple[Conversation, Conversation]]] = {
    "not-json-rpc": ([b"Server listening on stdio"], hello()),
    "jsonrpc-version": ([{"id": 1, "method": "ping"}, give({}, 1)], [ask("ping"), give({})]),
    "id-type": ([ask("ping", id=1.5), give({}, 1.5)], [ask("ping", id="a"), give({}, "a")]),
    "id-reuse": (
        [ask("ping", id=1), give({}, 1), ask("ping", id=1), give({}, 1)],
        [ask("ping", id=1), give({}, 1), ask("ping", id="1"), give({}, "1")],
    ),
    "method-text": (
        [{"jsonrpc": "2.0", "id": 1, "method": 7}, fail(-32600, id=1)],
        [ask("ping"), give({})],
    ),
    "result-or-error": (
        [ask("ping"), {"jsonrpc": "2.0", "id": 9, "result": {}, "error": None}],
        [ask("ping"), give({})],
    ),
    "stray-answer": ([ask("ping", id=1), give({}, "1")], [ask("ping", id=1), give({}, 1)]),
    "answer-to-notification": (
        [*hello(), fail(-32601, "Method not found", id=None)],
        [*hello(), ask("ping"), give({})],
    ),
    "notification-with-id": (
        [ask("notifications/initialized"), give({})],
        [note("notifications/initialized")],
    ),
    "unanswered": (
        [ask("tools/list", id=3)],
        [ask("tools/list", id=3), note("notifications/cancelled", {"requestId": 3})],
    ),
    "batch": (
        [*hello("2025-06-18"), [ask("ping", id=1)], give({}, 1)],
        [*hello("2025-03-26"), [ask("ping", id=1)], give({}, 1)],
    ),
    "initialize-in-batch": ([[ask("initialize", {}, 1)]], [[ask("ping", id=1)], give({}, 1)]),
    "params-structured": ([ask("ping", "now"), give({})], [ask("ping", {}), give({})]),
    "positional-params": (
        [ask("tools/call", ["add", 1, 2]), give(text("3"))],
        [ask("tools/call", {"name": "add"}), give(text("3"))],
    ),
    "reserved-name": ([ask("rpc.discover"), give({})], [ask("ping"), give({})]),
    "not-an-mcp-name": (
        [ask("resources/get", {"uri": "a:b"}), give({})],
        [ask("resources/read", {"uri": "a:b"}), give({"contents": []})],
    ),
    "unknown-method": ([ask("weather/get"), give({})], [ask("tools/list"), give({"tools": []})]),
    "method-of-other-revision": (
        afresh("ping", whole()),
        [*hello(), ask("ping"), give({})],
    ),
    "notification-of-other-revision": (
        [*hello("2025-03-26"), note("notifications/elicitation/complete", {})],
        [*hello(), note("notifications/elicitation/complete", {})],
    ),
    "wrong-sender": (
        [*hello(), {"from": "client", "frame": note("notifications/message", {"level": "info"})}],
        [*hello(), note("notifications/message", {"level": "info", "data": "x"})],
    ),
    "server-asks": (
        [
            ask("tools/call", stamped({"name": "a"})),
            ask("roots/list", id=1),
            give({"roots": []}, 1),
            give(whole(content=[])),
        ],
        [
            *hello(client={"roots": {}}),
            ask("tools/call", {"name": "a"}),
            ask("roots/list", id=1),
            give({"roots": []}, 1),
            give({"content": []}),
        ],
    ),
    "error-object": ([ask("ping"), fail("E1", "No")], [ask("ping"), fail(-32601, "No")]),
    "error-code-reserved": ([ask("ping"), fail(-32100)], [ask("ping"), fail(-32001)]),
    "error-code-of-other-revision": (
        [ask("resources/read", stamped({"uri": "a:b"})), fail(-32002)],
        [*hello(), ask("resources/read", {"uri": "a:b"}), fail(-32002)],
    ),
    "error-message": ([ask("ping"), fail(1, "One\ntwo")], [ask("ping"), fail(1, "One")]),
    "stack-trace": ([ask("ping"), fail(1, TRACE)], [ask("ping"), fail(1, "No such file")]),
    "stack-trace-inside": (
        [ask("ping"), fail(1, "No", {"stack": "Error: x\n    at f (/a/b.js:10:15)"})],
        [ask("ping"), fail(1, "No", {"reason": "look at line 10"})],
    ),
    "missing-capability-object": (
        [ask("tools/list", stamped()), fail(-32021, "No", {"requiredCapabilities": ["roots"]})],
        [ask("tools/list", stamped()), fail(-32021, "No", {"requiredCapabilities": {"roots": {}}})],
    ),
    "unsupported-revision": (
        [ask("tools/list", stamped()), fail(-32022, "No", {"supported": []})],
        [
            ask("tools/list", stamped()),
            fail(-32022, "No", {"supported": [NEWEST], "requested": MODERN}),
        ],
    ),
    "header-mismatch": (
        [ask("tools/list", stamped()), fail(-32020, "Mcp-Method is not tools/list")],
        [ask("tools/list", stamped()), fail(-32602)],
    ),
    "tool-failure-as-error": (
        [*hello(), ask("tools/call", {"name": "a"}), fail(-32603, "Disk full")],
        [*hello(), ask("tools/call", {"name": "a"}), fail(-32602, "Unknown tool: a")],
    ),
    "result-object": ([ask("ping"), give("pong")], [ask("ping"), give({})]),
    "empty-result": (
        [*hello(), ask("ping"), give({"ok": True})],
        [*hello(), ask("ping"), give({"_meta": {}})],
    ),
    "list-member": ([*hello(), ask("tools/list"), give({"tools": {}})], listed()),
    "next-cursor": (
        [*hello(), ask("tools/list"), give({"tools": [], "nextCursor": None})],
        [*hello(), ask("tools/list"), give({"tools": [], "nextCursor": ""})],
    ),
    "resource-contents": (
        [ask("resources/read", {"uri": "a:b"}), give({"contents": [{"uri": "a:b"}]})],
        [ask("resources/read", {"uri": "a:b"}), give({"contents": [{"uri": "a:b", "text": ""}]})],
    ),
    "prompt-messages": (
        [ask("prompts/get", {"name": "p"}), give({"messages": [{"role": "system"}]})],
        [
            ask("prompts/get", {"name": "p"}),
            give({"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}]}),
        ],
    ),
    "completion-values": (
        [ask("completion/complete", {}), give({"completion": {"values": ["a"] * 101}})],
        [ask("completion/complete", {}), give({"completion": {"values": ["a"] * 100}})],
    ),
    "handshake-result": (
        [ask("initialize", {}), give({"protocolVersion": NEWEST, "capabilities": {}})],
        hello(),
    ),
    "negotiated-revision": (hello("1.0"), hello()),
    "content-block": (call({"content": [{"type": "html", "html": "x"}]}), call(text("x"))),
    "content-of-other-revision": (
        call({"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}, "2024-11-05"),
        call({"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}),
    ),
    "log-level": (
        [*hello(), note("notifications/message", {"level": "warn", "data": "x"})],
        [*hello(), note("notifications/message", {"level": "warning", "data": "x"})],
    ),
    "tool-name": (listed(tool("github/create_issue")), listed(tool("create_issue"))),
    "tool-name-unique": (listed(tool("a"), tool("a")), listed(tool("a"), tool("b"))),
    "input-schema": (listed({"name": "a", "inputSchema": {}}), listed(tool("a"))),
    "output-schema": (
        listed(tool("a", outputSchema={"type": "array"})),
        listed(tool("a", outputSchema={"type": "object"})),
    ),
    "header-annotation": (
        afresh(
            "tools/list",
            kept(
                tools=[
                    {
                        "name": "a",
                        "inputSchema": {
                            "type": "object",
                            "properties": {"x": {"type": "string", "x-mcp-header": "a b"}},
                        },
                    }
                ]
            ),
        ),
        afresh(
            "tools/list",
            kept(
                tools=[
                    {
                        "name": "a",
                        "inputSchema": {
                            "type": "object",
                            "properties": {"x": {"type": "string", "x-mcp-header": "Region"}},
                        },
                    }
                ]
            ),
        ),
    ),
    "tool-hints": (
        listed(tool("a", annotations={"readOnlyHint": True, "destructiveHint": True})),
        listed(tool("a", annotations={"readOnlyHint": False, "destructiveHint": True})),
    ),
    "tool-order": (
        [*listed(tool("a"), tool("b")), ask("tools/list"), give({"tools": [tool("b"), tool("a")]})],
        [*listed(tool("a"), tool("b")), ask("tools/list"), give({"tools": [tool("b")]})],
    ),
    "tool-content": (call({"issue_number": 123}), call({"content": []})),
    "is-error-boolean": (
        call({**text("x"), "isError": "no"}),
        call({**text("x"), "isError": False}),
    ),
    "is-error-elsewhere": (
        [ask("prompts/get", {"name": "p"}), give({"messages": [], "isError": True})],
        call({**text("x"), "isError": True}),
    ),
    "failure-as-success": (
        call(text("Error: no such file")),
        call({**text("Error: no such file"), "isError": True}),
    ),
    "structured-object": (
        call({**text("[1]"), "structuredContent": [1]}),
        call({**text("{}"), "structuredContent": {}}),
    ),
    "structured-of-other-revision": (
        call({**text("{}"), "structuredContent": {}}, "2025-03-26"),
        call({**text("{}"), "structuredContent": {}}),
    ),
    "structured-text": (
        call({"content": [], "structuredContent": {"a": 1}}),
        call({**text('{"a":1}'), "structuredContent": {"a": 1}}),
    ),
    "structured-missing": (
        [
            *listed(tool("a", outputSchema={"type": "object"})),
            ask("tools/call", {"name": "a"}, 10),
            give(text("x"), 10),
        ],
        [
            *listed(tool("a", outputSchema={"type": "object"})),
            ask("tools/call", {"name": "a"}, 10),
            give({**text("{}"), "structuredContent": {}}, 10),
        ],
    ),
    "progress-number": (
        reports({"progress": {"type": "step", "label": "Fetching", "percentage": 50}}),
        reports({"progress": 50, "total": 100, "message": "Fetching"}),
    ),
    "progress-rises": (
        reports({"progress": 1}, {"progress": 1}),
        reports({"progress": 1}, {"progress": 1.5}),
    ),
    "progress-token": (
        [*reports({"progress": 1}), note("notifications/progress", {"progressToken": "t"})],
        reports({"progress": 1}),
    ),
    "cancelled-request": (
        [*hello("2025-06-18"), note("notifications/cancelled", {"reason": "enough"})],
        [*hello("2025-06-18"), note("notifications/cancelled", {"requestId": 4})],
    ),
    "cancelled-handshake": (
        [ask("initialize", {}, 5), note("notifications/cancelled", {"requestId": 5})],
        [*hello(), note("notifications/cancelled", {"requestId": 5})],
    ),
    "handshake-first": (
        [ask("tools/list"), give({"tools": []}), *hello()],
        [ask("ping"), give({}), *hello()],
    ),
    "initialized": (
        [*hello()[:2], ask("tools/list"), give({"tools": []})],
        [*hello(), ask("tools/list"), give({"tools": []})],
    ),
    "question-declared": (
        [*hello(), ask("roots/list"), give({"roots": []})],
        [*hello(client={"roots": {}}), ask("roots/list"), give({"roots": []})],
    ),
    "offer-declared": (
        [*hello(server={"tools": {}}), ask("prompts/list"), give({"prompts": []})],
        [*hello(server={"prompts": {}}), ask("prompts/list"), give({"prompts": []})],
    ),
    "request-envelope": (
        [ask("tools/list", {"_meta": {meta.PROTOCOL_VERSION: MODERN}}), give(kept(tools=[]))],
        afresh("tools/list", kept(tools=[])),
    ),
    "client-info": (
        [
            ask(
                "tools/list",
                {"_meta": {meta.PROTOCOL_VERSION: MODERN, meta.CLIENT_CAPABILITIES: {}}},
            ),
            give(kept(tools=[])),
        ],
        afresh("tools/list", kept(tools=[])),
    ),
    "result-type": (afresh("tools/call", text("x")), afresh("tools/call", whole(**text("x")))),
    "result-type-known": (
        afresh("tools/call", {"resultType": "partial", "content": []}),
        afresh("tools/call", whole(content=[])),
    ),
    "cache-hints": (
        afresh("tools/list", whole(tools=[])),
        afresh("tools/list", kept(tools=[])),
    ),
    "cache-hint-values": (
        afresh("tools/list", whole(tools=[], ttlMs=-1, cacheScope="private")),
        afresh("tools/list", whole(tools=[], ttlMs=1, cacheScope="public")),
    ),
    "cache-hints-on-question": (
        afresh("tools/call", {"resultType": "input_required", "requestState": "s", "ttlMs": 1}),
        afresh("tools/call", {"resultType": "input_required", "requestState": "s"}),
    ),
    "page-scope": (
        [*page("public", {}, 1), *page("private", {"cursor": "2"}, 2)],
        [*page("public", {}, 1), *page("public", {"cursor": "2"}, 2), *page("private", {}, 3)],
    ),
    "input-required": (question(ELICIT, FORMS, "tools/list"), question(ELICIT, FORMS)),
    "input-form": (
        question({"jsonrpc": "2.0", "id": 1, "method": "roots/list"}, {"roots": {}}),
        question({"method": "roots/list"}, {"roots": {}}),
    ),
    "input-declared": (question(ELICIT, {"roots": {}}), question(ELICIT, FORMS)),
    "request-state": (
        afresh("tools/call", whole(content=[]), {"name": "a", "requestState": "s"}),
        [
            *afresh("tools/call", {"resultType": "input_required", "requestState": "s"}),
            *afresh("tools/call", whole(content=[]), {"name": "a", "requestState": "s"}),
        ],
    ),
    "log-unasked": (
        [
            ask("tools/call", stamped({"name": "a"})),
            note("notifications/message", {"level": "info", "data": "x"}),
            give(whole(content=[])),
        ],
        [
            ask("tools/call", stamped({"name": "a"}, **{meta.LOG_LEVEL: "info"})),
            note("notifications/message", {"level": "info", "data": "x"}),
            give(whole(content=[])),
        ],
    ),
    "listen-acknowledged": (
        [
            ask("subscriptions/listen", stamped()),
            note("notifications/tools/list_changed", {"_meta": {meta.SUBSCRIPTION_ID: 9}}),
        ],
        [
            ask("subscriptions/listen", stamped()),
            note("notifications/subscriptions/acknowledged", {"_meta": {meta.SUBSCRIPTION_ID: 9}}),
            note("notifications/tools/list_changed", {"_meta": {meta.SUBSCRIPTION_ID: 9}}),
        ],
    ),
}
"""What `subscription-id` and `slow-discovery` judge, no file of messages has: see the tests."""
