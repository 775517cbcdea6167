"""The check that every other test relies on does refuse something."""

import pytest

from tests.schema import check_result, check_sent


def test_a_member_that_the_revision_does_not_know_is_refused() -> None:
    tool = {"name": "a", "title": "A", "inputSchema": {"type": "object"}}

    check_result("2025-06-18", "tools/list", {"tools": [tool]})
    with pytest.raises(AssertionError, match="title"):
        check_result("2025-03-26", "tools/list", {"tools": [tool]})


def test_a_content_type_that_the_revision_does_not_know_is_refused() -> None:
    audio = {"type": "audio", "data": "", "mimeType": "audio/wav"}

    check_result("2025-03-26", "tools/call", {"content": [audio]})
    with pytest.raises(AssertionError):
        check_result("2024-11-05", "tools/call", {"content": [audio]})


def test_a_modern_result_without_its_type_is_refused() -> None:
    with pytest.raises(AssertionError, match="resultType"):
        check_result("2026-07-28", "tools/call", {"content": []})


def test_a_notification_with_an_unknown_member_is_refused() -> None:
    params = {"progressToken": 1, "progress": 1, "message": "half"}
    message = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    check_sent("2025-03-26", message)
    with pytest.raises(AssertionError, match="message"):
        check_sent("2024-11-05", message)


def test_a_task_in_the_words_of_another_revision_is_refused() -> None:
    task = {"taskId": "t", "status": "working", "createdAt": "", "lastUpdatedAt": ""}
    older, newer = {**task, "ttl": None}, {**task, "ttlMs": None, "resultType": "complete"}

    check_result("2025-11-25", "tasks/get", older)
    check_result("2026-07-28", "tasks/get", newer)
    with pytest.raises(AssertionError, match="ttl"):
        check_result("2025-11-25", "tasks/get", newer)
    with pytest.raises(AssertionError):
        check_result("2026-07-28", "tasks/get", older)
