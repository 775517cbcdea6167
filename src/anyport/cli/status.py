"""`anyport status`: how the servers of this configuration are doing, for people."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from anyport.cli.ending import FAILED, GOOD
from anyport.cli.loop import run
from anyport.cli.occasion import occasion
from anyport.cli.options import Given
from anyport.cli.render import flush, out, out_json, table
from anyport.cli.setup import Setup, read_setup

FOLLOW_SECONDS: Final = 2.0
"""Between two reports: a person reads one in that time."""

TITLES: Final = ("SERVER", "STATUS", "TOOLS", "REVISION", "ERA", "RESTARTS", "LAST ERROR")
WHOLE: Final = TITLES[1:-1]


def status(given: Given, *, follow: bool) -> int:
    """Start every server, and tell how that went; the exit code."""
    return run(_told(read_setup(given), follow=follow, as_json=given.json))


async def _told(setup: Setup, *, follow: bool, as_json: bool) -> int:
    async with occasion(setup) as here:
        if follow:
            # Whoever follows wants to see the start as well.
            _show(here.gateway.status(here.profile), as_json=as_json, follow=True)
            flush()
        await here.settle()
        while True:
            report = here.gateway.status(here.profile)
            _show(report, as_json=as_json, follow=follow)
            if not follow:
                return GOOD if all_run(report) else FAILED
            flush()
            await asyncio.sleep(FOLLOW_SECONDS)


def _show(report: Mapping[str, Any], *, as_json: bool, follow: bool) -> None:
    if as_json:
        out_json(report, indent=0 if follow else 2)
        return
    table(TITLES, (row(slug, each) for slug, each in report["backends"].items()), whole=WHOLE)
    if follow:
        out("")


def row(slug: str, backend: Mapping[str, Any]) -> tuple[str, ...]:
    """One server as a line of the table."""
    return (
        slug,
        str(backend["status"]),
        str(backend["tool_count"]),
        str(backend["revision"] or ""),
        str(backend["era"] or ""),
        str(backend["restarts"]),
        str(backend["last_error"] or ""),
    )


def all_run(report: Mapping[str, Any]) -> bool:
    """Whether every server runs that is not switched off."""
    states = {backend["status"] for backend in report["backends"].values()}
    return states <= {"running", "disabled"}
