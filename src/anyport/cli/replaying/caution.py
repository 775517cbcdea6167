"""Which calls may do something that was not meant to be done twice, and the question before."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyport.cli.ending import CommandFailed, WrongUsage, say, talk
from anyport.cli.replaying.case import Case
from anyport.cli.terminal import read_line, someone_is_there


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """The tools that should not be called unasked."""

    harmful: Mapping[str, str]
    """Those that may do harm, and why each is thought to."""
    unlisted: Sequence[str] = ()
    """Those of which nothing is known."""


def doubts(cases: Iterable[Case], tools: Mapping[str, Mapping[str, Any]]) -> Doubts:
    """What is doubtful about the calls among these."""
    called = dict.fromkeys(case.subject for case in cases if case.method == "tools/call")
    found = ((name, danger(tools[name])) for name in called if name in tools)
    return Doubts(
        harmful={name: reason for name, reason in found if reason is not None},
        unlisted=[name for name in called if name not in tools],
    )


def danger(tool: Mapping[str, Any]) -> str | None:
    """Why a tool should not be called again unasked; None for one that may.

    Its own server says so, in hints; a server that says nothing may do anything.
    """
    told = tool.get("annotations")
    hints = told if isinstance(told, dict) else {}
    if hints.get("destructiveHint") is True:
        return "is marked as destructive"
    if hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True:
        return None
    return "is not marked as read-only or idempotent"


async def ask_leave(found: Doubts, *, by_own_names: bool) -> None:
    """Ask the person whether these tools are to be called; a server knows its own names only.

    Raises:
        WrongUsage: nobody is there to be asked.
        CommandFailed: the answer is no.
    """
    if not found.harmful and not found.unlisted:
        return
    if found.harmful:
        say("these tools may do again what they did before:")
        for name, reason in found.harmful.items():
            talk(f"  {name} {reason}")
    if found.unlisted:
        hint = "; a server is asked by its own names, without a prefix" if by_own_names else ""
        say(f"these tools are not listed there{hint}:")
        for name in found.unlisted:
            talk(f"  {name}")
    if not someone_is_there():
        raise WrongUsage("nothing was sent: add --yes to call them all the same")
    answer = await read_line("Call them? [y/N] ")
    if (answer or "").lower() not in ("y", "yes"):
        raise CommandFailed("nothing was sent")
