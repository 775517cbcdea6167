"""The check that every cell of the matrix relies on does refuse something."""

from typing import Any

import pytest

from tests.harness import Message
from tests.matrix.legality import check

TEXT: Message = {"content": [{"type": "text", "text": "x"}]}
LOG: Message = {"level": "info", "data": "x"}


def answer(**rest: Any) -> Message:
    return {"jsonrpc": "2.0", "id": 1, **rest}


def said(method: str, params: Message, **rest: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params, **rest}


def error(code: int) -> Message:
    return answer(error={"code": code, "message": "no"})


@pytest.mark.parametrize(
    ("revision", "method", "message"),
    [
        ("2024-11-05", "tools/call", answer(result=TEXT)),
        ("2024-11-05", "tools/call", answer(result={**TEXT, "structuredContent": {}})),
        ("2026-07-28", "tools/call", answer(result={**TEXT, "resultType": "complete"})),
        ("2025-11-25", "ping", answer(result={})),
        ("2025-11-25", None, said("notifications/message", LOG)),
        ("2024-11-05", "resources/read", error(-32002)),
        ("2025-11-25", "tools/call", error(-32042)),
    ],
)
def test_what_a_revision_has_is_legal(revision: str, method: str | None, message: Message) -> None:
    check(revision, method, message)


@pytest.mark.parametrize(
    ("revision", "method", "message"),
    [
        ("2025-11-25", "tools/call", answer(result={**TEXT, "resultType": "complete"})),
        ("2025-11-25", "tools/list", answer(result={"tools": [], "ttlMs": 0})),
        (
            "2025-11-25",
            "tools/call",
            answer(result={**TEXT, "_meta": {"io.modelcontextprotocol/serverInfo": {}}}),
        ),
        ("2026-07-28", "tools/call", answer(result=TEXT)),
        ("2024-11-05", "tools/call", answer(result={"content": [{"type": "audio"}]})),
        ("2025-11-25", "ping", answer(result={"much": "more"})),
        ("2025-11-25", None, answer(result={})),
        ("2026-07-28", None, said("roots/list", {}, id=1)),
        ("2025-03-26", None, said("elicitation/create", {"message": "?"}, id=1)),
        ("2026-07-28", "resources/read", error(-32002)),
        ("2025-06-18", "tools/call", error(-32042)),
        ("2025-11-25", "tools/call", error(-32021)),
    ],
)
def test_what_a_revision_lacks_is_refused(
    revision: str, method: str | None, message: Message
) -> None:
    with pytest.raises(AssertionError):
        check(revision, method, message)
