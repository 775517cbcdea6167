"""Why a server does not run, in one sentence, and what to do about it.

Reads how a server is doing; what it offers and to whom is not looked at.
"""

from typing import Final

from anyport.upstream.server import Server
from anyport.upstream.tender import State

ADVICE: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("working directory",), "create that directory, or mend cwd"),
    (("permission denied",), "make the command executable"),
    (("was not found", "does not exist"), "install the command, or give its full path"),
    (("is no program",), "install what the command needs, or give another command"),
    (("wants authorization", "HTTP 401", "HTTP 403"), "set headers that it accepts"),
    (("certificate", "TLS failed"), "mend its certificate, or trust the one who signed it"),
    (("cannot be resolved",), "mend the host in url"),
    (("no connection", "refused"), "see that it runs where url says"),
    (("redirect",), "set url to where it leads"),
    (("not MCP",), "a server may write nothing but MCP to its standard output"),
    (("does not speak", "not one we know"), "set protocol to what it speaks"),
    (("did not answer", "no reply"), "see whether it waits for something, a login for example"),
    (("exit code", "killed by"), "its last words say why; 'anyport events' has more of them"),
)
"""Words in a reason, and what helps against it; the first that fits counts."""


def reason_of(server: Server) -> str | None:
    """A sentence for a person; None for a server that runs."""
    if server.config.disabled:
        return "it is disabled in the configuration; set disabled = false to use it"
    if server.config.unresolved:
        return f"{server.obstacle}; mend that, then restart the gateway"
    if server.state is State.READY:
        turned = server.guard.reason
        return None if turned is None else f"it is not taking calls: {turned}"
    if server.state is State.STARTING:
        return _starting(server)
    reason = server.reason or "no reason is known"
    if server.state in (State.IDLE, State.STOPPED):
        return reason
    again = "it is tried again on the next use" if server.asleep else "it is tried again by itself"
    return _joined(reason, f"{advice(reason)}; {again}".lstrip("; "))


def advice(reason: str) -> str:
    """What helps, where that can be told from the reason."""
    for words, help in ADVICE:
        if any(word in reason for word in words):
            return "" if help in reason else help
    return ""


def _starting(server: Server) -> str:
    if server.main is None:
        return "it has not been needed yet; it starts with the first client"
    if server.last_error is not None:
        return _joined(f"it is being started again after: {server.last_error}", "wait a moment")
    return "it is starting; wait a moment"


def _joined(reason: str, then: str) -> str:
    return f"{reason.rstrip('.;')}; {then}"
