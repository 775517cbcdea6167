"""`anyport check --diff`: what a reload of the running gateway would change, in tools and names.

The running gateway is asked: it knows what it has, reads its own files, and starts what is new
beside what runs, to see what that offers. Nothing is taken over.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import UnsetType

from anyport.cli.ending import FAILED, GOOD
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.reload import asked, running_gateway
from anyport.cli.render import out, out_json
from anyport.gateway.api.answers import ListShift, Reloaded

PREVIEW: Final = "?preview=true"


def diff(given: Given) -> int:
    """Tell what would change; the exit code, 0 if nothing would, as `diff` has it.

    Raises:
        CommandFailed: nobody is there, or the configuration cannot be used.
    """
    found = msgspec.json.decode(run(asked(running_gateway(given), PREVIEW)), type=Reloaded)
    if given.json:
        out_json(msgspec.to_builtins(found), indent=2)
    else:
        for line in lines(found):
            out(line)
    return FAILED if any(changes_of(found)) else GOOD


def changes_of(found: Reloaded) -> tuple[tuple[str, ...], ...]:
    """Everything that differs."""
    return (found.added, found.removed, found.changed, found.profiles, found.settings)


def lines(found: Reloaded) -> Iterator[str]:
    """What would change, for people."""
    if not any(changes_of(found)):
        yield "nothing would change"
        return
    for sign, words, slugs in (
        ("+", "server", found.added),
        ("-", "server", found.removed),
        ("~", "server", found.changed),
        ("~", "profile", found.profiles),
        ("~", "setting", found.settings),
    ):
        for slug in slugs:
            later = " (from the next start on)" if slug in found.at_start else ""
            yield f"{sign} {words} {slug}{later}"
    for shift in () if isinstance(found.lists, UnsetType) else found.lists:
        yield ""
        yield from _shifted(shift)


def _shifted(shift: ListShift) -> Iterator[str]:
    yield f"{shift.kind} of profile {shift.profile}:"
    yield from (f"  + {name}" for name in shift.added)
    yield from (f"  - {name}" for name in shift.removed)
    yield from (f"  ~ {before} is called {after}" for before, after in shift.renamed)
    yield from (f"  ~ {name} is described otherwise" for name in shift.changed)
