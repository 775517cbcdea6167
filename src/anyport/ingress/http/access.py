"""Access control over HTTP, by the head of a request alone: Host, Origin, bearer token.

A web page can make a browser send requests to this machine under any host name its owner points
here (DNS rebinding). So a request must name one of our hosts, must not come from a foreign page,
and must carry a token if tokens are configured. No refusal echoes what was sent.

No response has `Access-Control-*` fields: an allowed origin may send requests, but the browser
still keeps the responses from its scripts.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from anyport.config.addresses import host_key, is_loopback, read_authority, read_origin
from anyport.config.model import Token
from anyport.protocol.principal import LOCAL, Principal
from anyport.wire.http1 import RequestHead

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"

TOKEN_ISSUER: Final = "token"
"""Issuer of the principals of static tokens."""

# RFC 6750, 2.1, and RFC 9110, 11.1: the scheme is case-insensitive, the token a b64token.
_BEARER: Final = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)
_CHALLENGE: Final = 'Bearer realm="anyport"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """A refusal: the response to send instead."""

    status: int
    message: str
    fields: tuple[tuple[str, str], ...] = ()


# RFC 9112, 3.2: "A server MUST respond with a 400 status code to any HTTP/1.1 request message that
# lacks a Host header field and to any request message that contains more than one Host header field
# line or a Host header field with an invalid field value."
BAD_HOST_COUNT: Final = Denial(status=400, message="A request needs exactly one Host header")
BAD_HOST: Final = Denial(
    status=400, message="The Host header must be a name or an address, with or without a port"
)
BAD_TARGET: Final = Denial(status=400, message="The request target must be a path")
MISDIRECTED: Final = Denial(
    status=421,
    message="This gateway does not serve the host in the Host header; "
    "add it to gateway.allowedHosts if it should",
)
MULTIPLE_ORIGINS: Final = Denial(status=400, message="A request has at most one Origin header")
# MCP 2025-11-25, transports: "If the Origin header is present and invalid, servers MUST respond
# with HTTP 403 Forbidden."
FORBIDDEN_ORIGIN: Final = Denial(
    status=403,
    message="Web pages of this origin may not use the gateway; "
    "gateway.allowedOrigins names those that may",
)
FORBIDDEN_PAGE_CHANGE: Final = Denial(
    status=403,
    message="Web pages may not change the gateway, save those that gateway.allowedOrigins names",
)
NO_TOKEN: Final = Denial(
    status=401,
    message="A token is needed: send it as Authorization: Bearer",
    # RFC 6750, 3: no error code for a request without any authentication.
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
ENCODED_BODY: Final = Denial(
    status=415,
    message="The body must not be compressed: send no Content-Encoding",
    # RFC 9110, 15.5.16: name what is acceptable.
    fields=(("accept-encoding", "identity"),),
)


class AccessControl:
    """Admits requests, each as a principal, or denies them."""

    def __init__(
        self, *, hosts: Iterable[str], origins: Iterable[str], tokens: Iterable[Token]
    ) -> None:
        """`hosts` are allowed besides the loopback ones; the listen address is one of them."""
        self._hosts = frozenset(map(host_key, hosts))
        self._origins = frozenset(map(read_origin, origins))
        self._tokens = tuple(tokens)

    def admit(self, head: RequestHead) -> Principal | Denial:
        """The principal of a request, or why it is denied."""
        return self._check_host(head) or self._check_origin(head) or self._authenticate(head)

    def check_change(self, head: RequestHead) -> Denial | None:
        """Deny an admitted request that changes something on behalf of a web page.

        A page may send a POST without a body, or with a form, to any host without a preflight.
        Pages from this machine are no exception: an editor's preview or a development server shows
        content of others. Only configured origins may.
        """
        origin = head.get("origin")
        if origin is None:
            # Browsers send `Origin` with every POST; `Sec-Fetch-Site` is left for those that do
            # not.
            return None if head.get("sec-fetch-site") is None else FORBIDDEN_PAGE_CHANGE
        return None if read_origin(origin) in self._origins else FORBIDDEN_PAGE_CHANGE

    def is_known(self, principal: Principal) -> bool:
        """Whether a principal admitted earlier would be admitted now."""
        if not self._tokens:
            return principal == LOCAL
        return any(principal == Principal(TOKEN_ISSUER, token.name) for token in self._tokens)

    def _check_host(self, head: RequestHead) -> Denial | None:
        if not head.target.startswith("/"):
            # An absolute URL would name the host a second time.
            return BAD_TARGET
        hosts = head.all("host")
        if len(hosts) != 1:
            return BAD_HOST_COUNT
        authority = read_authority(hosts[0])
        if authority is None:
            return BAD_HOST
        if authority.host in self._hosts or is_loopback(authority.host):
            return None
        return MISDIRECTED

    def _check_origin(self, head: RequestHead) -> Denial | None:
        origins = head.all("origin")
        if not origins:
            return FORBIDDEN_ORIGIN if _is_cross_site(head) else None
        if len(origins) > 1:
            return MULTIPLE_ORIGINS
        origin = read_origin(origins[0])
        if origin is None:
            return FORBIDDEN_ORIGIN
        return None if origin.is_loopback or origin in self._origins else FORBIDDEN_ORIGIN

    def _authenticate(self, head: RequestHead) -> Principal | Denial:
        if not self._tokens:
            return LOCAL
        sent = head.all("authorization")
        if not any(value.lower().startswith("bearer") for value in sent):
            return NO_TOKEN
        bearer = _BEARER.fullmatch(sent[0])
        if bearer is None or len(sent) > 1:
            return BAD_TOKEN
        name = self._token_name(bearer[1])
        return BAD_TOKEN if name is None else Principal(TOKEN_ISSUER, name)

    def _token_name(self, sent: str) -> str | None:
        digest = hashlib.sha256(sent.encode("ascii")).digest()
        # Compare with every token, so that the time taken does not depend on which one matches.
        names = [token.name for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        return names[0] if names else None


def _is_cross_site(head: RequestHead) -> bool:
    """Whether a page of another site requests a subresource, such as an image, script or frame.

    Browsers send no `Origin` with those. A link to the gateway is fine.
    """
    site, kind = head.get("sec-fetch-site"), head.get("sec-fetch-dest")
    return site == "cross-site" and kind != "document"


def check_content_type(head: RequestHead) -> Denial | None:
    """Deny a body that is not JSON.

    This also stops forms: a page may send `text/plain`, form fields and multipart to any host, but
    `application/json` only after a preflight, which is never granted.
    """
    types = head.all("content-type")
    if len(types) != 1:
        return NOT_JSON
    media_type, *parameters = types[0].lower().split(";")
    if media_type.strip() != JSON:
        return NOT_JSON
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        # RFC 8259, 8.1: JSON is UTF-8. Section 11: other parameters have no meaning.
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8"):
            return NOT_JSON
    if any(coding.lower() != "identity" for coding in head.all("content-encoding")):
        return ENCODED_BODY
    return None


class AcceptedMedia(NamedTuple):
    """Which forms of a response the client accepts."""

    json: bool
    stream: bool


def read_accept(head: RequestHead) -> AcceptedMedia:
    """Read the `Accept` header.

    MCP requires clients to list both media types, and official ones do. JSON alone and `*/*`, which
    command-line clients send, are accepted as well. A missing `Accept` is not: "The client MUST
    include an Accept header" (MCP 2025-11-25, transports), and official servers refuse it too.
    """
    weights: dict[str, bool] = {}
    for element in ",".join(head.all("accept")).lower().split(","):
        media_range, *parameters = element.split(";")
        weights[media_range.strip()] = not any(map(_is_zero_weight, parameters))
    return AcceptedMedia(
        json=_accepts_media_type(weights, JSON), stream=_accepts_media_type(weights, EVENT_STREAM)
    )


def check_accept(head: RequestHead, *, json: bool, stream: bool) -> Denial | None:
    """Deny a client that accepts no form the response could have."""
    takes = read_accept(head)
    if (json and takes.json) or (stream and takes.stream):
        return None
    forms = ", ".join(form for form, possible in ((JSON, json), (EVENT_STREAM, stream)) if possible)
    return Denial(status=406, message=f"Send Accept: {forms}")


def _accepts_media_type(weights: dict[str, bool], media_type: str) -> bool:
    # RFC 9110, 12.5.1: the most specific range that matches decides.
    kind = media_type.partition("/")[0]
    for media_range in (media_type, f"{kind}/*", "*/*"):
        if media_range in weights:
            return weights[media_range]
    return False


def _is_zero_weight(parameter: str) -> bool:
    """Whether a parameter is `q=0` in any spelling: not acceptable."""
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and not value.strip().strip("0.")
