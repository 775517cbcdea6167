"""Translates a server's answer into the ending of a call.

The server's adapter knows the revision of the answer, and the client's adapter that of the client.
This module decides what is between them: whose fault an error is, what a client may be asked, and
the `requestState` that it comes back with.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from anyport.catalog.rewrite import rewrite_error, rewrite_result
from anyport.config.addresses import is_local
from anyport.gateway.elicitation.parked_calls import PARKED_SECONDS_MAX
from anyport.gateway.elicitation.request_state import RequestStates
from anyport.gateway.local.list_freshness import recheck_lists_on_error
from anyport.gateway.local.notifications import remember_elicitation
from anyport.gateway.profile import Profile
from anyport.protocol.adapters.downgrade import downgrade_error
from anyport.protocol.adapters.elicitation import explain_unsafe_question, explain_unsafe_url
from anyport.protocol.adapters.server import (
    UNKNOWN_FORM,
    InputRequiredResult,
    is_input_required,
    read_input_required,
)
from anyport.protocol.adapters.upgrade import (
    encode_input_request,
    encode_input_required,
    upgrade_error,
)
from anyport.protocol.capabilities import declares
from anyport.protocol.errors import (
    MISSING_CAPABILITY,
    URL_REQUIRED,
    Fault,
    Situation,
    add_server_context,
    error_code,
    missing_capability,
    not_running,
    server_failure,
    timed_out,
    tool_error,
)
from anyport.protocol.exchange import Answered, Ending, ErrorAnswered, Exchange, Failed
from anyport.protocol.headers import Annotations, find_disagreement
from anyport.protocol.methods import OfferKind
from anyport.protocol.result import ResultShape, ShapedResult, read_shape
from anyport.protocol.revisions import Era
from anyport.protocol.session import STREAMABLE_HTTP
from anyport.upstream.peer import Peer
from anyport.upstream.pending_call import Answer, NoAnswer
from anyport.upstream.server import Server
from anyport.wire import raw_json
from anyport.wire.jsonrpc import Failure, Result

# `Mcp-Param-*` header fields must repeat the arguments that the tool's schema names, so they are
# checked once the tool is known. Only modern requests over HTTP have them.


def check_param_headers(exchange: Exchange, annotated: Annotations) -> Fault | None:
    """The fault of a call whose `Mcp-Param-*` fields contradict its arguments, if they do."""
    caller = exchange.caller
    if not annotated or exchange.method.name != "tools/call":
        return None
    if caller.revision.era is not Era.MODERN or caller.transport != STREAMABLE_HTTP:
        return None
    sent = dict(exchange.param_fields)
    if len(sent) < len(exchange.param_fields):
        # Two readers could pick two values.
        problem: str | None = "an Mcp-Param field appears twice"
    else:
        arguments = exchange.param_members.get("arguments")
        problem = find_disagreement(annotated, b"" if arguments is None else bytes(arguments), sent)
    if problem is None:
        return None
    return Fault(situation=Situation.HEADER_MISMATCH, message=f"Header mismatch: {problem}")


ELICITATIONS_MAX: Final = 16
"""URLs that one error may ask a person to open."""

URL_REJECTED: Final = "asks to open a URL that is not passed on: {}"


class AnswerTranslator:
    """Translates answers of servers."""

    def __init__(self, states: RequestStates) -> None:
        self._request_states = states

    def translate(
        self,
        answer: Answer,
        peer: Peer | None,
        exchange: Exchange,
        profile: Profile,
        server: Server,
    ) -> Ending | InputRequiredResult:
        """The ending of the call, or what the server needs to know first."""
        match answer:
            case Result(result=result) if result[:1] == b"{" and peer is not None:
                shape = answer.shape if isinstance(answer, ShapedResult) else read_shape(result)
                if profile.passes_results_unchanged(exchange.caller.revision, peer.revision):
                    ending: Ending | InputRequiredResult = Answered(result, shape, verbatim=True)
                else:
                    ending = self._translate_result(result, shape, peer, exchange, server)
                if not isinstance(ending, Answered):
                    return ending
                if shape.is_tool_error:
                    recheck_lists_on_error(server, exchange.method.kind, result, exchange.caller)
                return _with_public_uris(ending, exchange, profile, server.slug)
            case Result():
                return misbehaviour(server.slug, "answered with a result that is not an object")
            case Failure(error=error):
                recheck_lists_on_error(server, exchange.method.kind, error, exchange.caller)
                translated = self._translate_error(error, exchange, profile, server)
                era = Era.LEGACY if peer is None else peer.revision.era
                return _in_era_of_caller(translated, exchange, era)
            case NoAnswer():
                return Failed(answer.fault(server.slug))

    def _translate_result(
        self, result: bytes, shape: ResultShape, peer: Peer, exchange: Exchange, server: Server
    ) -> Ending | InputRequiredResult:
        asks = is_input_required(shape)
        if asks and not exchange.method.may_need_input:
            reason = f"asked for input, which {exchange.method.name} has no room for"
            return misbehaviour(server.slug, reason)
        ending = peer.adapter.convert_result(result, shape, exchange.caller, server.slug)
        if asks and isinstance(ending, Answered):
            return self._bind_input_request(ending, exchange, server)
        return ending

    def _bind_input_request(self, ending: Answered, exchange: Exchange, server: Server) -> Ending:
        """Replace the server's `requestState` by one that only this caller can come back with."""
        input_required = read_input_required(ending.result)
        if input_required is None:
            return misbehaviour(server.slug, UNKNOWN_FORM)
        bad = check_question_urls(input_required, server)
        if bad is not None:
            return bad
        state = self._request_states.bind(exchange, server.slug, input_required.state)
        if isinstance(state, str):
            return misbehaviour(server.slug, state)
        server.expect_return(PARKED_SECONDS_MAX)
        return Answered(raw_json.edit(ending.result, {"requestState": state}), ending.shape)

    def _translate_error(
        self, error: bytes, exchange: Exchange, profile: Profile, server: Server
    ) -> Ending:
        code = error_code(error)
        if code == MISSING_CAPABILITY and server.modern:
            ending = _translate_missing_capability(error, exchange, server.slug)
        elif code == URL_REQUIRED:
            ending = self._translate_url_required(error, exchange, server)
        else:
            ending = None
        if ending is not None:
            return ending
        context = profile.config.errors == "context"
        error_in_context = add_server_context(error, server.slug) if context else error
        catalog = profile.catalog_of(exchange.caller)
        if catalog.public_uris and exchange.method.kind in (OfferKind.RESOURCES, OfferKind.SKILLS):
            error_in_context = rewrite_error(
                error_in_context, partial(catalog.public_uri, server.slug)
            )
        return ErrorAnswered(error_in_context)

    def _translate_url_required(
        self, error: bytes, exchange: Exchange, server: Server
    ) -> Ending | None:
        """A call that ends because a person has to open a URL first.

        The client of a session gets the error. A modern one is asked to open the URL, and when it
        comes back, the call is sent as a new one, since it has ended at the server.
        """
        caller, slug = exchange.caller, server.slug
        elicitations = _url_elicitations(error)
        if elicitations is None:
            return misbehaviour(slug, "asks to open a URL, and does not say which")
        for _, url, _ in elicitations.values():
            reason = explain_unsafe_url(url, local=is_local(server.config))
            if reason is not None:
                return misbehaviour(slug, URL_REJECTED.format(reason))
        if caller.session is not None and caller.revision.url_errors:
            for _, _, raw in elicitations.values():
                remember_elicitation(caller.session, slug, raw)
            return None
        reason = "asks to open a URL, which this client cannot be asked to do"
        if caller.revision.era is Era.LEGACY:
            return misbehaviour(slug, reason)
        if not caller.capabilities.elicitation_url:
            return Failed(missing_capability(slug, {"elicitation": {"url": {}}}))
        state = self._request_states.bind(exchange, slug, None, starts_over=True)
        if isinstance(state, str):
            return misbehaviour(slug, state)
        entries = [(key, entry) for key, (entry, _, _) in elicitations.items()]
        return Answered(encode_input_required(entries, state))


def _in_era_of_caller(ending: Ending, exchange: Exchange, era: Era) -> Ending:
    """Convert the error codes of a resource between eras; `era` is the server's.

    Within one era every code passes as it is.
    """
    if exchange.caller.revision.era is era or not isinstance(ending, ErrorAnswered):
        return ending
    if exchange.method.kind is not OfferKind.RESOURCES:
        return ending
    if era is Era.LEGACY:
        return ErrorAnswered(upgrade_error(ending.error))
    return ErrorAnswered(downgrade_error(ending.error, exchange.param_members.get("uri")))


def misbehaviour(slug: str, reason: str) -> Failed:
    return Failed(server_failure(slug, Situation.MISBEHAVED, reason))


def not_ready_fault(server: Server, reason: str) -> Fault:
    """The fault of a call to a server that is not running."""
    timeout = server.timeout_of(reason)
    if timeout is None:
        return not_running(server.slug, reason)
    return timed_out(server.slug, timeout, reason)


def check_question_urls(input_required: InputRequiredResult, server: Server) -> Failed | None:
    """Why questions are refused: one asks to open a URL that is not safe. None if none does."""
    for method, params in input_required.requests.values():
        reason = explain_unsafe_question(method, params, local=is_local(server.config))
        if reason is not None:
            return misbehaviour(server.slug, URL_REJECTED.format(reason))
    return None


def _with_public_uris(
    ending: Answered, exchange: Exchange, profile: Profile, slug: str
) -> Answered:
    catalog = profile.catalog_of(exchange.caller)
    if not catalog.public_uris:
        return ending
    public = partial(catalog.public_uri, slug)
    return Answered(rewrite_result(exchange.method.name, ending.result, public), ending.shape)


def _translate_missing_capability(error: bytes, exchange: Exchange, slug: str) -> Ending | None:
    """The ending of a call to a modern server that lacks a capability of its client.

    The client may lack it, or the gateway may not pass it on; a client is not told that it lacks
    what it has.
    """
    required = _required_capabilities(error)
    if required is None:
        return None
    caller = exchange.caller
    missing = {
        name: value
        for name, value in required.items()
        if caller.revision.era is Era.LEGACY or not declares(caller.capabilities, name, value)
    }
    if not missing:
        message = f"Server '{slug}' needs what is not passed on to it: {', '.join(required)}"
        data = raw_json.encode_object(
            [("server", raw_json.encode_string(slug)), ("reason", b'"policy"')]
        )
        return Failed(Fault(situation=Situation.INTERNAL, message=message, data=data))
    fault = missing_capability(slug, missing)
    if caller.revision.era is Era.LEGACY and exchange.method.name == "tools/call":
        return Answered(tool_error(fault.message))
    return Failed(fault)


def _required_capabilities(error: bytes) -> Mapping[str, object] | None:
    try:
        data = raw_json.members(error).get("data")
        needed = None if data is None else raw_json.members(data).get("requiredCapabilities")
        return None if needed is None else msgspec.json.decode(needed, type=dict[str, object])
    except msgspec.DecodeError:
        return None


def _url_elicitations(error: bytes) -> dict[str, tuple[bytes, str, bytes]] | None:
    """The URLs that a person is to open, by key: entry for a modern client, URL, elicitation."""
    try:
        data = raw_json.members(error)["data"]
        listed = msgspec.json.decode(raw_json.members(data)["elicitations"], type=list[Raw])
        elicitations: dict[str, tuple[bytes, str, bytes]] = {}
        for number, raw in enumerate(listed[: ELICITATIONS_MAX + 1], 1):
            found = raw_json.members(raw)
            params = [("mode", b'"url"')]
            params += [(name, bytes(found[name])) for name in ("message", "url")]
            entry = encode_input_request("elicitation/create", raw_json.encode_object(params))
            elicitations[f"u{number}"] = (
                entry,
                msgspec.json.decode(found["url"], type=str),
                bytes(raw),
            )
    except (msgspec.DecodeError, KeyError):
        return None
    return elicitations if 0 < len(elicitations) <= ELICITATIONS_MAX else None
