"""A server's answer, as the caller of the exchange may get it.

What era and revision the server speaks is its adapter's to know, and how a client is told its
front's. This is what lies between: whose error it is, who may be asked what, and under whose state
a client comes back.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec
from msgspec import Raw

from anyport.config.address import is_local
from anyport.gateway.parks import PARK_SECONDS_MAX
from anyport.gateway.profile import Profile
from anyport.gateway.states import States
from anyport.protocol.back import UNKNOWN_FORM, Inquiry, asks_for_input, inquiry_of
from anyport.protocol.capability import declares
from anyport.protocol.downgrade import downgrade_error
from anyport.protocol.errors import (
    MISSING_CAPABILITY,
    URL_REQUIRED,
    Fault,
    Situation,
    error_code,
    from_server,
    lost,
    missing_capability,
    not_running,
    timed_out,
    tool_error,
)
from anyport.protocol.exchange import Answered, Ending, Exchange, Failed, Refused
from anyport.protocol.method import Kind
from anyport.protocol.openable import unfit, unfit_question
from anyport.protocol.revision import Era
from anyport.protocol.shape import ShapedResult, read_shape
from anyport.protocol.upgrade import input_request, input_required
from anyport.routing.rewrite import rewrite_error, rewrite_result
from anyport.upstream.call import Answer, Lost
from anyport.upstream.peer import Peer
from anyport.upstream.server import Server
from anyport.wire import members
from anyport.wire.frame import Failure, Result

ELICITATIONS_MAX: Final = 16
"""Addresses that one error may ask a person to open."""

UNFIT: Final = "wants an address opened which is not passed on: {}"


class Endings:
    """Reads the answers to one profile's exchanges."""

    def __init__(self, states: States) -> None:
        self._states = states

    def of(
        self,
        answer: Answer,
        peer: Peer | None,
        exchange: Exchange,
        profile: Profile,
        server: Server,
    ) -> Ending | Inquiry:
        """A server's answer as the caller may get it, or what the server needs to know first."""
        match answer:
            case Result(result=result) if result[:1] == b"{" and peer is not None:
                shape = answer.shape if isinstance(answer, ShapedResult) else read_shape(result)
                asks = asks_for_input(shape)
                if asks and not exchange.method.may_need_input:
                    words = f"asked for input, which {exchange.method.name} has no room for"
                    return misbehaved(server.slug, words)
                ending = peer.back.ending(result, shape, exchange.caller, server.slug)
                if not isinstance(ending, Answered):
                    return ending
                if asks:
                    ending = self._bound(ending, exchange, server)
                if not isinstance(ending, Answered):
                    return ending
                return _public(ending, exchange, profile, server.slug)
            case Result():
                return misbehaved(server.slug, "answered with a result that is not an object")
            case Failure(error=error):
                told = self._refused(error, exchange, profile, server)
                modern = peer is not None and peer.revision.era is Era.MODERN
                return _in_session(told, exchange) if modern else told
            case Lost():
                return Failed(answer.fault(server.slug))

    def _bound(self, ending: Answered, exchange: Exchange, server: Server) -> Ending:
        """What a modern client is asked, under a state that only it can come back with."""
        inquiry = inquiry_of(ending.result)
        if inquiry is None:
            return misbehaved(server.slug, UNKNOWN_FORM)
        bad = unfit_inquiry(inquiry, server)
        if bad is not None:
            return bad
        state = self._states.bind(exchange, server.slug, inquiry.state)
        if isinstance(state, str):
            return misbehaved(server.slug, state)
        server.await_return(PARK_SECONDS_MAX)
        return Answered(members.edit(ending.result, {"requestState": state}), ending.shape)

    def _refused(
        self, error: bytes, exchange: Exchange, profile: Profile, server: Server
    ) -> Ending:
        code = error_code(error)
        if code == MISSING_CAPABILITY and server.modern:
            ending = _lacking(error, exchange, server.slug)
        elif code == URL_REQUIRED:
            ending = self._to_open(error, exchange, server)
        else:
            ending = None
        if ending is not None:
            return ending
        context = profile.config.errors == "context"
        told = from_server(error, server.slug) if context else error
        if profile.catalog.public_uris and exchange.method.kind in (Kind.RESOURCES, Kind.SKILLS):
            told = rewrite_error(told, partial(profile.catalog.public_uri, server.slug))
        return Refused(told)

    def _to_open(self, error: bytes, exchange: Exchange, server: Server) -> Ending | None:
        """A call that ends because somebody has to open an address first.

        A session's client is told just that. A modern one is asked to, and when it comes back the
        call is made anew: to the server it is over.
        """
        caller, slug = exchange.caller, server.slug
        asked = _addresses(error)
        if asked is None:
            return misbehaved(slug, "wants an address opened, and does not say which")
        for _, url in asked.values():
            reason = unfit(url, local=is_local(server.config))
            if reason is not None:
                return misbehaved(slug, UNFIT.format(reason))
        if caller.session is not None and caller.revision.url_errors:
            return None
        words = "wants an address opened, which this client cannot be asked to do"
        if caller.revision.era is Era.LEGACY:
            return misbehaved(slug, words)
        if not caller.capabilities.elicitation_url:
            return Failed(missing_capability(slug, {"elicitation": {"url": {}}}))
        state = self._states.bind(exchange, slug, None, anew=True)
        if isinstance(state, str):
            return misbehaved(slug, state)
        return Answered(input_required([(key, entry) for key, (entry, _) in asked.items()], state))


def _in_session(ending: Ending, exchange: Exchange) -> Ending:
    """A modern server's error in the words of a session, where its client has one."""
    if exchange.caller.revision.era is Era.MODERN or not isinstance(ending, Refused):
        return ending
    if exchange.method.kind is not Kind.RESOURCES:
        return ending
    return Refused(downgrade_error(ending.error, exchange.found.get("uri")))


def misbehaved(slug: str, words: str) -> Failed:
    """A server did what it must not."""
    return Failed(lost(slug, Situation.MISBEHAVED, words))


def unready(server: Server, reason: str) -> Fault:
    """A server does not run, maybe because it took too long to."""
    timeout = server.timeout_of(reason)
    if timeout is None:
        return not_running(server.slug, reason)
    return timed_out(server.slug, timeout, reason)


def unfit_inquiry(inquiry: Inquiry, server: Server) -> Failed | None:
    """Why what a server asks is not put to anybody."""
    for method, params in inquiry.requests.values():
        reason = unfit_question(method, params, local=is_local(server.config))
        if reason is not None:
            return misbehaved(server.slug, UNFIT.format(reason))
    return None


def _public(ending: Answered, exchange: Exchange, profile: Profile, slug: str) -> Answered:
    """Make the URIs in a result public, where a server's own are not unique."""
    if not profile.catalog.public_uris:
        return ending
    public = partial(profile.catalog.public_uri, slug)
    return Answered(rewrite_result(exchange.method.name, ending.result, public), ending.shape)


def _lacking(error: bytes, exchange: Exchange, slug: str) -> Ending | None:
    """A modern server needs what the request did not declare.

    That may be the client's lack, or of what the gateway did not pass on; a client is not told
    that it lacks what it has.
    """
    required = _required(error)
    if required is None:
        return None
    caller = exchange.caller
    missing = {
        name: value
        for name, value in required.items()
        if caller.revision.era is Era.LEGACY or not declares(caller.capabilities, name, value)
    }
    if not missing:
        words = f"Server '{slug}' needs what is not passed on to it: {', '.join(required)}"
        data = members.join([("server", members.text(slug)), ("reason", b'"policy"')])
        return Failed(Fault(situation=Situation.INTERNAL, message=words, data=data))
    fault = missing_capability(slug, missing)
    if caller.revision.era is Era.LEGACY and exchange.method.name == "tools/call":
        return Answered(tool_error(fault.message))
    return Failed(fault)


def _required(error: bytes) -> Mapping[str, object] | None:
    try:
        own = members.members(error).get("data")
        needed = None if own is None else members.members(own).get("requiredCapabilities")
        return None if needed is None else msgspec.json.decode(needed, type=dict[str, object])
    except msgspec.DecodeError:
        return None


def _addresses(error: bytes) -> dict[str, tuple[bytes, str]] | None:
    """What a person is asked to open: the entries for a modern client, and the addresses."""
    try:
        own = members.members(error)["data"]
        listed = msgspec.json.decode(members.members(own)["elicitations"], type=list[Raw])
        asked: dict[str, tuple[bytes, str]] = {}
        for number, raw in enumerate(listed[: ELICITATIONS_MAX + 1], 1):
            found = members.members(raw)
            params = [("mode", b'"url"')]
            params += [(name, bytes(found[name])) for name in ("message", "url")]
            entry = input_request("elicitation/create", members.join(params))
            asked[f"u{number}"] = (entry, msgspec.json.decode(found["url"], type=str))
    except (msgspec.DecodeError, KeyError):
        return None
    return asked if 0 < len(asked) <= ELICITATIONS_MAX else None
