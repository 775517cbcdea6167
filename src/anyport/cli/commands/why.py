"""`anyport why`: explains why clients see a tool, prompt, resource or server, or do not."""

import os
from typing import Final
from urllib.parse import urlencode

import msgspec

from anyport.cli.connect.http import API, ApiClient, not_a_gateway_error, read_target
from anyport.cli.connect.local import start_local_gateway
from anyport.cli.connect.remote import connect_remote_gateway
from anyport.cli.exit_codes import FAILED, SUCCESS, run_async
from anyport.cli.options import SharedOptions
from anyport.cli.output import out, out_json, table
from anyport.cli.setup import read_setup
from anyport.gateway.explain import Story, Why
from anyport.gateway.explain import explain_name as explain
from anyport.record.redact.escape import make_printable

TITLES: Final = ("STEP", "STATE", "WHY")
NO_WRAP: Final = ("STEP", "STATE")


def why(options: SharedOptions, name: str) -> int:
    """Print the steps from the server to the clients; the exit code."""
    answer = run_async(
        _explain_remotely(options, name)
        if options.url is not None
        else _explain_locally(options, name)
    )
    if options.json:
        out_json(answer)
    else:
        _show(answer)
    return SUCCESS if answer.there and answer.trouble is None else FAILED


async def _explain_locally(options: SharedOptions, name: str) -> Why:
    """Start the servers of the profile, and explain."""
    async with start_local_gateway(read_setup(options)) as gateway:
        await gateway.wait_settled()
        return explain(name, gateway.profile, gateway.gateway.servers, paths=True)


async def _explain_remotely(options: SharedOptions, name: str) -> Why:
    """Ask a running gateway once its servers have started.

    Raises:
        CommandFailed: it is not an Anyport gateway.
    """
    target = read_target(options, os.environ)
    async with connect_remote_gateway(target) as gateway:
        await gateway.wait_settled()
    api = ApiClient(target)
    try:
        query = {"name": name} | ({} if target.profile is None else {"profile": target.profile})
        page = await api.get(f"{API}/why?{urlencode(query)}")
    finally:
        api.close()
    try:
        return msgspec.json.decode(page, type=Why)
    except msgspec.DecodeError:
        raise not_a_gateway_error(target) from None


def _show(answer: Why) -> None:
    out(make_printable(f"'{answer.name}' {_verdict(answer)}"))
    for story in answer.stories:
        out("")
        out(make_printable(_title(story)))
        rows = [(step.stage, "good" if step.good else "bad", step.words) for step in story.steps]
        table(TITLES, rows, no_wrap=NO_WRAP)
    if answer.suggestions:
        out("")
        out(make_printable(f"Did you mean {' or '.join(answer.suggestions)}?"))


def _verdict(answer: Why) -> str:
    if answer.trouble is not None:
        return f"is listed, but calls to it fail: {answer.trouble}"
    visibility = "is visible to" if answer.there else "is not visible to"
    return f"{visibility} clients of the profile '{answer.profile}'"


def _title(story: Story) -> str:
    if story.kind == "server":
        return f"the server '{story.server}'"
    if story.native is None:
        return "nothing is known about it"
    owner = "the gateway itself" if story.server is None else f"the server '{story.server}'"
    return f"the {story.kind} '{story.native}' of {owner}"
