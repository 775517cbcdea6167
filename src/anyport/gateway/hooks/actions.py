"""Actions of hooks: post the event to a URL, run a command, or call a tool."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from anyport import __version__
from anyport.clock import Clock
from anyport.config.model import HookConfig
from anyport.config.templates import fill_templates, parse_templates
from anyport.gateway.profile import Profile
from anyport.observe.call_events import HOOK_TRANSPORT
from anyport.protocol import meta
from anyport.protocol.capabilities import NO_CAPABILITIES
from anyport.protocol.errors import error_code
from anyport.protocol.exchange import (
    NULL_WRITER,
    Answered,
    Caller,
    Ending,
    ErrorAnswered,
    Exchange,
    ExchangeEvent,
    Failed,
)
from anyport.protocol.methods import METHODS, OfferKind
from anyport.protocol.principal import Principal
from anyport.protocol.result import read_shape
from anyport.protocol.revisions import NEWEST_MODERN
from anyport.protocol.scheduler import WorkSteps, cost_of
from anyport.record.journal.stderr import StderrRing
from anyport.upstream.http.client import HttpClient
from anyport.upstream.http.connection import ClientConnection, HttpFailure, HttpFailureKind
from anyport.upstream.http.headers import RequestHeads, header_line
from anyport.upstream.http.url import HttpUrl
from anyport.upstream.stdio.process import (
    ChildProcess,
    Command,
    ExitStatus,
    ProcessSpawner,
    SpawnFailed,
    child_environment,
)
from anyport.wire import raw_json
from anyport.wire.http1 import ResponseHead

FIRST_RETRY_SECONDS: Final = 1.0
RETRY_SECONDS_MAX: Final = 300.0
"""Longest delay between two attempts: a recovered receiver is noticed within five minutes."""
DOUBLINGS_MAX: Final = 16
"""Far beyond the longest delay, far below an overflow."""


class HookEvent(msgspec.Struct, frozen=True):
    """One event on its way to one hook."""

    line: bytes
    """The line of the journal."""
    key: str
    """Idempotency key: the same at every delivery, so that receivers can recognise repeats."""
    span_id: str
    """The span of the hook's own work."""

    def event(self) -> Mapping[str, Any]:
        decoded: Mapping[str, Any] = msgspec.json.decode(self.line)
        return decoded

    @property
    def trace_id(self) -> str:
        return str(self.event().get("trace_id", ""))

    @property
    def traceparent(self) -> str:
        """W3C trace context that puts the action into the trace of the event."""
        return f"00-{self.trace_id}-{self.span_id}-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionDone:
    """The action succeeded."""

    missing: tuple[str, ...] = ()
    """Fields that the hook's templates name and the event lacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRetry:
    """The attempt failed for now."""

    reason: str
    after_seconds: float | None = None
    """The delay that the receiver asked for."""
    is_answer: bool = True
    """Whether the receiver refused this event, rather than being unreachable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFailed:
    """The action failed for good."""

    reason: str


ActionOutcome: TypeAlias = ActionDone | ActionRetry | ActionFailed


class HookAction(Protocol):
    """What a hook does with an event."""

    kind: str

    async def act(self, hook_event: HookEvent) -> ActionOutcome:
        """Make one attempt. Raises nothing but `CancelledError`."""

    def close(self) -> None:
        """Release connections and processes."""


def retry_delay_seconds(attempts: int, random: float) -> float:
    """Exponential back-off after `attempts` attempts; half of it is jitter (`random`: 0 to 1)."""
    longest = min(RETRY_SECONDS_MAX, FIRST_RETRY_SECONDS * 2.0 ** min(attempts - 1, DOUBLINGS_MAX))
    return longest * (1 + random) / 2


# post: an event is sent to a URL.
#
# 2xx is success. A status that refuses the event itself is final, everything else is retried.
# Redirects are not followed: an event goes where the configuration says, and nowhere else.

POST_SECONDS_MAX: Final = 10.0
"""One attempt, from connecting to the head of the reply; receivers only have to accept."""

RETRY_AFTER_SECONDS_MAX: Final = 3600.0
"""Longest Retry-After that is honoured."""

REPLY_BYTES_MAX: Final = 1024 * 1024
"""Limit of a reply's body, which is read and dropped."""

RETRY_STATUSES: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
"""4xx statuses that mean "not now" and say nothing about the event."""


class PostAction:
    """Posts events to one URL, over connections that are kept open."""

    kind = "post"

    def __init__(self, config: HookConfig, clock: Clock) -> None:
        url = HttpUrl.parse(config.post or "")
        self._client = HttpClient(url, REPLY_BYTES_MAX)
        self._request_heads = RequestHeads(url, config.headers)
        self._body = None if config.body is None else parse_templates(config.body)
        self._name = config.name
        self._clock = clock

    async def act(self, hook_event: HookEvent) -> ActionOutcome:
        missing: list[str] = []
        body = hook_event.line
        if self._body is not None:
            body = msgspec.json.encode(fill_templates(self._body, hook_event.event(), missing))
        fields = (
            header_line("Idempotency-Key", hook_event.key)
            + header_line("Anyport-Hook", self._name)
            + header_line("traceparent", hook_event.traceparent)
        )
        reply = _PostReply()
        self._client.request(self._request_heads.post(fields), body, reply)
        try:
            async with asyncio.timeout(POST_SECONDS_MAX):
                head = await reply.head
        except TimeoutError:
            return ActionRetry(reason=f"no reply within {POST_SECONDS_MAX:g} s", is_answer=False)
        finally:
            self._client.cancel(reply)
        if isinstance(head, HttpFailure):
            # A failed connection says nothing about the event. A receiver that breaks off after the
            # connection was made may have choked on it.
            is_unreached = head.kind in (HttpFailureKind.CONNECT, HttpFailureKind.TLS)
            return ActionRetry(reason=head.reason, is_answer=not is_unreached)
        return outcome_of_reply(head, tuple(missing), self._clock.now())

    def close(self) -> None:
        self._client.close()


def outcome_of_reply(head: ResponseHead, missing: tuple[str, ...], now: float) -> ActionOutcome:
    """What a reply means for the event."""
    status = head.status
    if 200 <= status < 300:
        return ActionDone(missing=missing)
    if 300 <= status < 400:
        reason = f"it answered with a redirect (HTTP {status}): set post to the new URL"
        return ActionFailed(reason=reason)
    reason = f"it answered with HTTP {status}"
    if status < 500 and status not in RETRY_STATUSES:
        return ActionFailed(reason=reason)
    after_seconds = read_retry_after(head.get("retry-after"), now)
    return ActionRetry(reason=reason, after_seconds=after_seconds)


def read_retry_after(text: str | None, now: float) -> float | None:
    """Seconds from a `Retry-After` field, which holds a number or a date (RFC 9110, 10.2.3)."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), RETRY_AFTER_SECONDS_MAX)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date without a zone is in UTC: HTTP dates always are.
    utc = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    seconds = (utc - datetime.fromtimestamp(now, UTC)).total_seconds()
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX)


class _PostReply:
    """Receives one reply, of which only the head matters."""

    wait_timeout = None
    repeatable = True  # The idempotency key lets the receiver recognise a repeat.

    def __init__(self) -> None:
        self.http_connection: ClientConnection | None = None
        self.head: asyncio.Future[ResponseHead | HttpFailure]
        self.head = asyncio.get_running_loop().create_future()

    def renew_body(self) -> None:
        """Nothing to do: the body stays the same."""

    def on_stream(self, head: ResponseHead) -> None:
        self._settle(head)

    def on_stream_data(self, portion: bytes) -> WorkSteps:
        """Ignore the data: a stream was not asked for."""
        yield cost_of(len(portion))

    def on_response(self, head: ResponseHead, body: bytes) -> None:
        self._settle(head)

    def on_stream_closed(self, trouble: HttpFailure | None) -> None:
        """Nothing to do: the head has settled the outcome."""

    def on_failure(self, trouble: HttpFailure) -> None:
        self._settle(trouble)

    def _settle(self, outcome: ResponseHead | HttpFailure) -> None:
        if not self.head.done():
            self.head.set_result(outcome)


# run: a command gets the event on its standard input, without a shell.
#
# Like servers, commands run under the process reaper, so nothing they start outlives the gateway,
# and they get only a safe part of the gateway's environment, plus variables about the event. A
# command runs once per event: a repeat might do harm.

RUN_SECONDS_MAX: Final = 60.0
"""After this long a command is killed, with everything it has started."""

READ_BYTES: Final = 64 * 1024

VARIABLE_CHARS_MAX: Final = 1024
"""Length of a variable; standard input has the whole event."""


class RunAction:
    """Runs one command for each event."""

    kind = "run"

    def __init__(
        self, config: HookConfig, process_spawner: ProcessSpawner, redact: Callable[[str], str]
    ) -> None:
        self._argv = config.run
        self._name = config.name
        self._process_spawner = process_spawner
        self._redact = redact

    async def act(self, hook_event: HookEvent) -> ActionOutcome:
        command = Command(
            argv=self._argv,
            env=child_environment(os.environ, hook_environment(self._name, hook_event)),
            cwd=_working_directory(),
        )
        try:
            child = await self._process_spawner.spawn(command)
        except SpawnFailed as error:
            return ActionFailed(reason=self._redact(f"it cannot be started: {error}"))
        pipes = _CommandPipes(child, hook_event.line + b"\n", self._redact)
        try:
            async with asyncio.timeout(RUN_SECONDS_MAX):
                exit_status = await child.wait()
        except TimeoutError:
            return ActionFailed(reason=f"it was killed: it ran for more than {RUN_SECONDS_MAX:g} s")
        finally:
            child.kill()
            pipes.close()
        if exit_status == ExitStatus(code=0, signal=None):
            return ActionDone()
        last_line = pipes.last_stderr_line
        return ActionFailed(
            reason=f"{exit_status}"
            if last_line is None
            else f"{exit_status}; on stderr: {last_line}"
        )

    def close(self) -> None:
        """Nothing to do: a command ends with its attempt."""


def hook_environment(name: str, hook_event: HookEvent) -> dict[str, str]:
    """The variables about the event."""
    event = hook_event.event()
    metadata: Mapping[str, Any] = event.get("metadata") or {}
    target = next((metadata[key] for key in ("tool", "prompt", "uri") if key in metadata), None)
    variables = {
        "ANYPORT_HOOK": name,
        "ANYPORT_EVENT_KEY": hook_event.key,
        "ANYPORT_EVENT_TYPE": event.get("event_type"),
        "ANYPORT_EVENT_STATUS": event.get("status"),
        "ANYPORT_EVENT_TIMESTAMP": event.get("timestamp"),
        "ANYPORT_EVENT_TRACE_ID": event.get("trace_id"),
        "ANYPORT_EVENT_SERVER": metadata.get("server"),
        "ANYPORT_EVENT_PROFILE": metadata.get("profile"),
        "ANYPORT_EVENT_TARGET": target,
        "ANYPORT_EVENT_ERROR": event.get("error_message"),
        "TRACEPARENT": hook_event.traceparent,
    }
    return {
        key: str(value).replace("\0", "")[:VARIABLE_CHARS_MAX]
        for key, value in variables.items()
        if value is not None
    }


class _CommandPipes:
    """The pipes of a command: writes its input, and drains its output so that it never blocks."""

    def __init__(
        self, child: ChildProcess, input_bytes: bytes, redact: Callable[[str], str]
    ) -> None:
        self._child = child
        self._input = memoryview(input_bytes)
        self._stderr = StderrRing(redact=redact)
        self._loop = asyncio.get_running_loop()
        self._open_fds = {child.stdout, child.stderr}
        self._loop.add_reader(child.stdout, partial(self._read, child.stdout, lambda _: None))
        self._loop.add_reader(child.stderr, partial(self._read, child.stderr, self._stderr.feed))
        self._loop.add_writer(child.stdin, self._write)

    @property
    def last_stderr_line(self) -> str | None:
        return self._stderr.last_line

    def close(self) -> None:
        """Close the pipes, after reading what is left on stderr."""
        if self._child.stderr in self._open_fds:
            self._read(self._child.stderr, self._stderr.feed)
        self._end_input()
        for fd in self._open_fds:
            self._loop.remove_reader(fd)
        self._child.close()

    def _read(self, fd: int, take: Callable[[bytes], object]) -> None:
        try:
            portion = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            portion = b""
        if portion:
            take(portion)
        else:
            self._loop.remove_reader(fd)
            self._open_fds.discard(fd)

    def _write(self) -> None:
        try:
            self._input = self._input[os.write(self._child.stdin, self._input) :]
        except BlockingIOError:
            return
        except OSError:
            self._input = self._input[:0]  # The command has closed its standard input.
        if not self._input:
            self._end_input()

    def _end_input(self) -> None:
        if self._child.stdin >= 0:
            self._loop.remove_writer(self._child.stdin)
            self._child.close_stdin()


def _working_directory() -> str:
    """The gateway's own directory: relative arguments mean what they mean in a shell."""
    try:
        return os.getcwd()
    except OSError:  # The directory was removed while the gateway runs.
        return os.sep


# call: a tool is called with arguments made from the event.
#
# The call goes through the relay like a client's: profile, rules, limits and record apply. It is
# part of the event's trace; its transport marks it as a hook's. It is made once: a repeat might do
# harm.

HOOK_PRINCIPAL: Final = Principal("gateway", "hook")
"""The caller in the record."""

_CLIENT_INFO: Final = msgspec.json.encode({"name": "anyport-hook", "version": __version__})


class CallAction:
    """Calls one tool for each event."""

    kind = "call"

    def __init__(
        self, config: HookConfig, profiles: Mapping[str, Profile], begin: Callable[[Exchange], None]
    ) -> None:
        self.slug, self._native = config.call or ("", "")
        self._arguments = parse_templates(config.arguments)
        self._profiles = profiles
        self._begin = begin

    async def act(self, hook_event: HookEvent) -> ActionOutcome:
        profile = self._find_profile()
        if profile is None:
            return ActionFailed(reason=f"no profile has the server '{self.slug}'")
        missing: list[str] = []
        arguments = fill_templates(self._arguments, hook_event.event(), missing)
        params = msgspec.json.encode(
            {
                "name": self._public_name(profile),
                "arguments": arguments,
                "_meta": {meta.TRACEPARENT: hook_event.traceparent},
            }
        )
        ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        exchange = Exchange(
            id=b"1",
            method=METHODS["tools/call"],
            params=params,
            param_members=raw_json.members(params),
            caller=_caller(profile.slug),
            writer=NULL_WRITER,
            deliver=lambda exchange, event: _on_exchange_event(ending, exchange, event),
        )
        self._begin(exchange)
        try:
            return _outcome_of_ending(await ending, tuple(missing))
        finally:
            exchange.cancel()

    def close(self) -> None:
        """Nothing to do: a call ends with its attempt."""

    def _find_profile(self) -> Profile | None:
        """The first profile that lists the tool, or else has the server."""
        profiles = [each for each in self._profiles.values() if self.slug in each.servers]
        with_tool = (each for each in profiles if self._listed_name(each) is not None)
        return next(with_tool, profiles[0] if profiles else None)

    def _listed_name(self, profile: Profile) -> str | None:
        public_names = (
            entry.public
            for entry in profile.catalog.entries(OfferKind.TOOLS)
            if (entry.slug, entry.native) == (self.slug, self._native)
        )
        return next(public_names, None)

    def _public_name(self, profile: Profile) -> str:
        """The tool's name in the profile; a guess until its server has listed it."""
        listed = self._listed_name(profile)
        if listed is not None:
            return listed
        naming = profile.catalog.view.naming
        make = naming.prefixed_name if naming.prefix == "always" else naming.bare_name
        return make(self.slug, self._native)


def _caller(profile: str) -> Caller:
    return Caller(
        profile=profile,
        session=None,
        revision=NEWEST_MODERN,
        capabilities=NO_CAPABILITIES,
        client=_CLIENT_INFO,
        principal=HOOK_PRINCIPAL,
        transport=HOOK_TRANSPORT,
    )


def _on_exchange_event(
    ending: "asyncio.Future[Ending]", exchange: Exchange, event: ExchangeEvent
) -> None:
    # Answered like a client's call, so that the record gets the outcome.
    match event:
        case Answered(result):
            exchange.send_result(result)
        case ErrorAnswered(error):
            exchange.send_error(error, error_code(error))
        case Failed(fault):
            exchange.send_error(fault.render(NEWEST_MODERN), fault.code(NEWEST_MODERN))
        case _:
            return
    if not ending.done():
        ending.set_result(event)


def _outcome_of_ending(ending: Ending, missing: tuple[str, ...]) -> ActionOutcome:
    match ending:
        case Answered(result, shape):
            if (shape or read_shape(result)).is_tool_error:
                return ActionFailed(reason="the tool reported an error")
            return ActionDone(missing=missing)
        case ErrorAnswered(error):
            message = raw_json.decode_string(raw_json.members(error).get("message"))
            return ActionFailed(reason=f"the server refused ({error_code(error)}): {message or ''}")
        case Failed(fault):
            return ActionFailed(reason=fault.message_for(NEWEST_MODERN))
