"""Requests in files."""

import json
from pathlib import Path
from typing import Any

import pytest

from anyport.record.compare import ABSENT, CompareMode
from anyport.record.fixtures import BadFixture, read_fixtures

ASK = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
GIVE = {"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}


def write(folder: Path, **files: Any) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_a_directory_is_read_in_the_order_of_its_numbers(tmp_path: Path) -> None:
    names = ("b__json", "10_c__json", "9_d__json", "01_e__json")
    folder = write(tmp_path / "all", **dict.fromkeys(names, ASK), notes__txt="no request")

    assert [each.name for each in read_fixtures(folder)] == [
        *("01_e.json", "9_d.json", "10_c.json", "b.json")
    ]


def test_a_file_is_a_request_or_a_notification(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        **{"1__json": ASK, "2__json": {"jsonrpc": "2.0", "method": "notifications/initialized"}},
    )
    asked, told = read_fixtures(folder)

    assert (asked.method, asked.params, asked.id) == ("tools/list", b"{}", b"1")
    assert asked.expected is ABSENT
    assert (told.method, told.params, told.id) == ("notifications/initialized", None, None)


def test_numbers_of_a_request_stay_as_they_are_written(tmp_path: Path) -> None:
    folder = write(tmp_path, **{"1__json": '{"id": 1, "method": "m", "params": {"a": 1e100}}'})
    assert read_fixtures(folder)[0].params == b'{"a": 1e100}'


@pytest.mark.parametrize(
    ("member", "mode"), [("response", CompareMode.EXACT), ("expect", CompareMode.SUBSET)]
)
def test_an_answer_may_stand_with_its_request(
    tmp_path: Path, member: str, mode: CompareMode
) -> None:
    folder = write(tmp_path, **{"1__json": {"request": ASK, member: GIVE}})
    [fixture] = read_fixtures(folder)

    assert (fixture.expected, fixture.mode) == ({"result": {"tools": []}}, mode)


@pytest.mark.parametrize(
    ("beside", "mode"),
    [(GIVE, CompareMode.EXACT), ({"expect": {"result": {"tools": []}}}, CompareMode.SUBSET)],
)
def test_an_answer_may_stand_beside_its_request(
    tmp_path: Path, beside: Any, mode: CompareMode
) -> None:
    folder = write(tmp_path, **{"1_a__json": ASK, "1_a__expected__json": beside})
    [fixture] = read_fixtures(folder)

    assert (fixture.expected, fixture.mode) == ({"result": {"tools": []}}, mode)


def test_lines_hold_a_conversation(tmp_path: Path) -> None:
    other = {**ASK, "id": "1"}
    error = {"jsonrpc": "2.0", "id": "1", "error": {"code": -1, "message": "No"}}
    lines = "\n".join(json.dumps(line) for line in (ASK, other, GIVE, error))
    first, second = read_fixtures(write(tmp_path, a__jsonl=f"{lines}\n\n") / "a.jsonl")

    assert (first.name, first.expected) == ("a.jsonl:1", {"result": {"tools": []}})
    assert second.expected == {"error": {"code": -1, "message": "No"}}


def test_a_list_is_several_requests(tmp_path: Path) -> None:
    folder = write(tmp_path, a__json=[ASK, {"request": ASK, "response": GIVE}])
    assert [each.name for each in read_fixtures(folder)] == ["a.json:1", "a.json:2"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "a.json is not JSON"),
        ("1", "a.json is not a message"),
        ({"id": 1}, "it has no method"),
        ({"id": 1, "method": 7}, "it has no method"),
        ({"id": 1, "method": "m", "params": []}, "params must be an object"),
        ({"request": ASK, "response": {}}, "an answer has a result or an error"),
        ({"request": ASK, "response": GIVE, "expect": GIVE}, "one of them is enough"),
        ({"request": {"method": "m"}, "expect": GIVE}, "expects an answer to a notification"),
    ],
)
def test_what_cannot_be_played_is_told(tmp_path: Path, content: Any, words: str) -> None:
    with pytest.raises(BadFixture, match=words):
        read_fixtures(write(tmp_path, a__json=content))


def test_a_folder_without_requests_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadFixture, match="holds no requests"):
        read_fixtures(tmp_path)
    with pytest.raises(BadFixture, match="cannot be read"):
        read_fixtures(tmp_path / "nothing.json")


def test_an_answer_needs_a_request(tmp_path: Path) -> None:
    with pytest.raises(BadFixture, match="answers no request before it"):
        read_fixtures(write(tmp_path, a__jsonl=json.dumps(GIVE)))
    with pytest.raises(BadFixture, match="answers 2 requests"):
        read_fixtures(write(tmp_path / "b", a__json=[ASK, ASK], a__expected__json=GIVE))
