"""The skill: listed, found, and read file by file."""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from anyport.demo import skills
from anyport.demo.faults import Fault
from anyport.demo.options import Options
from anyport.demo.resources import list_resources, read_resource, touch
from anyport.demo.skills import FILES, ROOT, SKILL, get_skill, list_skills, read_directory
from tests.demo.fakes import FakeCall


def skilled(**options: Any) -> FakeCall:
    return FakeCall("2026-07-28", options=Options(**{"skills": True, **options}))


def code(method: Callable[..., Any], call: FakeCall, uri: str) -> int:
    with pytest.raises(Fault) as refused:
        method(call, {"uri": uri})
    return refused.value.code


def test_the_entry_says_the_truth_of_every_file() -> None:
    call = skilled()
    (entry,) = list_skills(call, {})["skills"]

    assert get_skill(call, {"uri": SKILL}) == {"skill": entry}
    assert entry["uri"] == SKILL
    assert {file["uri"] for file in entry["resources"]} == FILES.keys()
    for file in entry["resources"]:
        (contents,) = read_resource(call, {"uri": file["uri"]})["contents"]
        raw = contents["text"].encode()
        assert file["size"] == len(raw)
        assert file["digest"] == f"sha256:{hashlib.sha256(raw).hexdigest()}"


def test_its_frontmatter_is_that_of_the_file() -> None:
    (entry,) = list_skills(skilled(), {})["skills"]
    opening, written, body = FILES[SKILL].split("---\n")

    lines = [line.partition(": ") for line in written.splitlines()]
    assert opening == ""
    assert {name: value for name, _, value in lines} == entry["frontmatter"]
    assert entry["frontmatter"]["name"] == ROOT.rpartition("/")[2]
    assert "references/leaves.md" in body


def test_directories_list_their_children() -> None:
    call = skilled()
    top = read_directory(call, {"uri": ROOT})["resources"]
    below = read_directory(call, {"uri": f"{ROOT}/references"})["resources"]

    assert [(child["name"], child["mimeType"]) for child in top] == [
        ("SKILL.md", "text/markdown"),
        ("references", "inode/directory"),
    ]
    assert [child["uri"] for child in below] == [f"{ROOT}/references/leaves.md"]
    paged = read_directory(skilled(page_size=1), {"uri": ROOT})
    assert (len(paged["resources"]), "nextCursor" in paged) == (1, True)


def test_its_files_are_in_no_list_of_resources_and_never_change() -> None:
    call = skilled()

    assert not {each["uri"] for each in list_resources(call, {})["resources"]} & FILES.keys()
    assert touch(call.world, SKILL) is None


def test_what_is_no_skill_and_what_is_no_directory_are_wrong_params() -> None:
    assert code(get_skill, skilled(), ROOT) == -32602
    assert code(read_directory, skilled(), SKILL) == -32602
    assert code(read_resource, skilled(), f"{ROOT}/other.md") == -32602


@pytest.mark.parametrize("method", [list_skills, get_skill, read_directory])
def test_without_the_option_nothing_is_known_of_skills(method: Callable[..., Any]) -> None:
    assert code(method, skilled(skills=False), SKILL) == -32601
    assert code(read_resource, skilled(skills=False), SKILL) == -32602
    assert skills.read(SKILL) is not None
