"""`anyport status`: how the servers of a gateway are doing, for people."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from anyport.cli.ending import FAILED, GOOD, say
from anyport.cli.front import front
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.render import flush, out, out_json, table

FOLLOW_SECONDS: Final = 2.0
"""Between two reports: a person reads one in that time."""

TITLES: Final = ("SERVER", "STATUS", "TOOLS", "REVISION", "ERA", "RESTARTS", "LAST ERROR")
WHOLE: Final = TITLES[1:-1]
HOOK_TITLES: Final = ("HOOK", "ACTION", "DELIVERED", "FAILED", "DROPPED", "LAST ERROR")


def status(given: Given, *, follow: bool) -> int:
    """Tell how every server is doing, starting them if nobody has; the exit code."""
    return run(_told(given, follow=follow))


async def _told(given: Given, *, follow: bool) -> int:
    async with front(given) as here:
        if follow and given.url is None:
            # Whoever follows wants to see the start as well.
            show(await here.report(), as_json=given.json, follow=True)
            flush()
        if given.url is None:
            await here.settle()
        while True:
            report = await here.report()
            show(report, as_json=given.json, follow=follow)
            if not follow:
                return GOOD if all_run(report) else FAILED
            flush()
            await asyncio.sleep(FOLLOW_SECONDS)


def show(report: Mapping[str, Any], *, as_json: bool, follow: bool) -> None:
    """Print a report."""
    if as_json:
        out_json(report, indent=0 if follow else 2)
        return
    table(TITLES, (row(slug, each) for slug, each in report["backends"].items()), whole=WHOLE)
    monitoring = report["gateway"]["event_monitoring"]
    hooks = [hook_row(name, each) for name, each in monitoring.get("hooks", {}).items()]
    if hooks:
        out("")
        table(HOOK_TITLES, hooks, whole=HOOK_TITLES[:-1])
    for trouble in monitoring.get("warnings", ()):
        say(f"warning: {trouble}")
    if monitoring.get("blocking"):
        say("calls are refused until they can be recorded")
    for what, trouble in monitoring.get("telemetry", {}).get("troubles", {}).items():
        say(f"warning: telemetry ({what}): {trouble}")
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


def hook_row(name: str, hook: Mapping[str, Any]) -> tuple[str, ...]:
    """One hook as a line of its table."""
    counts = (str(hook[key]) for key in ("delivered", "failed", "dropped"))
    return (name, str(hook["action"]), *counts, str(hook["last_error"] or ""))


def all_run(report: Mapping[str, Any]) -> bool:
    """Whether every server runs that is needed, and not switched off, and may be called."""
    if report["gateway"]["event_monitoring"].get("blocking"):
        return False
    states = {backend["status"] for backend in report["backends"].values()}
    return states <= {"running", "idle", "disabled"}
