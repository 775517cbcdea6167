"""Asks for permission before calling tools that may do harm when called again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyport.cli.elicitation_prompt import is_interactive, read_line
from anyport.cli.exit_codes import CommandFailed, WrongUsage, notify_user, print_stderr
from anyport.cli.replay.cases import ReplayCase


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsafeCalls:
    """Tools that need permission."""

    harmful: Mapping[str, str]
    """Tools that may do harm, with the reason."""
    unlisted: Sequence[str] = ()
    """Tools that the target does not list."""


def find_unsafe_calls(
    cases: Iterable[ReplayCase], tools: Mapping[str, Mapping[str, Any]]
) -> UnsafeCalls:
    """The tools among these cases that need permission."""
    called = dict.fromkeys(case.subject for case in cases if case.method == "tools/call")
    reasons = ((name, unsafe_reason(tools[name])) for name in called if name in tools)
    return UnsafeCalls(
        harmful={name: reason for name, reason in reasons if reason is not None},
        unlisted=[name for name in called if name not in tools],
    )


def unsafe_reason(tool: Mapping[str, Any]) -> str | None:
    """Why a tool needs permission, by its annotations; None if it does not.

    Tools without annotations may do anything.
    """
    annotations = tool.get("annotations")
    hints = annotations if isinstance(annotations, dict) else {}
    if hints.get("destructiveHint") is True:
        return "is marked as destructive"
    if hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True:
        return None
    return "is not marked as read-only or idempotent"


async def ask_permission(unsafe: UnsafeCalls, *, uses_native_names: bool) -> None:
    """Ask the person at the terminal whether to call these tools.

    Raises:
        WrongUsage: there is no terminal.
        CommandFailed: the answer is no.
    """
    if not unsafe.harmful and not unsafe.unlisted:
        return
    if unsafe.harmful:
        notify_user("calling these tools again may do harm:")
        for name, reason in unsafe.harmful.items():
            print_stderr(f"  {name} {reason}")
    if unsafe.unlisted:
        hint = "; a server knows only native names, without a prefix" if uses_native_names else ""
        notify_user(f"the target does not list these tools{hint}:")
        for name in unsafe.unlisted:
            print_stderr(f"  {name}")
    if not is_interactive():
        raise WrongUsage("nothing was sent: add --yes to call them")
    answer = await read_line("Call them? [y/N] ")
    if (answer or "").lower() not in ("y", "yes"):
        raise CommandFailed("nothing was sent")
