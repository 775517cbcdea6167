"""Holds messages against the official schema of a revision, made strict.

The official schemas let any member pass. Here a member that a shape does not name is a fault, so
that a field of a newer revision is noticed in an older one; unless `strict` is false.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

SCHEMAS = Path(__file__).parents[1] / "src" / "anyport" / "lint" / "mcp_schemas"
EXTENSIONS = Path(__file__).with_name("schemas")
MODERN = "2026-07-28"
TASKS = "tasks-extension"
"""Stands for a revision where the extension has a schema of its own."""

RESULTS = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "server/discover": "DiscoverResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "tasks/get": "GetTaskResult",
    "tasks/result": "CallToolResult",
    "tasks/cancel": "CancelTaskResult",
    "tasks/list": "ListTasksResult",
    "tasks/update": "UpdateTaskResult",
}
SENT = {
    "notifications/cancelled": "CancelledNotification",
    "notifications/progress": "ProgressNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
    "notifications/prompts/list_changed": "PromptListChangedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
    "notifications/elicitation/complete": "ElicitationCompleteNotification",
    "notifications/tasks/status": "TaskStatusNotification",
    "notifications/tasks": "TaskStatusNotification",
    "elicitation/create": "ElicitRequest",
    "sampling/createMessage": "CreateMessageRequest",
    "roots/list": "ListRootsRequest",
}
ERRORS = {
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}


def check_result(revision: str, method: str, result: Any, *, strict: bool = True) -> None:
    asks = isinstance(result, dict) and result.get("resultType") == "input_required"
    name = "InputRequiredResult" if asks else RESULTS[method]
    if method == "tools/call" and ("task" in result or result.get("resultType") == "task"):
        name = "CreateTaskResult"
    if revision == MODERN and "Task" in name:
        # The schema of the extension composes its shapes, which none of the parts knows alone.
        _check(TASKS, name, result, strict=False)
        if "result" in result:
            check_result(revision, "tools/call", result["result"], strict=strict)
        return
    _check(revision, name, result, strict=strict)


def check_error(revision: str, message: dict[str, Any]) -> None:
    definitions = _document(revision)[1]
    name = ERRORS.get(message["error"]["code"])
    if name not in definitions:
        name = "JSONRPCError" if "JSONRPCError" in definitions else "JSONRPCErrorResponse"
    _check(revision, name, message)


def check_sent(revision: str, message: dict[str, Any], *, strict: bool = True) -> None:
    """Checks what the server sends of its own accord: a notification or a request."""
    name = SENT[message["method"]]
    params = message.get("params", {})
    if message["method"] == "notifications/tasks":
        _check(TASKS, name, message, strict=False)
        return
    if message["method"] == "notifications/tasks/status":
        _check(revision, "Task", params, strict=strict)
        return
    if "taskIds" in params.get("notifications", {}):
        filter_ = params["notifications"]
        _check(TASKS, "TaskSubscriptionAcknowledgedNotifications", filter_, strict=False)
        others = {k: v for k, v in filter_.items() if k != "taskIds"}
        message = {**message, "params": {**params, "notifications": others}}
    known = _document(revision)[1][name]["properties"]
    # Older schemas describe method and params alone, and leave the rest to JSON-RPC.
    said = {k: v for k, v in message.items() if k in known or k == "params"}
    _check(revision, name, said, strict=strict)


def knows(revision: str, message: dict[str, Any]) -> bool:
    return SENT.get(message["method"]) in _document(revision)[1]


def _check(revision: str, name: str, value: Any, *, strict: bool = True) -> None:
    errors = [
        f"{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in _validator(revision, name, strict).iter_errors(value)
    ]
    assert not errors, f"not a {name} of {revision}: {errors}\n{value}"


@cache
def _validator(revision: str, name: str, strict: bool) -> jsonschema_rs.Validator:
    key, definitions = _document(revision, strict)
    return jsonschema_rs.validator_for({"$ref": f"#/{key}/{name}", key: definitions})


@cache
def _document(revision: str, strict: bool = True) -> tuple[str, dict[str, Any]]:
    folder = EXTENSIONS if revision == TASKS else SCHEMAS
    document = json.loads((folder / f"{revision}.json").read_text())
    key = "$defs" if "$defs" in document else "definitions"
    rules = document[key].items()
    return key, {name: _strict(rule) if strict else rule for name, rule in rules}


def _strict(rule: Any) -> Any:
    if isinstance(rule, list):
        return [_strict(part) for part in rule]
    if not isinstance(rule, dict):
        return rule
    strict = {key: _strict(part) for key, part in rule.items()}
    if isinstance(rule.get("properties"), dict) and rule.get("type") == "object":
        # A member that refines `error` names only what it refines.
        refines = {"code", "data"} == set(rule["properties"])
        strict.setdefault("additionalProperties", refines)
    return strict
