"""URIs stay as servers wrote them until two servers claim one; then each can be told again."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.catalog.uris import (
    COMPARISONS_MAX,
    EXPRESSIONS_MAX,
    URI_CHARACTERS_MAX,
    TemplateIndex,
    enclosing_root,
    find_disputed,
    qualify,
    qualify_contested,
    qualify_lookalikes,
    skill_root,
    split_qualified,
)

SLUGS = st.from_regex(r"[a-z][a-z0-9-]{0,31}", fullmatch=True)
URIS = st.from_regex(r"(file|ui|git\+ssh|x-y|UI)://[a-z0-9+/{}.]{0,20}", fullmatch=True)


def test_a_uri_of_one_server_is_nobodys_business() -> None:
    assert qualify_contested([("a", "file:///x"), ("a", "file:///x"), ("b", "file:///y")]) == {}


def test_a_uri_that_two_servers_claim_is_qualified_for_both() -> None:
    claims = [("a", "file:///x"), ("b", "file:///x"), ("b", "file:///x"), ("c", "file:///y")]

    assert qualify_contested(claims) == {
        ("a", "file:///x"): "a+file:///x",
        ("b", "file:///x"): "b+file:///x",
    }


@pytest.mark.parametrize(
    ("uri", "public"),
    [
        ("file:///x", "a+file:///x"),
        ("file:///{path}", "a+file:///{path}"),
        ("urn:isbn:1", "a+urn:isbn:1"),
        ("no-scheme", "a+no-scheme"),
        ("https://example.com/x", "https://example.com/x"),
        ("HTTPS://example.com/x", "HTTPS://example.com/x"),
        ("http://example.com/x", "http://example.com/x"),
        ("ui://widget/x.html", "ui://a/widget/x.html"),
        ("ui:widget", "a+ui:widget"),
    ],
)
def test_what_clients_fetch_or_look_for_keeps_its_scheme(uri: str, public: str) -> None:
    assert qualify("a", uri) == public


@given(SLUGS, URIS)
def test_a_qualified_uri_leads_back_to_its_server_and_itself(slug: str, uri: str) -> None:
    public = qualify(slug, uri)

    assert split_qualified(public, [slug, "other"]) == (slug, uri)


@given(st.lists(st.tuples(SLUGS, URIS), max_size=6, unique=True))
def test_no_two_claims_get_one_uri(claims: list[tuple[str, str]]) -> None:
    public = [qualify(slug, uri) for slug, uri in claims]

    assert len(set(public)) == len(public)


@pytest.mark.parametrize(
    "uri",
    [
        *("file:///x", "c+file:///x", "ui://c/x", "ui://ab", "ui://c?a", "https://a/x", "+a", ""),
        *("ui:///a/x", "ui:a/x", "xui://a/x", "file:///a+b", "ui://"),
    ],
)
def test_a_uri_without_a_known_servers_slug_is_not_qualified(uri: str) -> None:
    assert split_qualified(uri, ["a", "b"]) is None


@pytest.mark.parametrize(
    ("uri", "native"),
    [
        ("A+file:///x", "file:///x"),
        ("a+FILE:///X", "FILE:///X"),
        ("UI://a/panel", "ui://panel"),
        ("ui://A/Panel", "ui://Panel"),
        ("ui://%61/panel", "ui://panel"),
        ("ui://a", "ui://"),
        ("ui://a/", "ui://"),
        ("ui://a?x", "ui://?x"),
        ("ui://a#x", "ui://#x"),
        ("ui://a?x/y", "ui://?x/y"),
    ],
)
def test_a_server_is_named_in_whatever_way_the_rules_of_uris_allow(uri: str, native: str) -> None:
    # "the scheme and host are case-insensitive" (RFC 3986, 6.2.2.1)
    assert split_qualified(uri, ["a", "b"]) == ("a", native)


def matches_template(template: str, uri: str) -> bool:
    return TemplateIndex([template]).find(uri) is not None


@pytest.mark.parametrize(
    ("template", "uri", "fits"),
    [
        ("file:///{path}", "file:///a/b", True),
        ("file:///{path}", "file:///", True),
        ("file:///{path}", "file://", False),
        ("file:///{+path}.md", "file:///a.md", True),
        ("file:///{+path}.md", "file:///a.txt", False),
        ("a://{x}/b/{y}", "a://1/b/2", True),
        ("a://{x}/b/{y}", "a://1/c/2", False),
        ("a://{x}{y}", "a://", True),
        ("ab{x}ba", "aba", False),
        ("ab{x}ba", "abba", True),
        ("{x}", "anything", True),
        ("a://{x}/b/{y}/b", "a://1/b", False),
        ("a://plain", "a://plain", True),
        ("a://plain", "a://plainer", False),
        ("a://{unclosed", "a://{unclosed", True),
        ("a://x.y", "a://xzy", False),
    ],
)
def test_a_uri_fits_a_template_when_its_fixed_parts_stand_in_order(
    template: str, uri: str, fits: bool
) -> None:
    assert matches_template(template, uri) is fits


@given(st.lists(st.text("ab/:", max_size=4), min_size=1, max_size=5), st.text("ab/", max_size=5))
def test_every_expansion_of_a_template_fits_it(literals: list[str], value: str) -> None:
    template = "{x}".join(literals)

    assert matches_template(template, value.join(literals))


@pytest.mark.parametrize(
    "template",
    [
        "{a}" * 20_000,
        "a{x}" * 20_000 + "b",
        "{x}a" * 2_000 + "{y}",
        "{" * 50_000,
        "{x" * 50_000,
        "a" * 4_000 + "{x}" + "a" * 4_000 + "b{y}",
    ],
)
def test_no_template_makes_matching_slow(template: str) -> None:
    began = time.process_time()

    matches_template(template, "a" * URI_CHARACTERS_MAX)

    # What is linear takes milliseconds; what backtracks would not come back.
    assert time.process_time() - began < 1


def test_an_endless_uri_fits_no_template() -> None:
    assert matches_template("{x}", "a" * URI_CHARACTERS_MAX)
    assert not matches_template("{x}", "a" * (URI_CHARACTERS_MAX + 1))


def test_the_template_with_the_longest_fixed_beginning_is_the_best() -> None:
    templates = ["{any}", "file:///{path}", "file:///docs/{name}", "git:///{x}"]

    assert TemplateIndex(templates).find("file:///docs/a") == "file:///docs/{name}"
    assert TemplateIndex(templates).find("file:///a") == "file:///{path}"
    assert TemplateIndex(templates[1:]).find("x:///a") is None
    assert TemplateIndex([]).find("file:///a") is None


def test_a_uri_that_begins_like_another_servers_public_one_is_qualified_too() -> None:
    claims = [("a", "b+file:///x"), ("a", "ui://b/x"), ("a", "a+file:///x"), ("b", "c+file:///x")]
    claims += [("a", "B+file:///x"), ("a", "ui://b"), ("a", "UI://B/x")]

    assert qualify_lookalikes(claims, ("a", "b")) == {
        ("a", "b+file:///x"): "a+b+file:///x",
        ("a", "ui://b/x"): "ui://a/b/x",
        ("a", "B+file:///x"): "a+B+file:///x",
        ("a", "ui://b"): "ui://a/b",
        ("a", "UI://B/x"): "a+UI://B/x",
    }


def test_of_templates_that_begin_alike_the_first_that_fits_is_the_best() -> None:
    index = TemplateIndex(["a:b{x}c", "a:{x}/1", "a:{x}/2", "a:{y}/2", "a:bcd{x}", "a:b"])

    assert index.find("a:z/2") == "a:{x}/2"
    assert index.find("a:b") == "a:b"
    assert index.find("a:bcd") == "a:bcd{x}"
    assert index.find("a:bcc") == "a:b{x}c"
    assert index.find("a:bz/1") == "a:{x}/1"
    assert index.find("a:") is None
    assert index.find("b:") is None


@given(
    st.lists(st.lists(st.text("ab", max_size=3), min_size=1, max_size=3), max_size=8),
    st.text("ab", max_size=6),
)
def test_the_best_of_many_templates_is_the_best_of_those_that_fit(
    templates: list[list[str]], uri: str
) -> None:
    made = ["{x}".join(literals) for literals in templates]
    fitting = [template for template in made if matches_template(template, uri)]
    best = max(fitting, key=lambda template: len(template.partition("{")[0]), default=None)

    assert TemplateIndex(made).find(uri) == best


def test_a_template_of_too_many_expressions_fits_nothing() -> None:
    assert matches_template("{x}" * EXPRESSIONS_MAX, "a")
    assert not matches_template("{x}" * (EXPRESSIONS_MAX + 1), "a")


@pytest.mark.parametrize(
    "templates",
    [
        [f"x:{{a}}/{'{b}a' * 30}{number}" for number in range(5_000)],
        [f"x:{'a' * number}{{b}}{'{c}ab' * 30}b" for number in range(5_000)],
        [f"x:{number}" for number in range(5_000)],
    ],
)
def test_however_many_templates_there_are_a_look_up_is_quick(templates: list[str]) -> None:
    index = TemplateIndex(templates)
    uri = "x:" + "a" * (URI_CHARACTERS_MAX - 2)
    began = time.process_time()

    assert all(index.find(uri) is None for _ in range(10))

    assert time.process_time() - began < 10 * COMPARISONS_MAX * 0.0005


# Skills.

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
    assert skill_root(skill) == root


def test_a_directory_holds_what_is_below_it_and_the_innermost_counts() -> None:
    roots = [TEA, f"{TEA}/green", COFFEE]

    assert enclosing_root(roots, f"{TEA}/SKILL.md") == TEA
    assert enclosing_root(roots, TEA) == TEA
    assert enclosing_root(roots, f"{TEA}/green/a/b.md") == f"{TEA}/green"
    assert enclosing_root(roots, f"{TEA}/greens") == TEA
    assert enclosing_root(roots, "skill://teapot/SKILL.md") is None
    assert enclosing_root([], TEA) is None


def test_a_directory_of_one_server_is_nobodys_business() -> None:
    roots = [("a", TEA), ("b", COFFEE), ("a", f"{TEA}/green")]
    claims = [("a", f"{TEA}/SKILL.md"), ("b", "skill://teapot"), ("b", "file:///x")]

    assert find_disputed(roots, claims) == set()
    assert find_disputed([], claims) == set()


def test_of_a_directory_of_two_servers_all_is_disputed() -> None:
    roots = [("a", TEA), ("b", TEA), ("a", COFFEE)]
    claims = [("a", f"{TEA}/x.md"), ("b", f"{TEA}/y.md"), ("a", f"{COFFEE}/z.md")]

    assert find_disputed(roots, claims) == {
        ("a", TEA),
        ("b", TEA),
        ("a", f"{TEA}/x.md"),
        ("b", f"{TEA}/y.md"),
    }


def test_a_directory_within_another_servers_is_disputed_and_so_is_a_file() -> None:
    inner = f"{TEA}/green"

    assert find_disputed([("a", TEA), ("b", inner)], []) == {("a", TEA), ("b", inner)}
    assert find_disputed([("a", TEA)], [("b", f"{TEA}/x.md")]) == {("a", TEA), ("b", f"{TEA}/x.md")}


def test_thousands_of_deep_directories_are_sorted_out_at_once() -> None:
    deep = "/x" * 400
    roots = [(slug, f"skill://{number}{deep}") for slug in "ab" for number in range(2_500)]
    began = time.perf_counter()

    assert len(find_disputed(roots, roots)) == len(roots)
    assert time.perf_counter() - began < 5
