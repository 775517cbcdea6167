"""Tasks, and what has come of them, in the words of the client that asks.

What a server of the other era said is told as the client's era has it; what a server calls its
task, and its URIs, no client gets to see. Asks nobody anything.
"""

from typing import Final

from msgspec.structs import replace

from anyport.gateway.handles import Handle
from anyport.gateway.parks import entry_of
from anyport.gateway.profile import Profile
from anyport.gateway.vigil import unaskable
from anyport.protocol import meta
from anyport.protocol.capability import declares
from anyport.protocol.downgrade import downgrade, without_hints
from anyport.protocol.errors import SERVER_FAULT, from_server, invalid_params
from anyport.protocol.exchange import Caller, Ending, Failed, Refused
from anyport.protocol.extension import TASKS
from anyport.protocol.reading import CALL
from anyport.protocol.revision import Era
from anyport.protocol.task import (
    CANCELLED,
    INPUT_REQUIRED,
    WORKING,
    Task,
    related,
    render,
    render_whole,
)
from anyport.routing.rewrite import rewrite_result
from anyport.upstream.call import Lost
from anyport.wire import codec, members
from anyport.wire.frame import Failure

NOT_FOUND: Final = "Task not found: it has expired, or there is none of this id"
"""The same words whatever is the matter with an id: who tries ids out learns nothing."""


def declares_tasks(caller: Caller) -> bool:
    """Whether a modern client takes a task for an answer."""
    return b'"%b"' % TASKS.encode() in caller.capabilities.raw and declares(
        caller.capabilities, "extensions", {TASKS: {}}
    )


def outcome(task: Task, handle: Handle) -> Failure:
    """How a request ends whose task is over without a result."""
    how = "was cancelled" if task.status == CANCELLED else "ended without a result"
    words = f"The task {how} at server '{handle.server.slug}'"
    return Failure(None, task.error or codec.error(SERVER_FAULT, words))


def not_found() -> Failed:
    """There is no such task, or it is somebody else's."""
    return Failed(invalid_params(NOT_FOUND))


def ending_of(seen: Failure | Lost | Failed, profile: Profile, handle: Handle) -> Ending:
    """How a request about a task ends that its server did not answer."""
    slug = handle.server.slug
    match seen:
        case Failure(error=error):
            return Refused(_in_context(error, profile, slug))
        case Lost():
            return Failed(seen.fault(slug))
        case Failed():
            return seen


def told_of(handle: Handle) -> list[tuple[str, bytes]]:
    """A task as the client of a session sees it."""
    return render(handle.task, handle.id, Era.LEGACY)


def words_of(task: Task, handle: Handle, caller: Caller, profile: Profile) -> bytes | Failed:
    """A task as a modern client may see it: what a session's server asks, it is what waits."""
    if handle.era is Era.LEGACY and not task.over:
        entries = {key: entry_of(question) for key, question in handle.open.items()}
        status = INPUT_REQUIRED if entries and handle.caller.session is None else WORKING
        task = replace(task, status=status, requests=entries)
    if task.status == INPUT_REQUIRED:
        refusal = unaskable(task.requests, caller, handle)
        if refusal is not None:
            return refusal
    if task.result is not None:
        result = _public(task.result, profile, handle)
        if handle.era is Era.LEGACY:
            result = members.edit(result, {"resultType": b'"complete"'})
        task = replace(task, result=result)
    if task.error is not None:
        task = replace(task, error=_in_context(task.error, profile, handle.server.slug))
    return render_whole(task, handle.id)


def result_of(result: bytes, handle: Handle, caller: Caller, profile: Profile) -> bytes:
    """What has come of a task, for the client of a session."""
    result = _public(result, profile, handle)
    if handle.era is Era.MODERN:
        result = downgrade(CALL, without_hints(result), caller.revision)
    return meta.restamp(result, related(handle.id))


def _in_context(error: bytes, profile: Profile, slug: str) -> bytes:
    return from_server(error, slug) if profile.config.errors == "context" else error


def _public(result: bytes, profile: Profile, handle: Handle) -> bytes:
    """A result with public URIs, and without the id by which only its server knows the task."""
    result = meta.restamp(result, {meta.RELATED_TASK: None})
    if handle.local or not profile.catalog.public_uris:
        return result
    slug = handle.server.slug
    return rewrite_result(CALL, result, lambda uri: profile.catalog.public_uri(slug, uri))
