"""`anyport status`: how the servers of a gateway are doing, for people."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from anyport.cli.ending import FAILED, GOOD
from anyport.cli.front import front
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.render import flush, out, out_json, table

FOLLOW_SECONDS: Final = 2.0
"""Between two reports: a person reads one in that time."""

TITLES: Final = ("SERVER", "STATUS", "TOOLS", "REVISION", "ERA", "RESTARTS", "LAST ERROR")
WHOLE: Final = TITLES[1:-1]


def status(given: Given, *, follow: bool) -> int:
    """Tell how every server is doing, starting them if nobody has; the exit code."""
    return run(_told(given, follow=follow))


async def _told(given: Given, *, follow: bool) -> int:
    async with front(given) as here:
        if follow and given.url is None:
            # Whoever follows wants to see the start as well.
            _show(await here.report(), as_json=given.json, follow=True)
            flush()
        if given.url is None:
            await here.settle()
        while True:
            report = await here.report()
            _show(report, as_json=given.json, follow=follow)
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
