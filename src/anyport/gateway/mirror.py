"""Whether a call over HTTP repeats in its header fields what its arguments say.

Only the tool's schema tells which arguments must be repeated, so this is checked once it is known
whose tool is called. Requests of the handshake era have no such fields, and pipes have no fields.
"""

from anyport.ingress.http.sessions import HTTP
from anyport.protocol.errors import Fault, Situation
from anyport.protocol.exchange import Exchange
from anyport.protocol.headers import Annotations, disagreement
from anyport.protocol.revision import Era


def contradiction(exchange: Exchange, annotated: Annotations) -> Fault | None:
    """How the `Mcp-Param-*` fields of a call contradict its arguments; None if they do not."""
    caller = exchange.caller
    if not annotated or exchange.method.name != "tools/call":
        return None
    if caller.revision.era is not Era.MODERN or caller.transport != HTTP:
        return None
    sent = dict(exchange.param_fields)
    if len(sent) < len(exchange.param_fields):
        # Two readers could pick two values.
        words: str | None = "an Mcp-Param field stands twice"
    else:
        arguments = exchange.found.get("arguments")
        words = disagreement(annotated, b"" if arguments is None else bytes(arguments), sent)
    if words is None:
        return None
    return Fault(situation=Situation.HEADER_MISMATCH, message=f"Header mismatch: {words}")
