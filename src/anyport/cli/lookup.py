"""One tool by its name, and why there is none."""

from difflib import get_close_matches
from typing import Final

from anyport.cli.occasion import Occasion, settled
from anyport.protocol.method import Kind
from anyport.routing.catalog import Entry

SUGGESTIONS_MAX: Final = 3


async def find(here: Occasion, name: str) -> Entry | None:
    """The tool of that name; waits no longer than its own server needs."""

    def found() -> bool:
        entries = here.profile.catalog.entries(Kind.TOOLS)
        entry = next((entry for entry in entries if entry.public == name), None)
        # A list from an earlier run may be old, and with it what the arguments are.
        return entry is not None and (not entry.slug or settled(here.gateway.servers[entry.slug]))

    await here.settle(found)
    return here.profile.catalog.named(Kind.TOOLS, name)


def explain_missing(here: Occasion, name: str) -> str:
    """Why no tool has this name, and which one may be meant."""
    entries = here.profile.catalog.entries(Kind.TOOLS)
    same = [entry.public for entry in entries if entry.native == name]
    if len(same) > 1:
        count = "two" if len(same) == 2 else "several"
        return f"{count} servers have '{name}': {', '.join(same)}"
    for slug, server in here.profile.servers.items():
        if server.config.disabled and name.startswith(f"{slug}{here.profile.config.separator}"):
            return f"there is no tool '{name}'; server '{slug}' is disabled in the configuration"
    known = {entry.native: entry.public for entry in entries} | {
        entry.public: entry.public for entry in entries
    }
    close = get_close_matches(name, known, n=SUGGESTIONS_MAX)
    near = ", ".join(dict.fromkeys(known[match] for match in close))
    hint = f"did you mean {near}?" if near else "'anyport tools' lists what there is"
    return f"there is no tool '{name}'; {hint}"
