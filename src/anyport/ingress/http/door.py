"""Who may come in over HTTP, decided by a request's head alone, before anything is allocated.

A web page can make a browser send requests to this machine, under any name the page's owner
points here. So a request must name a host that is ours, must not come from a foreign page, and
must carry a token where there are tokens. Nothing here is looked up, waited for or remembered,
and no refusal repeats what was sent.

No `Access-Control-*` field stands in any answer: an origin that is let in may ask, and the
browser still keeps the answer from its scripts.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from anyport.config.address import host_key, is_loopback, read_authority, read_origin
from anyport.config.schema import Token
from anyport.protocol.principal import LOCAL, Principal
from anyport.wire.http import RequestHead

JSON: Final = "application/json"
STREAM: Final = "text/event-stream"

TOKEN_ISSUER: Final = "token"
"""Who vouches for a principal that came with a static token."""

# RFC 6750, 2.1, and RFC 9110, 11.1: the scheme is "bearer" in any case, the token a b64token.
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)
_CHALLENGE: Final = 'Bearer realm="anyport"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A refusal at the door: what to answer instead."""

    status: int
    message: str
    fields: tuple[tuple[str, str], ...] = ()


# RFC 9112, 3.2: "A server MUST respond with a 400 status code to any HTTP/1.1 request message
# that lacks a Host header field and to any request message that contains more than one Host
# header field line or a Host header field with an invalid field value."
HOSTS: Final = Denial(status=400, message="A request needs exactly one Host header")
BAD_HOST: Final = Denial(
    status=400, message="The Host header must be a name or an address, with or without a port"
)
BAD_TARGET: Final = Denial(status=400, message="The request target must be a path")
MISDIRECTED: Final = Denial(
    status=421,
    message="The gateway does not go by the name in this Host header; "
    "add that to gateway.allowedHosts if it should",
)
ORIGINS: Final = Denial(status=400, message="A request has at most one Origin header")
# MCP 2025-11-25, transports: "If the Origin header is present and invalid, servers MUST respond
# with HTTP 403 Forbidden."
FOREIGN: Final = Denial(
    status=403,
    message="Web pages of this origin may not use the gateway; "
    "gateway.allowedOrigins names those that may",
)
NO_TOKEN: Final = Denial(
    status=401,
    message="A token is needed: send it as Authorization: Bearer",
    # RFC 6750, 3: no error code for who did not know that a token is needed.
    fields=(("www-authenticate", _CHALLENGE),),
)
BAD_TOKEN: Final = Denial(
    status=401,
    message="The bearer token is not one of this gateway's",
    fields=(("www-authenticate", f'{_CHALLENGE}, error="invalid_token"'),),
)
NOT_JSON: Final = Denial(
    status=415, message=f"The body must be JSON: send Content-Type: {JSON}, in UTF-8"
)
ENCODED: Final = Denial(
    status=415,
    message="The body must not be compressed: send no Content-Encoding",
    # RFC 9110, 15.5.16: what would have been accepted.
    fields=(("accept-encoding", "identity"),),
)


class Door:
    """Lets requests in, each as somebody, or says why not."""

    def __init__(
        self, *, hosts: Iterable[str], origins: Iterable[str], tokens: Iterable[Token]
    ) -> None:
        """`hosts` are those besides the loopback ones: the address listened on is one of them."""
        self._hosts = frozenset(map(host_key, hosts))
        self._origins = frozenset(map(read_origin, origins))
        self._tokens = tuple(tokens)

    def admit(self, head: RequestHead) -> Principal | Denial:
        """Who a request comes from, if it may come in at all."""
        return self._misdirected(head) or self._foreign(head) or self._principal(head)

    def knows(self, principal: Principal) -> bool:
        """Whether somebody who came in earlier would be let in now."""
        if not self._tokens:
            return principal == LOCAL
        return any(principal == Principal(TOKEN_ISSUER, token.name) for token in self._tokens)

    def _misdirected(self, head: RequestHead) -> Denial | None:
        if not head.target.startswith("/"):
            # A whole URL would be a second word on which host is meant.
            return BAD_TARGET
        hosts = head.all("host")
        if len(hosts) != 1:
            return HOSTS
        authority = read_authority(hosts[0])
        if authority is None:
            return BAD_HOST
        if authority.host in self._hosts or is_loopback(authority.host):
            return None
        return MISDIRECTED

    def _foreign(self, head: RequestHead) -> Denial | None:
        origins = head.all("origin")
        if not origins:
            return FOREIGN if _is_from_a_foreign_page(head) else None
        if len(origins) > 1:
            return ORIGINS
        origin = read_origin(origins[0])
        if origin is None:
            return FOREIGN
        return None if origin.is_loopback or origin in self._origins else FOREIGN

    def _principal(self, head: RequestHead) -> Principal | Denial:
        if not self._tokens:
            return LOCAL
        sent = head.all("authorization")
        if not any(value.lower().startswith("bearer") for value in sent):
            return NO_TOKEN
        bearer = _BEARER.fullmatch(sent[0])
        if bearer is None or len(sent) > 1:
            return BAD_TOKEN
        name = self._name_of(bearer[1])
        return BAD_TOKEN if name is None else Principal(TOKEN_ISSUER, name)

    def _name_of(self, sent: str) -> str | None:
        digest = hashlib.sha256(sent.encode("ascii")).digest()
        # All of them, found or not: the time taken says nothing about which one came near.
        names = [token.name for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        return names[0] if names else None


def _is_from_a_foreign_page(head: RequestHead) -> bool:
    """Whether a page of another site asks without saying which: for an image, a script, a frame.

    Browsers send no `Origin` with those. Following a link to the gateway is something else.
    """
    site, kind = head.get("sec-fetch-site"), head.get("sec-fetch-dest")
    return site == "cross-site" and kind != "document"


def post_media(head: RequestHead) -> Denial | None:
    """Why a body cannot be read as JSON.

    This is also what stops forms: a page may send `text/plain`, form fields and multipart to
    any host without asking, and `application/json` only after a preflight that nobody grants.
    """
    types = head.all("content-type")
    if len(types) != 1:
        return NOT_JSON
    media_type, *parameters = types[0].lower().split(";")
    if media_type.strip() != JSON:
        return NOT_JSON
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        # RFC 8259, 8.1: JSON is UTF-8. Other parameters mean nothing (11), and do no harm.
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8"):
            return NOT_JSON
    if any(coding.lower() != "identity" for coding in head.all("content-encoding")):
        return ENCODED
    return None


class Acceptable(NamedTuple):
    """Which of the two forms an answer can have may be sent."""

    json: bool
    stream: bool


def acceptable(head: RequestHead) -> Acceptable:
    """What a client takes, by its `Accept`.

    The specification wants both forms listed, and official clients do. Who asks for JSON alone,
    or for anything (`*/*`, as command-line and plain HTTP clients do), is understood as well. No
    `Accept` at all is not: MCP requires the header ("The client MUST include an Accept header"),
    and official servers refuse its absence in the same way.
    """
    weights: dict[str, bool] = {}
    for element in ",".join(head.all("accept")).lower().split(","):
        media_range, *parameters = element.split(";")
        weights[media_range.strip()] = not any(map(_is_zero_weight, parameters))
    return Acceptable(json=_takes(weights, JSON), stream=_takes(weights, STREAM))


def accepts(head: RequestHead, *, json: bool, stream: bool) -> Denial | None:
    """Why a client can be given no answer: it takes none of the forms that the answer may have."""
    takes = acceptable(head)
    if (json and takes.json) or (stream and takes.stream):
        return None
    forms = ", ".join(form for form, possible in ((JSON, json), (STREAM, stream)) if possible)
    return Denial(status=406, message=f"Send Accept: {forms}")


def _takes(weights: dict[str, bool], media_type: str) -> bool:
    # RFC 9110, 12.5.1: the most specific range that matches decides.
    kind = media_type.partition("/")[0]
    for media_range in (media_type, f"{kind}/*", "*/*"):
        if media_range in weights:
            return weights[media_range]
    return False


def _is_zero_weight(parameter: str) -> bool:
    """`q=0` in all its forms: "not acceptable"."""
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and not value.strip().strip("0.")
