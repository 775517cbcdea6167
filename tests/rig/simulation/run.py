"""One schedule, as it runs: a real gateway in a simulated world, from its start to its end."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from anyport.config.model import Config, ProfileConfig, ServerConfig, Token
from anyport.gateway.gateway import Gateway
from anyport.gateway.http_app import make_http_ingress, start_servers
from anyport.gateway.reload import ReloadRefused
from anyport.ingress.http.server import HttpIngress
from anyport.ingress.stdio import StdioIngress
from tests.rig.simulation.clients import Client, Persona
from tests.rig.simulation.environment import Environment
from tests.rig.simulation.http_clients import PORT, ModernClient, SessionClient
from tests.rig.simulation.http_server import SimHttpServer
from tests.rig.simulation.invariants import (
    check_clients_done,
    check_journal,
    check_nothing_kept,
    check_stopped,
)
from tests.rig.simulation.scenario import TO_SERVERS, Scenario, Step
from tests.rig.simulation.servers import SimServer, Traits
from tests.rig.simulation.stdio_client import PipeClient
from tests.rig.simulation.stdio_server import StdioProgram

LAME_DUCK_SECONDS: Final = 5.0
DRAIN_SECONDS: Final = 30.0
SETTLE_SECONDS_MAX: Final = 2500.0
"""By then every call is over: its own time, the time of those who were asked, and the server's."""
AFTERMATH_SECONDS: Final = 0.1
"""What the gateway has let go of is gone by then."""
OBLIVION_SECONDS: Final = 4000.0
"""By then everything has been forgotten of clients that are gone: twice half an hour, and more."""


Steps = list[tuple[int, Step]]
"""Each with its number in the script."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What became of a schedule."""

    seed: int
    faults: list[str]
    digest: str
    notes: list[tuple[float, str, str, str]] = field(repr=False)
    seconds: float
    """Simulated."""


class WatchedGateway(Gateway):
    """A gateway that must not have to report any mistake of its own."""

    def __init__(self, config: Config, state_dir: Path, world: Environment, *, sole: bool) -> None:
        self._sim = world
        super().__init__(config, state_dir, sole=sole)

    def _tell_operator(self, words: str) -> None:
        self._sim.note("gateway", "says", words.replace(str(self.events.state_dir), "…"))

    def report_error(self, error: BaseException) -> None:
        """It has."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})"
        self._sim.fault(f"reported: {type(error).__name__}: {str(error)[:300]}{place}")


class SimulationRun:
    """One run of a script; some of its steps may be left out."""

    def __init__(self, script: Scenario, state_dir: Path, without: frozenset[int]) -> None:
        self.script = script
        self.world = Environment(str(script.seed), script.weather)
        self.servers: dict[str, SimServer] = {}
        self.webs: dict[str, SimHttpServer] = {}
        self.clients: list[Client] = []
        self._steps = [
            (number, step) for number, step in enumerate(script.steps) if number not in without
        ]
        self._state_dir = state_dir
        self._configs = {config.slug: config for config, _ in script.servers}
        self._ingress: HttpIngress | None = None
        for config, traits in (*script.servers, script.spare):
            self._found(config, traits)

    def _found(self, config: ServerConfig, traits: Traits) -> None:
        server = self.servers[config.slug] = SimServer(self.world, config.slug, traits)
        if config.url is None:
            self.world.programs[config.slug] = _starter(server)
        else:
            host, _, port = config.url.removeprefix("http://").removesuffix("/mcp").partition(":")
            web = self.webs[config.slug] = SimHttpServer(server)
            self.world.hosts[host, int(port)] = web.answer_call

    def run(self) -> Outcome:
        """From the beginning to the end."""
        world = self.world
        with world.inside():
            asyncio.set_event_loop(world.loop)
            try:
                world.loop.run_until_complete(self._play())
                check_stopped(world)
            except Exception as error:  # noqa: BLE001 - whatever ends it is a fault of the schedule
                world.fault(f"{type(error).__name__}: {error}")
                world.note_tasks()
            finally:
                _wind_up(world)
                asyncio.set_event_loop(None)
        check_journal(world, self._state_dir, self.clients)
        return Outcome(
            seed=self.script.seed,
            faults=world.faults,
            digest=world.digest(),
            notes=world.notes,
            seconds=world.now,
        )

    def _config(self) -> Config:
        names = sorted({persona.principal for persona in self.script.clients})
        tokens = () if self.script.sole else tuple(_token(name) for name in names)
        profile = ProfileConfig(slug="default", servers=tuple(self._configs))
        return Config(
            gateway=replace(self.script.gateway, tokens=tokens),
            servers=MappingProxyType(dict(self._configs)),
            profiles=MappingProxyType({"default": profile}),
        )

    async def _play(self) -> None:
        for number, persona in enumerate(self.script.clients, 1):
            client = self._client_of(persona)(self.world, number, persona)
            client.patient = self.script.calm
            client.configs = self._configs
            client.idle_seconds = self.script.gateway.session_idle_seconds
            self.clients.append(client)
        # A client that has started its gateway itself cannot start it anew.
        lives = (self._steps,) if self.script.sole else _lives(self._steps)
        for steps in lives:
            await self._live(steps, last=steps is lives[-1])
        await asyncio.sleep(AFTERMATH_SECONDS)

    def _client_of(self, persona: Persona) -> type[PipeClient | ModernClient | SessionClient]:
        if self.script.sole:
            return PipeClient
        return ModernClient if persona.modern else SessionClient

    async def _live(self, steps: Steps, *, last: bool) -> None:
        """One life of the gateway."""
        gateway = WatchedGateway(self._config(), self._state_dir, self.world, sole=self.script.sole)
        async with gateway:
            self._gateway = gateway
            gateway.reload.source = self._read_config
            if self.script.sole:
                await self._on_pipes(gateway, steps)
            else:
                await self._over_http(gateway, steps, last=last)

    async def _on_pipes(self, gateway: Gateway, steps: Steps) -> None:
        client = self.clients[0]
        assert isinstance(client, PipeClient)
        ingress = StdioIngress(
            gateway,
            profile="default",
            before_write=gateway.journal.flush,
            stdin=client.stdin.fd,
            stdout=client.stdout.fd,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._to_the_end(steps, client.leave))
            await ingress.run()

    async def _over_http(self, gateway: Gateway, steps: Steps, *, last: bool) -> None:
        self._ingress = ingress = make_http_ingress(gateway, "127.0.0.1")
        await ingress.listen("127.0.0.1", PORT)
        start_servers(gateway)
        if last:
            await self._to_the_end(steps, self._all_leave)
        else:
            await self._go_through(steps)
            self.world.recover()
            if self.script.calm:
                await self._settle()
        gateway.draining = True
        await ingress.drain(LAME_DUCK_SECONDS, DRAIN_SECONDS)
        await ingress.close()

    def _all_leave(self) -> None:
        for client in self.clients:
            client.vanish() if client.number % 2 else client.leave()

    async def _go_through(self, steps: Steps) -> None:
        for number, step in steps:
            await asyncio.sleep(step.pause)
            self.world.note("step", str(number), step)
            await self._take(step)

    async def _to_the_end(self, steps: Steps, leave: Callable[[], None]) -> None:
        """Every step; then, if there is time, wait until everything has been forgotten."""
        await self._go_through(steps)
        if not self.script.abrupt:
            await self._settle()
            check_clients_done(self.world, self.clients)
        self.world.recover()
        leave()
        if self.script.long and not self.script.abrupt:
            await asyncio.sleep(OBLIVION_SECONDS)
            check_nothing_kept(self.world, self._gateway, self._ingress)

    async def _settle(self) -> None:
        """Until everybody has an answer; whoever was stopped goes on."""
        for server in self.servers.values():
            for process in list(server.processes):
                process.thaw()
        for web in self.webs.values():
            web.thaw()
        self.world.recover()
        until = self.world.now + SETTLE_SECONDS_MAX
        while self.world.now < until and any(client.busy for client in self.clients):
            await asyncio.sleep(1.0)

    async def _take(self, step: Step) -> None:
        if step.what in TO_SERVERS:
            self._strike(step)
        elif step.what == "leap":
            await asyncio.sleep(step.more["seconds"])
        elif step.what == "reload":
            await self._reload(step.more["how"])
        elif step.what == "short":
            self.world.short_of_memory = True
            self.world.loop.call_later(step.more["seconds"], self.world.recover)
        elif step.what == "disk":
            self.world.disk_full = step.more["how"] == "full"
            self.world.disk_seconds = 0.3
            self.world.loop.call_later(step.more["seconds"], self.world.recover)
        elif step.what == "steal":
            self._steal(self.clients[step.whom])
        else:
            self._have_done(self.clients[step.whom], step)

    def _strike(self, step: Step) -> None:
        """Something happens to a server."""
        server = self.servers[f"s{step.whom}"]
        if step.what == "grow":
            server.grow()
        web = self.webs.get(server.slug)
        if web is not None:
            match step.what:
                case "crash":
                    web.crash(step.more["seconds"])
                case "freeze":
                    web.freeze(step.more["seconds"])
                case "cut":
                    web.cut()
                case "forget":
                    web.forget()
            return
        for process in list(server.processes):
            if step.what == "crash":
                process.exit(3)
            elif step.what == "freeze":
                process.frozen = True
                self.world.loop.call_later(step.more["seconds"], process.thaw)

    def _have_done(self, client: Client, step: Step) -> None:
        """A client does something."""
        match step.what:
            case "call":
                surely = self.script.calm
                client.call(**step.more, surely=surely)
            case "list":
                client.list_tools()
            case "status":
                client.gateway_status()
            case "listen":
                client.listen()
            case "cancel":
                client.cancel()
            case "drop":
                client.drop()
            case "resume":
                client.resume()
            case "leave" if not self.script.sole:
                client.leave()
            case "vanish" if not self.script.sole:
                client.vanish()

    def _steal(self, thief: Client) -> None:
        """A client tries what it has seen of one that is somebody else."""
        for victim in self.clients:
            if victim.principal != thief.principal:
                thief.steal(victim)

    async def _reload(self, how: str) -> None:
        """The configuration has changed."""
        config, _ = self.script.spare
        before = dict(self._configs)
        match how:
            case "spare" if config.slug in self._configs:
                del self._configs[config.slug]
            case "spare":
                self._configs[config.slug] = config
            case "less":
                for slug in list(self._configs)[1:]:
                    del self._configs[slug]
            case "other":
                slug, first = next(iter(self._configs.items()))
                self._configs[slug] = replace(first, timeout_seconds=first.timeout_seconds + 1)
            case _:
                self._configs["bad"] = config
        try:
            await self._gateway.reload.run()
        except ReloadRefused as error:
            self.world.note("reload", "refused", error)
            self._configs.clear()
            self._configs.update(before)

    def _read_config(self, before: Config) -> Config:
        if "bad" in self._configs:
            raise ReloadRefused("this file is no good")
        return self._config()


def _lives(steps: Steps) -> tuple[Steps, ...]:
    """The steps of one life of the gateway, and of the next."""
    lives: list[Steps] = [[]]
    for number, step in steps:
        lives[-1].append((number, step))
        if step.what == "restart":
            lives.append([])
    return tuple(lives)


def _starter(server: SimServer) -> Callable[[], StdioProgram | None]:
    def start() -> StdioProgram | None:
        missing = server.chance.random() < server.traits.missing_share
        return None if missing else StdioProgram(server)

    return start


def _token(name: str) -> Token:
    return Token(name=name, digest=hashlib.sha256(f"token-{name}".encode()).digest())


def _wind_up(world: Environment) -> None:
    for task in asyncio.all_tasks(world.loop):
        task.cancel()
    world.loop.run_down()
    world.loop.close()
