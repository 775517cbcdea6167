"""What must hold after a schedule, whatever happened in it."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from anyport.gateway.gateway import Gateway
from anyport.ingress.http.server import HttpIngress
from anyport.record.tamper.verify import ExternalEvidence, verify
from tests.rig.simulation.clients import Client
from tests.rig.simulation.environment import Environment


def check_clients_done(world: Environment, clients: Iterable[Client]) -> None:
    """When everybody has had time: nobody waits for anything, and nobody has waited too long."""
    for client in clients:
        for ask in client.open_asks:
            world.fault(f"{client.name} never got an answer to {ask.id} ({ask.method} {ask.nonce})")
        for ask in client.asks.values():
            if ask.took > ask.seconds_max and not (ask.asked or ask.endless):
                words = f"waited {ask.took:.1f} s for {ask.id} ({ask.method} {ask.nonce})"
                world.fault(f"{client.name} {words}; {ask.seconds_max:.1f} s would be enough")


def check_nothing_kept(world: Environment, gateway: Gateway, ingress: HttpIngress | None) -> None:
    """When everybody has gone: nothing is kept of anybody."""
    left = {
        "open calls": len(gateway.relay.calls.open),
        "parked calls": len(gateway.relay.calls.questioned) + len(gateway.relay.calls.parked),
        "questions": len(gateway.server_requests._open),
        "sessions": len(gateway.notifications.sessions),
        "keys of sessions": len(gateway.leases._keys),
        "connections of one call": len(gateway.leases._exclusives),
        "connections of one principal": len(gateway.leases._principal_connections),
    }
    if ingress is not None:
        left["sessions over HTTP"] = len(ingress.endpoint.sessions.by_id)
        left["HTTP connections"] = len(ingress.connections)
        left["lone conversations"] = len(ingress.endpoint._sessionless)
    for slug, server in gateway.servers.items():
        left[f"connections of {slug} beside the shared one"] = len(server.supervisors) - 1
        left[f"connections of {slug} that are leaving"] = len(server._pool._closing)
    for what, count in left.items():
        if count > 0:
            world.fault(f"{count} {what} are left when everybody has gone")


def check_stopped(world: Environment) -> None:
    """When the gateway has stopped: nothing runs, and nothing is open."""
    tasks = asyncio.all_tasks(world.loop)
    for task in tasks:
        world.fault(f"a task is left: {task.get_name()} {task.get_coro()}")
    for keeper in world.keepers:
        if keeper.process is not None and keeper.process.alive:
            world.fault(f"the process {keeper.name} outlives the gateway")
        for end in (keeper.control, keeper.stdin, keeper.stdout, keeper.stderr):
            if end.fd in world.fds:
                world.fault(f"a descriptor of {keeper.name} is left open")
                break
    for socket in world.sockets:
        ours = type(socket.protocol).__module__.startswith("anyport.")
        if ours and not socket.lost:
            world.fault(f"a connection is left open: {type(socket.protocol).__name__}")


def check_journal(world: Environment, state_dir: Path, clients: Iterable[Client]) -> None:
    """Every call has exactly one ending in the journal, and the journal is whole."""
    report = verify(state_dir, ExternalEvidence(), now=lambda: 0.0)
    for fault in report.faults:
        world.fault(f"the journal does not verify: {fault}")
    began, endings, traces = _calls_in(state_dir)
    for key, count in endings.items():
        if count > 1:
            world.fault(f"the journal has {count} endings of {key}")
    for key in began - endings.keys():
        world.fault(f"the journal has a beginning of {key}, and no ending")
    for client in clients:
        for ask in client.asks.values():
            if ask.trace and ask.answers and not (ask.turned_away or ask.trace in traces):
                world.fault(f"the journal has no ending of {ask.nonce}, which was answered")


Key = tuple[str, str]
"""The trace and the span of a call."""


def _calls_in(state_dir: Path) -> tuple[set[Key], Counter[Key], set[str]]:
    """Which calls began, how often each has ended, and in which traces."""
    began: set[Key] = set()
    endings: Counter[Key] = Counter()
    for file in sorted((state_dir / "events").rglob("*.jsonl")):
        for line in file.read_bytes().splitlines():
            event = msgspec.json.decode(line)
            if event["event_type"] != "gateway.tool_call":
                continue
            key = (event["trace_id"], event["metadata"].get("span_id", ""))
            if event["status"] == "pending":
                began.add(key)
            else:
                endings[key] += 1
    return began, endings, {trace for trace, _ in endings}
