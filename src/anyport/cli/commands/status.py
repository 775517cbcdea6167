"""`anyport status`: the servers and hooks of a gateway."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from anyport.cli.connect import connect_gateway
from anyport.cli.exit_codes import FAILED, SUCCESS, notify_user, run_async
from anyport.cli.options import SharedOptions
from anyport.cli.output import flush, out, out_json, table

FOLLOW_SECONDS: Final = 2.0
"""Between two reports with `--follow`."""

TITLES: Final = ("SERVER", "STATUS", "TOOLS", "REVISION", "ERA", "RESTARTS", "LAST ERROR")
NO_WRAP: Final = TITLES[1:-1]
HOOK_TITLES: Final = ("HOOK", "ACTION", "DELIVERED", "FAILED", "DROPPED", "LAST ERROR")


def status(options: SharedOptions, *, follow: bool) -> int:
    """Print the status of every server, of a running gateway or a new one; the exit code."""
    return run_async(_report_status(options, follow=follow))


async def _report_status(options: SharedOptions, *, follow: bool) -> int:
    async with connect_gateway(options) as gateway:
        if follow and options.url is None:
            # With `--follow`, the servers can be seen starting.
            print_report(await gateway.report(), as_json=options.json, follow=True)
            flush()
        if options.url is None:
            await gateway.wait_settled()
        while True:
            report = await gateway.report()
            print_report(report, as_json=options.json, follow=follow)
            if not follow:
                return SUCCESS if are_all_running(report) else FAILED
            flush()
            await asyncio.sleep(FOLLOW_SECONDS)


def print_report(report: Mapping[str, Any], *, as_json: bool, follow: bool) -> None:
    if as_json:
        out_json(report, indent=0 if follow else 2)
        return
    table(
        TITLES,
        (server_row(slug, each) for slug, each in report["backends"].items()),
        no_wrap=NO_WRAP,
    )
    monitoring = report["gateway"]["event_monitoring"]
    hooks = [hook_row(name, each) for name, each in monitoring.get("hooks", {}).items()]
    if hooks:
        out("")
        table(HOOK_TITLES, hooks, no_wrap=HOOK_TITLES[:-1])
    for trouble in monitoring.get("warnings", ()):
        notify_user(f"warning: {trouble}")
    if monitoring.get("blocking"):
        notify_user("calls are refused until they can be recorded")
    for what, trouble in monitoring.get("telemetry", {}).get("troubles", {}).items():
        notify_user(f"warning: telemetry ({what}): {trouble}")
    if follow:
        out("")


def server_row(slug: str, backend: Mapping[str, Any]) -> tuple[str, ...]:
    """A server as a row of the table."""
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
    """A hook as a row of its table."""
    counts = (str(hook[key]) for key in ("delivered", "failed", "dropped"))
    return (name, str(hook["action"]), *counts, str(hook["last_error"] or ""))


def are_all_running(report: Mapping[str, Any]) -> bool:
    """Whether calls are possible and every server runs, rests or is disabled."""
    if report["gateway"]["event_monitoring"].get("blocking"):
        return False
    states = {backend["status"] for backend in report["backends"].values()}
    return states <= {"running", "idle", "disabled"}
