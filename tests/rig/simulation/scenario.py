"""What is drawn from a seed before a simulation begins: the world, who lives in it, and the steps.

Everything is drawn at once, so that a schedule can be read before it is run, and a step left out
of it without changing the others.
"""

import random
from dataclasses import dataclass
from typing import Any, Final, get_args

from anyport.config.model import GatewayConfig, ServerConfig
from tests.rig.simulation.call_plan import ELICIT, ROOTS, SAMPLE, Ending, Manner, Plan
from tests.rig.simulation.clients import ALL, Persona
from tests.rig.simulation.network import NetworkConditions
from tests.rig.simulation.servers import Traits

LEGACY: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

OBLIVION_SHARE: Final = 0.08
"""Of the schedules, those that run on until everything is forgotten: that has many seconds."""
ABRUPT_SHARE: Final = 0.3
"""Of the schedules, those that end while calls are open."""
SOLE_SHARE: Final = 0.2
CALM_SHARE: Final = 0.25

STEPS: Final = (
    *("call",) * 14,
    *("cancel", "cancel", "list", "status", "grow", "listen"),
    *("drop", "drop", "resume", "leave", "vanish", "steal"),
    *("crash", "crash", "freeze", "cut", "forget"),
    *("leap", "reload", "short", "disk", "restart"),
)
CALM_STEPS: Final = (
    *("call",) * 12,
    *("list", "status", "grow", "cancel", "listen", "steal", "leap", "reload", "restart"),
)
TO_SERVERS: Final = frozenset({"crash", "freeze", "cut", "forget", "grow"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens."""

    pause: float
    """Seconds before it does."""
    what: str
    whom: int = 0
    """Which client, or which server."""
    more: dict[str, Any]

    def __str__(self) -> str:
        more = ", ".join(f"{key}={value}" for key, value in self.more.items())
        return f"{self.what} {self.whom} {more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that is drawn from a seed."""

    seed: int
    sole: bool
    """One client on pipes, in place of some over HTTP."""
    calm: bool
    """Nothing goes wrong, so every call must succeed."""
    weather: NetworkConditions
    gateway: GatewayConfig
    servers: tuple[tuple[ServerConfig, Traits], ...]
    spare: tuple[ServerConfig, Traits]
    """A server that is not there at first; a reload may bring it."""
    clients: tuple[Persona, ...]
    steps: tuple[Step, ...]
    abrupt: bool
    """The gateway is stopped while calls are open."""
    long: bool
    """It runs on until everything has been forgotten."""


def draw(seed: int) -> Scenario:
    """The schedule of a seed."""
    chance = random.Random(seed)
    sole = chance.random() < SOLE_SHARE
    calm = chance.random() < CALM_SHARE
    count = chance.choice((1, 1, 2, 2, 3, 4))
    servers = tuple(_server(chance, f"s{number}", calm=calm) for number in range(count))
    clients = tuple(
        _persona(chance) for _ in range(1 if sole else chance.choice((1, 2, 2, 3, 4, 5)))
    )
    many = chance.randint(4, 24)
    return Scenario(
        seed=seed,
        sole=sole,
        calm=calm,
        weather=NetworkConditions() if calm else _weather(chance),
        gateway=_gateway(chance, calm=calm),
        servers=servers,
        spare=_server(chance, "spare", calm=calm),
        clients=clients,
        steps=tuple(_step(chance, len(clients), count, calm=calm) for _ in range(many)),
        abrupt=chance.random() < ABRUPT_SHARE,
        long=not sole and chance.random() < OBLIVION_SHARE,
    )


def _weather(chance: random.Random) -> NetworkConditions:
    return NetworkConditions(
        latency_seconds=chance.choice((0.0005, 0.005, 0.05)),
        cut_share=chance.choice((0.0, 0.1, 0.5)),
        stall_share=chance.choice((0.0, 0.0, 0.05)),
        stall_seconds=chance.choice((0.5, 3.0)),
    )


def _gateway(chance: random.Random, *, calm: bool) -> GatewayConfig:
    tight = not calm and chance.random() < 0.2
    return GatewayConfig(
        list_seconds=chance.choice((0.5, 2.0)),
        session_idle_seconds=chance.choice((60.0, 1800.0)),
        calls_max=chance.choice((2, 6)) if tight else 4096,
        client_calls_max=chance.choice((1, 3)) if tight else 1024,
    )


def _server(chance: random.Random, slug: str, *, calm: bool) -> tuple[ServerConfig, Traits]:
    url = f"http://10.0.0.{chance.randrange(1, 200)}:{9000 + len(slug)}/mcp"
    web = chance.random() < 0.35
    tight = not calm and chance.random() < 0.25
    config = ServerConfig(
        slug=slug,
        name=slug,
        command=None if web else "sim",
        args=() if web else (slug,),
        url=url if web else None,
        cwd="/",
        timeout_seconds=20.0 if calm else chance.choice((5.0, 20.0, 60.0)),
        timeout_seconds_max=600.0 if calm else chance.choice((15.0, 600.0)),
        calls_max=chance.choice((1, 2)) if tight else 128,
        queue_max=chance.choice((0, 1, 4)) if tight else 1024,
        queue_seconds=chance.choice((1.0, 30.0)) if tight else 30.0,
        start=chance.choice(("eager", "eager", "first-use")),
        idle_seconds=chance.choice((0.0, 0.0, 5.0, 60.0)),
        breaker=chance.random() < 0.7,
        scope=chance.choice(("auto", "auto", "auto", "shared", "principal", "session", "call")),
    )
    traits = Traits(
        era=chance.choice(("legacy", "legacy", "modern")),
        revision=chance.choice(LEGACY),
        probe="refuses" if calm else chance.choice(("refuses", "refuses", "dies", "is silent")),
        start_seconds=0.0 if calm else chance.choice((0.0, 0.0, 0.5, 4.0, 30.0)),
        leaves=chance.choice(("at once", "at once", "late", "never")),
        missing_share=0.0 if calm else chance.choice((0.0, 0.0, 0.3)),
        rude=not calm and chance.random() < 0.2,
        wants_roots=chance.random() < 0.3,
    )
    return config, traits


def _persona(chance: random.Random) -> Persona:
    modern, revision = chance.random() < 0.4, chance.choice(LEGACY)
    able: dict[str, Any] = dict(ALL) if chance.random() < 0.6 else {}
    if not modern and revision < "2025-06-18":
        able.pop("elicitation", None)
    return Persona(
        modern=modern,
        revision=revision,
        capabilities=able,
        principal=chance.choice(("ann", "bob")),
    )


def _step(chance: random.Random, clients: int, servers: int, *, calm: bool) -> Step:
    what = chance.choice(CALM_STEPS if calm else STEPS)
    pause = chance.choice((0.0, 0.0, 0.01, 0.3, 2.0)) * chance.random()
    whom = chance.randrange(servers if what in TO_SERVERS else clients)
    more: dict[str, Any] = {}
    match what:
        case "call":
            more = _call(chance, servers, calm=calm)
        case "crash" | "freeze":
            more = {"seconds": chance.choice((0.5, 10.0, 100.0))}
        case "leap":
            more = {"seconds": chance.choice((10.0, 80.0, 700.0, 2000.0))}
        case "disk":
            more = {"how": chance.choice(("slow", "full")), "seconds": chance.choice((0.5, 5.0))}
        case "short":
            more = {"seconds": chance.choice((0.5, 5.0))}
        case "reload":
            more = {
                "how": chance.choice(
                    ("spare",) if calm else ("spare", "spare", "less", "other", "bad")
                )
            }
        case _:
            pass
    return Step(pause=pause, what=what, whom=whom, more=more)


def _call(chance: random.Random, servers: int, *, calm: bool) -> dict[str, Any]:
    server = f"s{chance.randrange(servers)}"
    traced = chance.random() < 0.4
    manner = "accept" if calm else chance.choice(get_args(Manner))
    if chance.random() < 0.4:
        return {"server": server, "plan": Plan(), "manner": manner, "traced": traced}
    asks = chance.choice((0, 0, 1, 1, 2))
    plan = Plan(
        delay=chance.choice((0.0, 0.01, 0.5, 3.0) if calm else (0.0, 0.01, 0.5, 3.0, 30.0)),
        reports=chance.choice((0, 0, 1, 3)),
        pause=chance.choice((0.001, 0.2, 2.0)),
        asks=tuple(chance.choice((ELICIT, SAMPLE, ROOTS)) for _ in range(asks)),
        ending="result" if calm else chance.choice(get_args(Ending)),
    )
    return {"server": server, "plan": plan, "manner": manner, "traced": traced}
