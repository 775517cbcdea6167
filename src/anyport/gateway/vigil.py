"""Sees a modern server's task through to its end, for a client that waits for its result.

Such a task lists what it waits for. The client is asked that, while it waits; once, however many
wait, and however long the server takes to notice the answers. How it is asked is not known here.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

from anyport.gateway.endings import misbehaved, unfit_inquiry
from anyport.gateway.handles import Handle
from anyport.gateway.questions import QUESTION_SECONDS_MAX
from anyport.gateway.rounds import answer_of
from anyport.gateway.task_line import Seen, TaskLine
from anyport.protocol import meta
from anyport.protocol.back import UNKNOWN_FORM, Inquiry, inquiry_of
from anyport.protocol.capability import lacking
from anyport.protocol.errors import missing_capability
from anyport.protocol.exchange import Caller, Failed, Question
from anyport.protocol.revision import Era
from anyport.protocol.task import Task, related
from anyport.wire import members
from anyport.wire.frame import Failure, Result

Told = Result | Failure
Put = Callable[[Question], None]


async def follow(line: TaskLine, handle: Handle, caller: Caller, put: Put) -> Seen | Failed:
    """A task when it is over, and what it waits for was answered; or why that cannot be."""
    while True:
        seen = await line.look(handle, caller)
        if not isinstance(seen, Task) or seen.over:
            return seen
        known = handle.answered | handle.open.keys()
        new = {key: raw for key, raw in seen.requests.items() if key not in known}
        if not new:
            await asyncio.sleep(seen.poll_seconds)
            continue
        inquiry = _inquiry(new, caller, handle)
        answers = inquiry if isinstance(inquiry, Failed) else await _answers(inquiry, handle, put)
        if isinstance(answers, Failed):
            await line.cancel(handle, caller)
            return answers
        if handle.task.over:
            continue
        handle.answered |= new.keys()
        failed = await line.update(handle, caller, answers)
        if failed is not None:
            return failed


def unaskable(requests: Mapping[str, bytes], caller: Caller, handle: Handle) -> Failed | None:
    """Why a client is not asked what a task waits for."""
    inquiry = _inquiry(requests, caller, handle)
    return inquiry if isinstance(inquiry, Failed) else None


def _inquiry(requests: Mapping[str, bytes], caller: Caller, handle: Handle) -> Inquiry | Failed:
    slug = handle.server.slug
    if not requests:  # Of what was just answered, a server may know already.
        return Inquiry(requests={}, state=None)
    inquiry = inquiry_of(members.join([("inputRequests", members.join(requests.items()))]))
    try:
        missing = {} if inquiry is None else lacking(inquiry.requests.values(), caller.capabilities)
    except KeyError:
        inquiry = None
    if inquiry is None:
        return misbehaved(slug, UNKNOWN_FORM)
    if missing and caller.revision.era is Era.LEGACY:
        return misbehaved(slug, f"asked for what the client does not offer: {', '.join(missing)}")
    if missing:
        return Failed(missing_capability(slug, missing))
    return unfit_inquiry(inquiry, handle.server) or inquiry


async def _answers(inquiry: Inquiry, handle: Handle, put: Put) -> bytes | Failed:
    """Put questions to a client; its answers as a task takes them."""
    loop = asyncio.get_running_loop()
    told: dict[str, asyncio.Future[Told]] = {key: loop.create_future() for key in inquiry.requests}
    asked: dict[str, Question] = {}
    for key, (method, params) in inquiry.requests.items():
        own = meta.restamp(params or b"{}", related(handle.id)) if handle.id else params
        asked[key] = Question(method, own, partial(_settle, told[key]))
    handle.questions = {**handle.open, **asked}
    try:
        for question in asked.values():
            put(question)
        await asyncio.wait(told.values(), timeout=QUESTION_SECONDS_MAX)
    finally:
        for question in asked.values():
            question.abandon()
    answers: list[tuple[str, bytes]] = []
    for key, question in asked.items():
        answer = answer_of(question.method, told[key].result())
        if answer is None:
            words = f"needs to know what the client did not answer: {question.method}"
            return misbehaved(handle.server.slug, words)
        answers.append((key, answer))
    return members.join(answers)


def _settle(told: asyncio.Future[Told], frame: Told) -> None:
    if not told.done():
        told.set_result(frame)
