"""Resource URIs: public and native, and which server a URI belongs to.

A URI stays as its server wrote it while one server alone claims it. Where two claim the same,
each gets `slug+uri`, which is still a valid URI and a valid template. `https:` is never
rewritten, because clients may fetch it themselves; `ui:` keeps its scheme, because clients
look for it.
"""

import re
from collections.abc import Container, Iterable
from typing import Final

_EXPRESSION: Final = re.compile(r"\{[^{}]*\}")
URI_CHARACTERS_MAX: Final = 8192
"""Longer ones are not matched against templates."""


def contested(claims: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The public URI of every (slug, native URI) that more than one server claims."""
    owners: dict[str, list[str]] = {}
    for slug, uri in claims:
        slugs = owners.setdefault(uri, [])
        if slug not in slugs:
            slugs.append(slug)
    return {
        (slug, uri): qualified(slug, uri)
        for uri, slugs in owners.items()
        if len(slugs) > 1
        for slug in slugs
    }


def lookalikes(
    claims: Iterable[tuple[str, str]], slugs: Iterable[str]
) -> dict[tuple[str, str], str]:
    """The public URI of every (slug, native URI) that begins as if it were another server's."""
    known = frozenset(slugs)
    found: dict[tuple[str, str], str] = {}
    for slug, uri in claims:
        other = unqualified(uri, known)
        if other is not None and other[0] != slug:
            found[slug, uri] = qualified(slug, uri)
    return found


def qualified(slug: str, uri: str) -> str:
    """The URI with its server in it."""
    scheme, colon, _ = uri.partition(":")
    if colon and scheme.lower() in ("https", "http"):
        return uri
    if uri.startswith("ui://"):
        return f"ui://{slug}/{uri.removeprefix('ui://')}"
    return f"{slug}+{uri}"


def unqualified(uri: str, slugs: Container[str]) -> tuple[str, str] | None:
    """The (slug, native URI) in a URI that carries its server's slug."""
    head, plus, rest = uri.partition("+")
    if plus and head in slugs:
        return head, rest
    if uri.startswith("ui://"):
        head, slash, rest = uri.removeprefix("ui://").partition("/")
        if slash and head in slugs:
            return head, f"ui://{rest}"
    return None


def matches(template: str, uri: str) -> bool:
    """Whether a URI could have been made from a template.

    Literals must stand in order, the first at the start and the last at the end; what an
    expression may expand to is not checked. Linear in the URI, whatever the template.
    """
    if len(uri) > URI_CHARACTERS_MAX:
        return False
    literals = _EXPRESSION.split(template)
    if len(literals) == 1:
        return template == uri
    first, last = literals[0], literals[-1]
    if not uri.startswith(first) or not uri.endswith(last):
        return False
    at, end = len(first), len(uri) - len(last)
    for literal in literals[1:-1]:
        found = uri.find(literal, at, end)
        if found < 0:
            return False
        at = found + len(literal)
    return at <= end


def best_template(templates: Iterable[str], uri: str) -> str | None:
    """The template that fits a URI with the longest fixed beginning."""
    fitting = [template for template in templates if matches(template, uri)]
    return max(fitting, key=_fixed_beginning, default=None)


def _fixed_beginning(template: str) -> int:
    return len(_EXPRESSION.split(template, maxsplit=1)[0])
