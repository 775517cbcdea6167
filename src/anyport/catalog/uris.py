"""Public and native URIs of resources, templates and skills.

A URI stays native while a single server claims it. If several servers claim the same URI, each gets
`slug+uri`, which is still a valid URI and a valid template. `https:` is never rewritten, because
clients may fetch it themselves; `ui:` keeps its scheme, because clients look for it.
"""

import re
from bisect import bisect_right
from collections.abc import Container, Iterable
from typing import Final
from urllib.parse import unquote

UriClaim = tuple[str, str]
"""A server's slug, and a native URI."""

_EXPRESSION: Final = re.compile(r"\{[^{}]*\}")
_UI: Final = re.compile(r"ui://([^/?#]*)", re.IGNORECASE)
URI_CHARACTERS_MAX: Final = 8192
"""Longer URIs and templates are not matched."""
EXPRESSIONS_MAX: Final = 32
"""Expressions in a template; templates with more are not matched."""
COMPARISONS_MAX: Final = 128
"""Templates that one URI is compared with: all whose fixed beginning the URI starts with. Servers
have about a dozen."""
SKILL_SEGMENTS_MAX: Final = 256
"""Segments of a URI that are searched for the directory of a skill."""
_SKILL_FILE: Final = "/SKILL.md"


def qualify_contested(claims: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Public URIs of all (slug, native URI) that more than one server claims."""
    owners: dict[str, list[str]] = {}
    for slug, uri in claims:
        slugs = owners.setdefault(uri, [])
        if slug not in slugs:
            slugs.append(slug)
    return {
        (slug, uri): qualify(slug, uri)
        for uri, slugs in owners.items()
        if len(slugs) > 1
        for slug in slugs
    }


def qualify_lookalikes(
    claims: Iterable[tuple[str, str]], slugs: Iterable[str]
) -> dict[tuple[str, str], str]:
    """Public URIs of all (slug, native URI) that look like a qualified URI of another server."""
    known = frozenset(slugs)
    public_uris: dict[tuple[str, str], str] = {}
    for slug, uri in claims:
        other = split_qualified(uri, known)
        if other is not None and other[0] != slug:
            public_uris[slug, uri] = qualify(slug, uri)
    return public_uris


def qualify(slug: str, uri: str) -> str:
    """The URI with its server's slug; `http:` and `https:` stay unchanged."""
    scheme, colon, _ = uri.partition(":")
    if colon and scheme.lower() in ("https", "http"):
        return uri
    if uri.startswith("ui://"):
        return f"ui://{slug}/{uri.removeprefix('ui://')}"
    return f"{slug}+{uri}"


def split_qualified(uri: str, slugs: Container[str]) -> tuple[str, str] | None:
    """The slug and native URI in a qualified URI; None if it is not qualified.

    "The scheme and host are case-insensitive" (RFC 3986, 6.2.2.1), and a host may have
    percent-escapes. Otherwise another spelling of a URI could reach a different server.
    """
    head, plus, rest = uri.partition("+")
    if plus and head.lower() in slugs:
        return head.lower(), rest
    match = _UI.match(uri)
    host = unquote(match[1]).lower() if match is not None else ""
    if match is not None and host in slugs:
        return host, f"ui://{uri[match.end() :].removeprefix('/')}"
    return None


class TemplateIndex:
    """Finds the template that a URI matches, by fixed beginning.

    The literals of a template must occur in order, the first at the start and the last at the end;
    the values of expressions are not checked. Lookup time is bounded, because servers choose both
    templates and URIs.
    """

    def __init__(self, templates: Iterable[str]) -> None:
        self._by_beginning: dict[str, list[tuple[str, list[str]]]] = {}
        for template in templates:
            literals = _EXPRESSION.split(template, EXPRESSIONS_MAX + 1)
            if len(template) <= URI_CHARACTERS_MAX and len(literals) <= EXPRESSIONS_MAX + 1:
                self._by_beginning.setdefault(literals[0], []).append((template, literals[1:]))
        self._beginnings = sorted(self._by_beginning)
        self._shorter: dict[str, str | None] = {}
        """The longest other beginning that each beginning starts with."""
        open_beginnings: list[str] = []
        for beginning in self._beginnings:
            while open_beginnings and not beginning.startswith(open_beginnings[-1]):
                open_beginnings.pop()
            self._shorter[beginning] = open_beginnings[-1] if open_beginnings else None
            open_beginnings.append(beginning)

    def find(self, uri: str) -> str | None:
        """The matching template with the longest fixed beginning."""
        if len(uri) > URI_CHARACTERS_MAX:
            return None
        index = bisect_right(self._beginnings, uri) - 1
        beginning = self._beginnings[index] if index >= 0 else None
        compared = 0
        while beginning is not None and compared < COMPARISONS_MAX:
            if uri.startswith(beginning):
                for template, literals in self._by_beginning[beginning]:
                    if _fits(uri, len(beginning), literals):
                        return template
                    compared += 1
                    if compared >= COMPARISONS_MAX:
                        return None
            beginning = self._shorter[beginning]
        return None


def fixed_beginning_length(template: str) -> int:
    """Length of a template up to its first expression."""
    return len(_EXPRESSION.split(template, maxsplit=1)[0])


def _fits(uri: str, at: int, literals: list[str]) -> bool:
    """Whether the literals occur in order from `at` on, the last at the end of the URI."""
    if not literals:
        return at == len(uri)
    last = literals[-1]
    end = len(uri) - len(last)
    if not uri.endswith(last):
        return False
    for literal in literals[:-1]:
        found = uri.find(literal, at, end)
        if found < 0:
            return False
        at = found + len(literal)
    return at <= end


# Skills: directories of files, each named by the URI of its `SKILL.md`.
#
# "A skill URI is scoped to the server that serves it. Two connected servers can both serve
# `skill://refunds/SKILL.md`, and those are two unrelated skills" (Skills, skill URIs). The files of
# a skill refer to each other by relative paths, so a directory is renamed as a whole or not at all.


def skill_root(skill: str) -> str | None:
    """The directory of a skill's `SKILL.md`; None if its URI has none."""
    root = skill.removesuffix(_SKILL_FILE)
    path = root.partition("://")[2]
    return root if path and root != skill else None


def enclosing_root(roots: Container[str], uri: str) -> str | None:
    """The innermost of `roots` that is, or contains, a URI."""
    ends = [len(uri)]
    at = uri.find("/")
    while at >= 0 and len(ends) <= SKILL_SEGMENTS_MAX:
        ends.append(at)
        at = uri.find("/", at + 1)
    return next((uri[:end] for end in sorted(ends, reverse=True) if uri[:end] in roots), None)


def find_disputed(roots: Iterable[UriClaim], claims: Iterable[UriClaim]) -> set[UriClaim]:
    """All claims in skill directories in which several servers claim something."""
    outer = [(f"{root}/", False, slug, root) for slug, root in roots]
    if not outer:
        return set()
    inner = [(f"{uri}/", True, slug, uri) for slug, uri in claims]
    groups: list[list[UriClaim]] = []
    head: str | None = None
    for path, is_claim, slug, uri in sorted(outer + inner):
        # In sorted order, a directory comes right before its contents.
        if head is None or not path.startswith(head):
            if is_claim:
                continue
            head = path
            groups.append([])
        groups[-1].append((slug, uri))
    return {claim for group in groups if len({slug for slug, _ in group}) > 1 for claim in group}
