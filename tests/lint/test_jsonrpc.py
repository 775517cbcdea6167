"""Rules about the messages themselves."""

from typing import Any

import pytest

from tests.lint.checking import broken, messages
from tests.lint.conversations import ask, fail, give, hello, note, stamped


@pytest.mark.parametrize("version", [2.0, "1.0", None, "2.00"])
def test_the_version_is_one_string(version: Any) -> None:
    told = {"jsonrpc": version, "method": "notifications/initialized"}
    assert "jsonrpc-version" in broken(told)


@pytest.mark.parametrize("id", [None, 1.5, True, [1], {}])
def test_an_id_is_a_string_or_an_integer(id: Any) -> None:
    assert "id-type" in broken(ask("ping", id=id), give({}, id))


@pytest.mark.parametrize("id", [0, -1, 10**40, "", "a"])
def test_every_string_and_integer_will_do(id: Any) -> None:
    assert not broken(ask("ping", id=id), give({}, id))


def test_an_error_may_lack_the_id_of_what_could_not_be_read() -> None:
    assert "id-type" not in broken(fail(-32700, "Parse error", id=None))


def test_without_a_session_an_id_may_come_again_when_it_is_free() -> None:
    first, second = ask("tools/list", stamped(), 1), ask("prompts/list", stamped(), 1)

    assert "id-reuse" not in broken(first, give({}, 1), second, give({}, 1))
    assert "id-reuse" in broken(first, second, give({}, 1))


def test_a_server_may_use_the_ids_of_its_client() -> None:
    client = hello(client={"roots": {}})
    assert "id-reuse" not in broken(
        *client, ask("roots/list", id=0), give({"roots": []}, 0), ask("ping", id=1), give({}, 1)
    )


def test_an_answer_with_null_for_the_other_member_has_both() -> None:
    told = {"jsonrpc": "2.0", "id": 1, "result": None, "error": {"code": 1, "message": "No"}}
    assert "result-or-error" in broken(ask("ping", id=1), told)


def test_a_stray_answer_tells_its_id() -> None:
    assert messages("stray-answer", ask("ping", id=1), give({}, 2)) == [
        "nothing that was asked has its id, 2"
    ]


def test_an_answer_that_follows_a_notification_may_be_to_something_else() -> None:
    assert "answer-to-notification" not in broken(
        ask("ping", id=1), note("notifications/message", {"level": "info"}), give({}, 1)
    )


def test_a_batch_before_any_handshake_is_out_of_place() -> None:
    assert messages("batch", [ask("ping", id=1)]) == ["1 messages in one, in no revision"]


def test_a_stream_of_changes_needs_no_answer() -> None:
    assert "unanswered" not in broken(ask("subscriptions/listen", stamped()))


@pytest.mark.parametrize("params", ["x", 1, None, True])
def test_params_that_are_no_structure_are_told(params: Any) -> None:
    told = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params}
    assert "params-structured" in broken(told, give({}, 1))
