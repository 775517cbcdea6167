"""Why no tool has a name, and which one, of which server, may be meant."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Final

from anyport.routing.catalog import Entry

SUGGESTIONS_MAX: Final = 3


def meant(name: str, slug: str, separator: str) -> bool:
    """Whether a tool's name says that it is of this server."""
    return name.startswith(f"{slug}{separator}")


def explain_missing(
    name: str, entries: Sequence[Entry], *, disabled: Collection[str], separator: str
) -> str:
    """A sentence for whoever asked for it."""
    same = [entry.public for entry in entries if entry.native == name]
    if len(same) > 1:
        count = "two" if len(same) == 2 else "several"
        return f"{count} servers have '{name}': {', '.join(same)}"
    for slug in disabled:
        if meant(name, slug, separator):
            return f"there is no tool '{name}'; server '{slug}' is disabled in the configuration"
    known = {entry.native: entry.public for entry in entries} | {
        entry.public: entry.public for entry in entries
    }
    close = get_close_matches(name, known, n=SUGGESTIONS_MAX)
    near = ", ".join(dict.fromkeys(known[match] for match in close))
    hint = f"did you mean {near}?" if near else "'anyport tools' lists what there is"
    return f"there is no tool '{name}'; {hint}"
