"""The directories of skills: what lies in them, and who else claims something there."""

import time

import pytest

from anyport.routing.skills import disputed, enclosing, root_of

TEA, COFFEE = "skill://tea", "skill://coffee"


@pytest.mark.parametrize(
    ("skill", "root"),
    [
        ("skill://tea/SKILL.md", "skill://tea"),
        ("skill://a/b/tea/SKILL.md", "skill://a/b/tea"),
        ("github://owner/repo/tea/SKILL.md", "github://owner/repo/tea"),
        ("skill:///tea/SKILL.md", "skill:///tea"),
        # All skills there are would lie in such a directory.
        ("skill://SKILL.md", None),
        ("skill:///SKILL.md", None),
        ("/SKILL.md", None),
        ("skill://tea/skill.md", None),
        ("skill://tea", None),
        ("", None),
    ],
)
def test_a_skill_is_named_by_the_file_in_its_directory(skill: str, root: str | None) -> None:
    assert root_of(skill) == root


def test_a_directory_holds_what_is_below_it_and_the_innermost_counts() -> None:
    roots = [TEA, f"{TEA}/green", COFFEE]

    assert enclosing(roots, f"{TEA}/SKILL.md") == TEA
    assert enclosing(roots, TEA) == TEA
    assert enclosing(roots, f"{TEA}/green/a/b.md") == f"{TEA}/green"
    assert enclosing(roots, f"{TEA}/greens") == TEA
    assert enclosing(roots, "skill://teapot/SKILL.md") is None
    assert enclosing([], TEA) is None


def test_a_directory_of_one_server_is_nobodys_business() -> None:
    roots = [("a", TEA), ("b", COFFEE), ("a", f"{TEA}/green")]
    claims = [("a", f"{TEA}/SKILL.md"), ("b", "skill://teapot"), ("b", "file:///x")]

    assert disputed(roots, claims) == set()
    assert disputed([], claims) == set()


def test_of_a_directory_of_two_servers_all_is_disputed() -> None:
    roots = [("a", TEA), ("b", TEA), ("a", COFFEE)]
    claims = [("a", f"{TEA}/x.md"), ("b", f"{TEA}/y.md"), ("a", f"{COFFEE}/z.md")]

    assert disputed(roots, claims) == {
        ("a", TEA),
        ("b", TEA),
        ("a", f"{TEA}/x.md"),
        ("b", f"{TEA}/y.md"),
    }


def test_a_directory_within_another_servers_is_disputed_and_so_is_a_file() -> None:
    inner = f"{TEA}/green"

    assert disputed([("a", TEA), ("b", inner)], []) == {("a", TEA), ("b", inner)}
    assert disputed([("a", TEA)], [("b", f"{TEA}/x.md")]) == {("a", TEA), ("b", f"{TEA}/x.md")}


def test_thousands_of_deep_directories_are_sorted_out_at_once() -> None:
    deep = "/x" * 400
    roots = [(slug, f"skill://{number}{deep}") for slug in "ab" for number in range(2_500)]
    began = time.perf_counter()

    assert len(disputed(roots, roots)) == len(roots)
    assert time.perf_counter() - began < 5
