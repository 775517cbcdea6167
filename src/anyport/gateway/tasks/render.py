"""Rendering of tasks and their results for clients of either era.

A task of a server of the other era is translated. The server's own task ids and URIs never reach a
client.
"""

from typing import Final

from msgspec.structs import replace

from anyport.catalog.rewrite import rewrite_result
from anyport.gateway.elicitation.parked_calls import input_request_of
from anyport.gateway.profile import Profile
from anyport.gateway.tasks.handles import TaskHandle
from anyport.gateway.tasks.remote import why_not_askable
from anyport.protocol import meta
from anyport.protocol.adapters.downgrade import downgrade_result, remove_modern_members
from anyport.protocol.capabilities import declares
from anyport.protocol.errors import SERVER_FAULT, add_server_context, invalid_params
from anyport.protocol.exchange import Caller, Ending, ErrorAnswered, Failed
from anyport.protocol.extensions import TASKS
from anyport.protocol.request import TOOLS_CALL
from anyport.protocol.revisions import Era
from anyport.protocol.tasks import (
    CANCELLED,
    INPUT_REQUIRED,
    WORKING,
    Task,
    related_task_meta,
    render_detailed_task,
    render_task,
)
from anyport.upstream.pending_call import NoAnswer
from anyport.wire import jsonrpc, raw_json
from anyport.wire.jsonrpc import Failure

NOT_FOUND: Final = "Task not found: it has expired, or there is none of this id"
"""One message for every bad id, so that guessing ids reveals nothing."""


def declares_tasks(caller: Caller) -> bool:
    """Whether a modern client declares the tasks extension."""
    return b'"%b"' % TASKS.encode() in caller.capabilities.raw and declares(
        caller.capabilities, "extensions", {TASKS: {}}
    )


def missing_result_error(task: Task, handle: TaskHandle) -> Failure:
    """The error of a request whose task has ended without a result."""
    outcome = "was cancelled" if task.status == CANCELLED else "ended without a result"
    message = f"The task {outcome} at server '{handle.server.slug}'"
    return Failure(None, task.error or jsonrpc.encode_error(SERVER_FAULT, message))


def task_not_found() -> Failed:
    """The task does not exist, or belongs to another principal."""
    return Failed(invalid_params(NOT_FOUND))


def ending_for_failure(
    failure: Failure | NoAnswer | Failed, profile: Profile, handle: TaskHandle
) -> Ending:
    """The ending of a request about a task that its server did not answer with a result."""
    slug = handle.server.slug
    match failure:
        case Failure(error=error):
            return ErrorAnswered(_with_server_name(error, profile, slug))
        case NoAnswer():
            return Failed(failure.fault(slug))
        case Failed():
            return failure


def render_for_session(handle: TaskHandle) -> list[tuple[str, bytes]]:
    """A task as a legacy client sees it."""
    return render_task(handle.task, handle.id, Era.LEGACY)


def render_for_modern(
    task: Task, handle: TaskHandle, caller: Caller, profile: Profile
) -> bytes | Failed:
    """A task as a modern client sees it; a legacy server's questions are input requests."""
    if handle.era is Era.LEGACY and not task.is_terminal:
        entries = {
            key: input_request_of(question) for key, question in handle.open_questions.items()
        }
        status = INPUT_REQUIRED if entries and handle.caller.session is None else WORKING
        task = replace(task, status=status, requests=entries)
    if task.status == INPUT_REQUIRED:
        refusal = why_not_askable(task.requests, caller, handle)
        if refusal is not None:
            return refusal
    if task.result is not None:
        result = _with_public_uris(task.result, profile, handle)
        if handle.era is Era.LEGACY:
            result = raw_json.edit(result, {"resultType": b'"complete"'})
        task = replace(task, result=result)
    if task.error is not None:
        task = replace(task, error=_with_server_name(task.error, profile, handle.server.slug))
    return render_detailed_task(task, handle.id)


def render_result(result: bytes, handle: TaskHandle, caller: Caller, profile: Profile) -> bytes:
    """The result of a task, for a legacy client."""
    result = _with_public_uris(result, profile, handle)
    if handle.era is Era.MODERN:
        result = downgrade_result(TOOLS_CALL, remove_modern_members(result), caller.revision)
    return meta.edit_meta(result, related_task_meta(handle.id))


def _with_server_name(error: bytes, profile: Profile, slug: str) -> bytes:
    return add_server_context(error, slug) if profile.config.errors == "context" else error


def _with_public_uris(result: bytes, profile: Profile, handle: TaskHandle) -> bytes:
    """A result with public URIs, and without the server's own task id."""
    result = meta.edit_meta(result, {meta.RELATED_TASK: None})
    catalog = profile.catalog_of(handle.caller)
    if handle.is_local or not catalog.public_uris:
        return result
    slug = handle.server.slug
    return rewrite_result(TOOLS_CALL, result, lambda uri: catalog.public_uri(slug, uri))
