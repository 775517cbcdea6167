"""`anyport replay`: what was said before, said again, and the answers compared."""

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from anyport.cli import places
from anyport.cli.arguments import BadArgument
from anyport.cli.ending import FAILED, GOOD, WrongUsage
from anyport.cli.loop import run
from anyport.cli.options import Given
from anyport.cli.render import out_json
from anyport.cli.replaying.case import Opening, Part, case_of_fixture, opening_of
from anyport.cli.replaying.caution import ask_leave, doubts
from anyport.cli.replaying.direct import direct
from anyport.cli.replaying.parts import parts_of
from anyport.cli.replaying.playing import (
    WITH_ARGUMENTS,
    Outcome,
    Terms,
    Verdict,
    play,
    unplayed,
    will_be_sent,
)
from anyport.cli.replaying.recording import CLIENT, SERVER
from anyport.cli.replaying.selection import Selection, select
from anyport.cli.replaying.shown import document, show
from anyport.cli.replaying.stand import Stand, tools_of
from anyport.cli.replaying.within import talk, within
from anyport.cli.setup import Setup, announced_config, read_config
from anyport.cli.target import read_target
from anyport.config.faults import suggestion
from anyport.config.schema import Config, ServerConfig
from anyport.record.redact import Redactor

GOOD_VERDICTS: Final = frozenset({Verdict.SAME, Verdict.ANSWERED, Verdict.SENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be replayed, and how."""

    words: tuple[str, ...]
    server: str | None = None
    edits: tuple[str, ...] = ()
    document: str | None = None
    strict: bool = False
    yes: bool = False


def replay(given: Given, wish: Wish) -> int:
    """Send again what is asked for, and say how the answers compare; the exit code."""
    named = [option for option in (wish.server, given.profile, given.url) if option is not None]
    if len(named) > 1:
        raise WrongUsage("name one of --server, --profile and --url: it is sent to one of them")
    selection = select(given, wish.words)
    config = _config(given)
    secrets = {secret for server in config.servers.values() for secret in server.secrets}
    redact = Redactor(secrets, config.record.redact_keys)
    try:
        outcomes = run(_Replay(given, wish, config, selection, redact).outcomes())
    except BadArgument as error:
        raise WrongUsage(str(error)) from None
    if given.json:
        out_json(document(outcomes, redact))
    else:
        show(outcomes, redact)
    played = [outcome for outcome in outcomes if outcome.verdict is not Verdict.SKIPPED]
    good = all(outcome.verdict in GOOD_VERDICTS for outcome in played)
    return GOOD if played and good else FAILED


def _config(given: Given) -> Config:
    if given.url is None:
        return announced_config(given)
    return read_config(given, os.environ, Path.cwd())


class _Replay:
    """One run of the command."""

    def __init__(
        self, given: Given, wish: Wish, config: Config, selection: Selection, redact: Redactor
    ) -> None:
        self._given = given
        self._wish = wish
        self._config = config
        self._selection = selection
        self._redact = redact
        self._terms = Terms(
            edits=wish.edits, document=wish.document, strict=wish.strict, redact=redact.payload
        )
        self._outcomes: list[Outcome] = []

    async def outcomes(self) -> list[Outcome]:
        """Play everything where it belongs."""
        if self._given.url is not None:
            await self._play_at_url()
        elif self._given.profile is not None:
            await self._play_within(self._parts(CLIENT))
        elif self._wish.server is not None:
            await self._play_directly(self._parts(SERVER))
        elif self._selection.fixtures:
            await self._play_within(self._parts(CLIENT))
        else:
            await self._play_directly(self._parts(SERVER))
        return self._outcomes

    async def _play_at_url(self) -> None:
        target = read_target(replace(self._given, config=(), state_dir=None), os.environ)
        token = {} if target.token is None else {"Authorization": f"Bearer {target.token}"}
        server = ServerConfig(slug="url", name="url", url=str(target), headers=token)
        side = CLIENT
        if not self._selection.fixtures:
            async with direct(server, Opening(), self._redact) as stand:
                side = CLIENT if stand.is_gateway else SERVER
        for part in self._parts(side):
            await self._play(part, direct(server, part.opening, self._redact))

    async def _play_within(self, parts: list[Part]) -> None:
        setup = Setup(
            config=self._config,
            profile=self._config.profile(self._given.profile).slug,
            state_dir=places.state_dir(self._given.state_dir, os.environ),
        )
        async with within(setup) as gateway:
            for part in parts:
                await self._play(part, talk(gateway, setup.profile, part.opening))

    async def _play_directly(self, parts: list[Part]) -> None:
        for part in parts:
            slug = self._wish.server or part.server
            server = self._config.servers.get(slug)
            if server is None:
                hint = suggestion(slug, tuple(self._config.servers))
                raise WrongUsage(f"there is no server '{slug}' in the configuration: {hint}")
            await self._play(part, direct(server, part.opening, self._redact))

    async def _play(self, part: Part, opened: AbstractAsyncContextManager[Stand]) -> None:
        async with opened as stand:
            calls = any(case.method == "tools/call" for case in part.cases)
            tools = await tools_of(stand) if calls else {}
            if not self._wish.yes:
                sent = [case for case in part.cases if will_be_sent(case, tools, self._terms)]
                await ask_leave(doubts(sent, tools), by_own_names=not stand.is_gateway)
            self._outcomes += await play(part.cases, stand, tools, self._terms)

    def _parts(self, side: str) -> list[Part]:
        """The conversations that there are to hold."""
        cases = [case_of_fixture(fixture) for fixture in self._selection.fixtures]
        if cases:
            parts = [Part(opening=opening_of(cases), cases=cases)]
        else:
            parts, unplayable = parts_of(self._selection, side)
            self._outcomes += map(unplayed, unplayable)
        if self._terms.edited and not any(
            case.method in WITH_ARGUMENTS for part in parts for case in part.cases
        ):
            raise WrongUsage("--set and --args are for calls of tools and prompts: there is none")
        return parts
