"""The modern client adapter: validation of requests, completed results."""

import json
from typing import Any

import msgspec
import pytest

from anyport.protocol.adapters.modern_client import (
    CACHEABLE_METHODS,
    Envelope,
    deliver_modern,
    is_modern,
    read_envelope,
)
from anyport.protocol.errors import Fault, invalid_params, not_running
from anyport.protocol.exchange import (
    Answered,
    ErrorAnswered,
    ExchangeEvent,
    Failed,
    Log,
    NeedInput,
    Progress,
    ServerNotification,
)
from anyport.protocol.methods import METHODS, find_method
from anyport.protocol.revisions import REVISIONS
from tests.protocol.fakes import IDENTITY, META, FakeQuestion, FakeReplyWriter, caller, exchange

MODERN = REVISIONS["2026-07-28"]
VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
LEVEL = "io.modelcontextprotocol/logLevel"
CLIENT = "io.modelcontextprotocol/clientInfo"
SERVER = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def found(meta: dict[str, Any]) -> dict[str, msgspec.Raw]:
    return {key: msgspec.Raw(json.dumps(value).encode()) for key, value in meta.items()}


def events(method: str, event: ExchangeEvent, id: bytes = b"1", token: bytes | None = None) -> Any:
    """The frames that a modern client receives."""
    writer = FakeReplyWriter()
    made, _ = exchange(method, caller("2026-07-28"), id, writer=writer)
    made.progress_token = token
    deliver_modern(made, event, IDENTITY)
    return writer.take()


@pytest.mark.parametrize(
    ("method", "meta", "modern"),
    [
        ("tools/list", META, True),
        ("tools/list", {VERSION: 7}, True),
        ("tools/list", {}, False),
        ("tools/list", {CAPABILITIES: {}}, False),
        ("server/discover", {}, True),
        ("subscriptions/listen", {}, True),
        ("initialize", META, False),
    ],
)
def test_the_message_alone_decides_its_era(method: str, meta: dict[str, Any], modern: bool) -> None:
    assert is_modern(method, found(meta)) is modern


def test_a_complete_envelope_opens() -> None:
    envelope = read_envelope(
        found(
            {
                VERSION: "2026-07-28",
                CAPABILITIES: {"sampling": {}},
                CLIENT: {"name": "c"},
                LEVEL: "warning",
            }
        )
    )

    assert isinstance(envelope, Envelope)
    assert envelope.revision is MODERN
    assert envelope.capabilities.questions == {"sampling"}
    assert envelope.client == b'{"name": "c"}'
    assert envelope.log_level == "warning"


def test_a_client_need_not_say_who_it_is_nor_want_logs() -> None:
    envelope = read_envelope(found(META))

    assert isinstance(envelope, Envelope)
    assert envelope.client is None
    assert envelope.log_level is None


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {VERSION: "2026-07-28"},
        {CAPABILITIES: {}},
        {VERSION: 20260728, CAPABILITIES: {}},
        {VERSION: None, CAPABILITIES: {}},
        {VERSION: "2026-07-28", CAPABILITIES: []},
        {VERSION: "2026-07-28", CAPABILITIES: None},
        {**META, LEVEL: "loud"},
        {**META, LEVEL: 3},
        {**META, LEVEL: None},
        # Keys are checked before versions: both are wrong here.
        {VERSION: "1999-01-01"},
    ],
)
def test_missing_or_unsound_keys_are_invalid_params(meta: dict[str, Any]) -> None:
    fault = read_envelope(found(meta))

    assert isinstance(fault, Fault)
    assert fault.code(MODERN) == -32602
    assert "_meta" in fault.message


@pytest.mark.parametrize("version", ["1999-01-01", "2025-11-25", "2024-10-07", ""])
def test_a_revision_without_envelopes_is_refused_with_those_that_have_them(version: str) -> None:
    fault = read_envelope(found({VERSION: version, CAPABILITIES: {}}))

    assert isinstance(fault, Fault)
    assert json.loads(fault.render(MODERN)) == {
        "code": -32022,
        "message": f"Unsupported protocol version: {version}",
        "data": {"supported": ["2026-07-28"], "requested": version},
    }


@pytest.mark.parametrize("method", [name for name in METHODS if find_method(name, MODERN)])
def test_every_result_has_its_type_and_the_gateways_name_and_lists_say_how_long_they_keep(
    method: str,
) -> None:
    (frame,) = events(method, Answered(b'{"a":1}'))

    result = frame["result"]
    assert result["a"] == 1
    assert result["resultType"] == "complete"
    assert result["_meta"][SERVER] == json.loads(IDENTITY)
    hints = {name: result[name] for name in ("ttlMs", "cacheScope") if name in result}
    assert hints == ({"ttlMs": 0, "cacheScope": "private"} if method in CACHEABLE_METHODS else {})


def test_cache_hints_of_a_server_stay_and_its_server_info_is_replaced() -> None:
    own = b'{"resultType":"complete","ttlMs":5,"cacheScope":"public","_meta":{"%b":{},"v":1.0}}'

    (frame,) = events("resources/read", Answered(own % SERVER.encode()))

    assert frame["result"] == {
        "resultType": "complete",
        "ttlMs": 5,
        "cacheScope": "public",
        "_meta": {SERVER: json.loads(IDENTITY), "v": 1.0},
    }


def test_a_result_that_needs_input_is_no_result_to_keep() -> None:
    (frame,) = events("resources/read", Answered(b'{"resultType":"input_required"}'))

    assert "ttlMs" not in frame["result"]
    assert "cacheScope" not in frame["result"]


def test_an_error_of_the_server_passes_and_one_of_ours_has_its_modern_code() -> None:
    (refused,) = events("tools/call", ErrorAnswered(b'{"code":7,"message":"m"}'), b'"x"')
    (failed,) = events("tools/call", Failed(invalid_params("no")))
    (down,) = events("prompts/get", Failed(not_running("a", "why")))

    assert refused == {"jsonrpc": "2.0", "id": "x", "error": {"code": 7, "message": "m"}}
    assert failed["error"] == {"code": -32602, "message": "no"}
    assert down["error"]["code"] == -32603


def test_a_tool_of_a_server_that_is_down_is_an_error_result() -> None:
    (frame,) = events("tools/call", Failed(not_running("a", "why")))

    result = frame["result"]
    assert result["isError"] is True
    assert result["resultType"] == "complete"
    assert result["content"] == [{"type": "text", "text": "Server 'a' is not running: why"}]


def test_progress_is_delivered_under_the_clients_token() -> None:
    progress = Progress(b'{"progressToken":99,"progress":1}')

    (frame,) = events("tools/call", progress, token=b'"t"')

    assert frame["params"] == {"progressToken": "t", "progress": 1}
    assert events("tools/call", progress) == []


def test_logs_and_notifications_are_delivered_with_their_subscription_id() -> None:
    (log,) = events("tools/call", Log(b'{"level":"info"}'))
    (notice,) = events("subscriptions/listen", ServerNotification("a/b", b'{"c":1}'), b'"l"')
    (bare,) = events("subscriptions/listen", ServerNotification("a/b", None), b'"l"')
    (end,) = events("subscriptions/listen", Answered(b"{}"), b"7")

    assert (log["method"], log["params"]) == ("notifications/message", {"level": "info"})
    assert notice["params"] == {"c": 1, "_meta": {SUBSCRIPTION: "l"}}
    assert bare["params"] == {"_meta": {SUBSCRIPTION: "l"}}
    assert end["result"]["_meta"][SUBSCRIPTION] == 7


@pytest.mark.parametrize("params", [b'{"c":1}', None])
def test_notifications_of_a_call_have_no_subscription_id(params: bytes | None) -> None:
    (notice,) = events("tools/call", ServerNotification("a/b", params))

    assert notice.get("params") == (None if params is None else {"c": 1})


def test_a_modern_client_is_never_sent_a_request() -> None:
    asked = FakeQuestion("roots/list")

    assert events("tools/call", NeedInput(asked.question)) == []
    assert asked.error == {"code": -32601, "message": "The client does not answer roots/list"}


@pytest.mark.parametrize("method", ["resources/read", "tools/call"])
def test_an_error_is_delivered_unchanged(method: str) -> None:
    (frame,) = events(method, ErrorAnswered(b'{"code":-32002,"message":"m","data":{"a":1}}'))

    assert frame["error"] == {"code": -32002, "message": "m", "data": {"a": 1}}


def test_related_task_meta_is_removed_for_modern_clients() -> None:
    own = b'{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"},"v":1}}'

    (frame,) = events("tools/call", Answered(own))

    assert frame["result"]["_meta"] == {SERVER: json.loads(IDENTITY), "v": 1}
