"""`anyport why`: why a tool, prompt, resource or server is there for a profile, or is not."""

import os
from typing import Final
from urllib.parse import urlencode

import msgspec

from anyport.cli.ending import FAILED, GOOD
from anyport.cli.loop import run
from anyport.cli.occasion import occasion
from anyport.cli.options import Given
from anyport.cli.reach import API, Reach, no_gateway
from anyport.cli.render import out, out_json, table
from anyport.cli.setup import read_setup
from anyport.cli.target import read_target
from anyport.cli.visit import profile_of, visit
from anyport.gateway.why import Story, Why
from anyport.gateway.why import why as explain
from anyport.record.text import printable

TITLES: Final = ("STEP", "STATE", "WHY")
WHOLE: Final = ("STEP", "STATE")


def why(given: Given, name: str) -> int:
    """Tell the way of what has this name, step by step; the exit code."""
    answer = run(_asked(given, name) if given.url is not None else _looked(given, name))
    if given.json:
        out_json(answer)
    else:
        _show(answer)
    return GOOD if answer.there and answer.trouble is None else FAILED


async def _looked(given: Given, name: str) -> Why:
    """Start the servers of the profile, and look."""
    async with occasion(read_setup(given)) as here:
        await here.settle()
        return explain(name, here.profile, here.gateway.servers, paths=True)


async def _asked(given: Given, name: str) -> Why:
    """Ask a gateway that runs already, once its servers have started.

    Raises:
        CommandFailed: it does not tell.
    """
    target = read_target(given, os.environ)
    async with visit(target) as here:
        await here.settle()
    reach = Reach(target)
    try:
        profile = profile_of(target)
        asked = {"name": name} | ({} if profile is None else {"profile": profile})
        page = await reach.get(f"{API}/why?{urlencode(asked)}")
    finally:
        reach.close()
    try:
        return msgspec.json.decode(page, type=Why)
    except msgspec.DecodeError:
        raise no_gateway(target) from None


def _show(answer: Why) -> None:
    out(printable(f"'{answer.name}' {_verdict(answer)}"))
    for story in answer.stories:
        out("")
        out(printable(_title(story)))
        rows = [(step.stage, "good" if step.good else "bad", step.words) for step in story.steps]
        table(TITLES, rows, whole=WHOLE)
    if answer.suggestions:
        out("")
        out(printable(f"Did you mean {' or '.join(answer.suggestions)}?"))


def _verdict(answer: Why) -> str:
    if answer.trouble is not None:
        return f"is listed, but calls to it fail: {answer.trouble}"
    there = "is there" if answer.there else "is not there"
    return f"{there} for clients of the profile '{answer.profile}'"


def _title(story: Story) -> str:
    if story.kind == "server":
        return f"the server '{story.server}'"
    if story.native is None:
        return "nothing is known of it"
    owner = "the gateway itself" if story.server is None else f"the server '{story.server}'"
    return f"the {story.kind} '{story.native}' of {owner}"
