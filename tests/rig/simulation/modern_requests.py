"""What a modern client says with each request, and how it comes back with what it was asked for."""

import msgspec

from tests.rig.simulation.call_plan import Json, answer
from tests.rig.simulation.clients import LATE_SECONDS, Client, ClientRequest, Fate
from tests.rig.simulation.server_sessions import MODERN


def envelope(client: Client) -> Json:
    """What a modern request says of its client."""
    prefix = "io.modelcontextprotocol/"
    return {
        f"{prefix}protocolVersion": MODERN,
        f"{prefix}clientCapabilities": client.capabilities,
        f"{prefix}clientInfo": {"name": client.name, "version": "1"},
    }


def come_back(client: Client, ask: ClientRequest, message: Json) -> None:
    """Where input is required: call again with it, as the manner of the call has it."""
    result = message.get("result") or {}
    if result.get("resultType") != "input_required" or ask.fate is not Fate.ANSWERED:
        return
    ask.asked = True
    client.states.append((ask, result))
    if ask.manner == "never":
        return
    responses: Json = {}
    for key, entry in result["inputRequests"].items():
        client.questioned(msgspec.json.encode(entry))
        accept = ask.manner not in ("decline", "error")
        responses[key] = answer(entry["method"], client.number, ask.nonce, accept=accept)

    def again() -> None:
        client.returning -= 1
        again = client.new_ask(ask.method, {**ask.params, "inputResponses": responses})
        again.params["_meta"] = dict(ask.params["_meta"])
        if "requestState" in result:
            again.params["requestState"] = result["requestState"]
        if "progressToken" in again.params["_meta"]:
            again.params["_meta"]["progressToken"] = again.id
        again.nonce, again.number, again.plan = ask.nonce, ask.number, ask.plan
        again.server, again.manner, again.asked = ask.server, ask.manner, True
        again.surely = ask.surely and ask.manner != "twice"
        client.begin(again)

    delay = LATE_SECONDS if ask.manner == "late" else client.chance.random()
    for _ in range(2 if ask.manner == "twice" else 1):
        client.returning += 1
        client.world.loop.call_later(delay, again)
