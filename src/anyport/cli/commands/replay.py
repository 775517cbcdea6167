"""`anyport replay`: sends recorded requests again and compares the answers."""

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from anyport.cli import dirs
from anyport.cli.arguments import BadArgument
from anyport.cli.connect.http import read_target
from anyport.cli.exit_codes import FAILED, SUCCESS, WrongUsage, run_async
from anyport.cli.options import SharedOptions
from anyport.cli.output import out_json
from anyport.cli.replay.cases import (
    CLIENT,
    SERVER,
    ClientOpening,
    ReplayConversation,
    case_of_fixture,
    opening_of,
)
from anyport.cli.replay.report import document, show
from anyport.cli.replay.runner import (
    METHODS_WITH_ARGUMENTS,
    CaseOutcome,
    ReplaySettings,
    ReplayVerdict,
    run_cases,
    skip_unplayable,
    will_be_sent,
)
from anyport.cli.replay.safety import ask_permission, find_unsafe_calls
from anyport.cli.replay.selection import ReplaySelection, conversations_of, select
from anyport.cli.replay.targets import (
    ReplayTarget,
    list_target_tools,
    open_gateway_target,
    open_server_target,
    start_replay_gateway,
)
from anyport.cli.setup import Setup, announced_config, read_config
from anyport.config.faults import suggest
from anyport.config.model import Config, ServerConfig
from anyport.record.redact.redactor import Redactor

SUCCESS_VERDICTS: Final = frozenset(
    {ReplayVerdict.SAME, ReplayVerdict.ANSWERED, ReplayVerdict.SENT}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """The options of `anyport replay`."""

    words: tuple[str, ...]
    server: str | None = None
    edits: tuple[str, ...] = ()
    document: str | None = None
    strict: bool = False
    yes: bool = False


def replay(options: SharedOptions, replay_options: ReplayOptions) -> int:
    """Send recorded requests again and print how the answers compare; the exit code."""
    named = [
        option
        for option in (replay_options.server, options.profile, options.url)
        if option is not None
    ]
    if len(named) > 1:
        raise WrongUsage("use only one of --server, --profile and --url")
    selection = select(options, replay_options.words)
    config = _config(options)
    secrets = {secret for server in config.servers.values() for secret in server.secrets}
    redact = Redactor(secrets, config.record.redact_keys)
    try:
        outcomes = run_async(_Replay(options, replay_options, config, selection, redact).run_all())
    except BadArgument as error:
        raise WrongUsage(str(error)) from None
    if options.json:
        out_json(document(outcomes, redact))
    else:
        show(outcomes, redact)
    sent = [outcome for outcome in outcomes if outcome.verdict is not ReplayVerdict.SKIPPED]
    good = all(outcome.verdict in SUCCESS_VERDICTS for outcome in sent)
    return SUCCESS if sent and good else FAILED


def _config(options: SharedOptions) -> Config:
    if options.url is None:
        return announced_config(options)
    return read_config(options, os.environ, Path.cwd())


class _Replay:
    """One run of the command: chooses targets and runs the cases there."""

    def __init__(
        self,
        options: SharedOptions,
        replay_options: ReplayOptions,
        config: Config,
        selection: ReplaySelection,
        redact: Redactor,
    ) -> None:
        self._options = options
        self._replay_options = replay_options
        self._config = config
        self._selection = selection
        self._redact = redact
        self._settings = ReplaySettings(
            edits=replay_options.edits,
            document=replay_options.document,
            strict=replay_options.strict,
            redact=redact.redact_payload,
        )
        self._outcomes: list[CaseOutcome] = []

    async def run_all(self) -> list[CaseOutcome]:
        """Run each conversation at its target."""
        if self._options.url is not None:
            await self._run_at_url()
        elif self._options.profile is not None:
            await self._run_in_gateway(self._conversations(CLIENT))
        elif self._replay_options.server is not None:
            await self._run_directly(self._conversations(SERVER))
        elif self._selection.fixtures:
            await self._run_in_gateway(self._conversations(CLIENT))
        else:
            await self._run_directly(self._conversations(SERVER))
        return self._outcomes

    async def _run_at_url(self) -> None:
        target = read_target(replace(self._options, config=(), state_dir=None), os.environ)
        token = {} if target.token is None else {"Authorization": f"Bearer {target.token}"}
        server = ServerConfig(slug="url", name="url", url=str(target), headers=token)
        side = CLIENT
        if not self._selection.fixtures:
            async with open_server_target(server, ClientOpening(), self._redact) as replay_target:
                side = CLIENT if replay_target.is_gateway else SERVER
        for conversation in self._conversations(side):
            await self._run(
                conversation, open_server_target(server, conversation.opening, self._redact)
            )

    async def _run_in_gateway(self, conversations: list[ReplayConversation]) -> None:
        setup = Setup(
            config=self._config,
            profile=self._config.profile(self._options.profile).slug,
            state_dir=dirs.state_dir(self._options.state_dir, os.environ),
        )
        async with start_replay_gateway(setup) as gateway:
            for conversation in conversations:
                await self._run(
                    conversation, open_gateway_target(gateway, setup.profile, conversation.opening)
                )

    async def _run_directly(self, conversations: list[ReplayConversation]) -> None:
        for conversation in conversations:
            slug = self._replay_options.server or conversation.server
            server = self._config.servers.get(slug)
            if server is None:
                hint = suggest(slug, tuple(self._config.servers))
                raise WrongUsage(f"there is no server '{slug}' in the configuration: {hint}")
            await self._run(
                conversation, open_server_target(server, conversation.opening, self._redact)
            )

    async def _run(
        self, conversation: ReplayConversation, opening: AbstractAsyncContextManager[ReplayTarget]
    ) -> None:
        async with opening as replay_target:
            calls = any(case.method == "tools/call" for case in conversation.cases)
            tools = await list_target_tools(replay_target) if calls else {}
            if not self._replay_options.yes:
                sent = [
                    case for case in conversation.cases if will_be_sent(case, tools, self._settings)
                ]
                await ask_permission(
                    find_unsafe_calls(sent, tools), uses_native_names=not replay_target.is_gateway
                )
            self._outcomes += await run_cases(
                conversation.cases, replay_target, tools, self._settings
            )

    def _conversations(self, side: str) -> list[ReplayConversation]:
        """The conversations to replay; what cannot be replayed is an outcome already."""
        cases = [case_of_fixture(fixture) for fixture in self._selection.fixtures]
        if cases:
            conversations = [ReplayConversation(opening=opening_of(cases), cases=cases)]
        else:
            conversations, unplayable = conversations_of(self._selection, side)
            self._outcomes += map(skip_unplayable, unplayable)
        if self._settings.edited and not any(
            case.method in METHODS_WITH_ARGUMENTS for part in conversations for case in part.cases
        ):
            raise WrongUsage(
                "--set and --args change calls of tools and prompts, and none is selected"
            )
        return conversations
