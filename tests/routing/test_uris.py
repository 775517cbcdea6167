"""URIs stay as servers wrote them until two servers claim one; then each can be told again."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.routing.uris import (
    URI_CHARACTERS_MAX,
    best_template,
    contested,
    lookalikes,
    matches,
    qualified,
    unqualified,
)

SLUGS = st.from_regex(r"[a-z][a-z0-9-]{0,31}", fullmatch=True)
URIS = st.from_regex(r"(file|ui|git\+ssh|x-y|UI)://[a-z0-9+/{}.]{0,20}", fullmatch=True)


def test_a_uri_of_one_server_is_nobodys_business() -> None:
    assert contested([("a", "file:///x"), ("a", "file:///x"), ("b", "file:///y")]) == {}


def test_a_uri_that_two_servers_claim_is_qualified_for_both() -> None:
    claims = [("a", "file:///x"), ("b", "file:///x"), ("b", "file:///x"), ("c", "file:///y")]

    assert contested(claims) == {
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
    assert qualified("a", uri) == public


@given(SLUGS, URIS)
def test_a_qualified_uri_leads_back_to_its_server_and_itself(slug: str, uri: str) -> None:
    public = qualified(slug, uri)

    assert unqualified(public, [slug, "other"]) == (slug, uri)


@given(st.lists(st.tuples(SLUGS, URIS), max_size=6, unique=True))
def test_no_two_claims_get_one_uri(claims: list[tuple[str, str]]) -> None:
    public = [qualified(slug, uri) for slug, uri in claims]

    assert len(set(public)) == len(public)


@pytest.mark.parametrize(
    "uri",
    ["file:///x", "c+file:///x", "ui://c/x", "ui://a", "https://a/x", "+a", "A+file:///x", ""],
)
def test_a_uri_without_a_known_servers_slug_is_not_qualified(uri: str) -> None:
    assert unqualified(uri, ["a", "b"]) is None


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
    assert matches(template, uri) is fits


@given(st.lists(st.text("ab/:", max_size=4), min_size=1, max_size=5), st.text("ab/", max_size=5))
def test_every_expansion_of_a_template_fits_it(literals: list[str], value: str) -> None:
    template = "{x}".join(literals)

    assert matches(template, value.join(literals))


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

    matches(template, "a" * URI_CHARACTERS_MAX)

    # What is linear takes milliseconds; what backtracks would not come back.
    assert time.process_time() - began < 1


def test_an_endless_uri_fits_no_template() -> None:
    assert matches("{x}", "a" * URI_CHARACTERS_MAX)
    assert not matches("{x}", "a" * (URI_CHARACTERS_MAX + 1))


def test_the_template_with_the_longest_fixed_beginning_is_the_best() -> None:
    templates = ["{any}", "file:///{path}", "file:///docs/{name}", "git:///{x}"]

    assert best_template(templates, "file:///docs/a") == "file:///docs/{name}"
    assert best_template(templates, "file:///a") == "file:///{path}"
    assert best_template(templates[1:], "x:///a") is None
    assert best_template([], "file:///a") is None


def test_a_uri_that_begins_like_another_servers_public_one_is_qualified_too() -> None:
    claims = [("a", "b+file:///x"), ("a", "ui://b/x"), ("a", "a+file:///x"), ("b", "c+file:///x")]

    assert lookalikes(claims, ("a", "b")) == {
        ("a", "b+file:///x"): "a+b+file:///x",
        ("a", "ui://b/x"): "ui://a/b/x",
    }
