"""Request heads as a client would send them, and what a door says to them."""

from anyport.ingress.http.door import Denial, Door
from anyport.wire.http import RequestHead, read_request_head


def head(*fields: tuple[str, str], target: str = "/mcp", method: str = "POST") -> RequestHead:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields)]
    return read_request_head("\r\n".join(lines).encode("latin-1"))


def status(door: Door, *fields: tuple[str, str], target: str = "/mcp") -> int:
    """What the answer would be; 200 for those who are let in."""
    admitted = door.admit(head(*fields, target=target))
    return admitted.status if isinstance(admitted, Denial) else 200
