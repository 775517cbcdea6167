"""Skills: directories of files, each named by the URI of its `SKILL.md`.

"A skill URI is scoped to the server that serves it. Two connected servers can both serve
`skill://refunds/SKILL.md`, and those are two unrelated skills" (Skills, skill URIs). The files of
a skill refer to each other by relative paths, so a directory is renamed as a whole or not at all;
what the files hold is never touched.
"""

from collections.abc import Iterable
from typing import Final

Claim = tuple[str, str]
"""A server's slug, and a URI of its own."""

_FILE: Final = "/SKILL.md"


def root_of(skill: str) -> str | None:
    """The directory of a skill; None if its URI does not say."""
    root = skill.removesuffix(_FILE)
    path = root.partition("://")[2]
    return root if path and root != skill else None


def enclosing(roots: Iterable[str], uri: str) -> str | None:
    """The innermost of some directories that is, or holds, what a URI names."""
    fitting = [root for root in roots if uri == root or uri.startswith(f"{root}/")]
    return max(fitting, key=len, default=None)


def disputed(roots: Iterable[Claim], claims: Iterable[Claim]) -> set[Claim]:
    """All that lies in a skill's directory in which more than one server claims something."""
    outer = [(f"{root}/", False, slug, root) for slug, root in roots]
    if not outer:
        return set()
    inner = [(f"{uri}/", True, slug, uri) for slug, uri in claims]
    groups: list[list[Claim]] = []
    head: str | None = None
    for path, is_claim, slug, uri in sorted(outer + inner):
        # Sorted, a directory comes first, and all that it holds right behind it.
        if head is None or not path.startswith(head):
            if is_claim:
                continue
            head = path
            groups.append([])
        groups[-1].append((slug, uri))
    return {claim for group in groups if len({slug for slug, _ in group}) > 1 for claim in group}
