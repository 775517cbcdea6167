"""Explains why a tool, prompt, resource or server is visible in a profile, or is not.

An offer is visible if every step holds: its server is configured, enabled, in the profile, started;
the offer is listed, allowed by the rules, and named. The first step that fails is the reason. This
reads the running gateway, and neither changes nor starts anything.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

import msgspec

from anyport.catalog.catalog import CatalogEntry
from anyport.catalog.names import NAME_MAX, Naming
from anyport.gateway.profile import Profile
from anyport.gateway.status import status_reason
from anyport.policy.tool_rules import ToolRules
from anyport.protocol.methods import OfferKind
from anyport.upstream.server import Server
from anyport.upstream.supervisor import ServerState

SIMILAR_NAMES_MAX: Final = 3
"""Similar names per name asked for; several servers may share one."""
SUGGESTIONS_MAX: Final = 8
NAME_CHARS_MAX: Final = 2048
"""Length of a name asked for; listed URIs are shorter."""

KIND_WORDS: Final[Mapping[OfferKind, str]] = {
    OfferKind.TOOLS: "tool",
    OfferKind.PROMPTS: "prompt",
    OfferKind.RESOURCES: "resource",
    OfferKind.TEMPLATES: "resource template",
    OfferKind.SKILLS: "skill",
}

NAME_PENDING: Final = "its name is not settled until the servers before it have listed their offers"

Stage: TypeAlias = Literal["configured", "enabled", "profile", "started", "listed", "rules", "name"]


class Step(msgspec.Struct, frozen=True):
    """One condition of being visible, and whether it holds."""

    stage: Stage
    good: bool
    words: str


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """How far one thing with this name gets, step by step."""

    kind: str
    """`tool`, `prompt`, `resource`, `resource template`, `skill` or `server`."""
    server: str | None
    """None for the gateway's own tools, and where no server claims the name."""
    native: str | None
    public: str | None
    """Its name in the profile, if it is visible."""
    there: bool
    steps: tuple[Step, ...]


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why a name is visible in a profile, or is not."""

    name: str
    profile: str
    there: bool
    stories: tuple[Story, ...]
    trouble: str | None = None
    """Why calls fail although the name is visible: the server is down."""
    suggestions: tuple[str, ...] = ()
    """Similar names."""


def explain_name(
    name: str, profile: Profile, servers: Mapping[str, Server], *, paths: bool = False
) -> Why:
    """Explain a name: a public or native name, a URI, `server/tool`, or a server.

    `paths` shows full paths of configuration files, which are not for other machines.
    """
    explainer = _Explainer(name[:NAME_CHARS_MAX], profile, servers, paths=paths)
    stories = tuple(explainer.stories())
    there = any(story.there for story in stories)
    return Why(
        name=explainer.name,
        profile=profile.slug,
        there=there,
        stories=stories,
        trouble=explainer.trouble(stories),
        suggestions=explainer.suggestions(stories),
    )


class _Explainer:
    def __init__(
        self, name: str, profile: Profile, servers: Mapping[str, Server], *, paths: bool
    ) -> None:
        self.name = name
        self._paths = paths
        self._profile = profile
        self._servers = servers
        self._naming = profile.catalog.view.naming
        self._rules = ToolRules(allow=profile.config.allow, deny=profile.config.deny)

    def stories(self) -> Iterator[Story]:
        """One for each thing that the name may mean: what is visible first, then what is not."""
        server = self._find_server(self.name)
        if server is not None:
            yield self._explain_server(server)
            return
        stories = [self._explain_entry(kind, entry) for kind, entry in self._public_entries()]
        owner = None if stories else self._profile.catalog.owner_of_uri(self.name)
        if owner is not None:
            stories = [self._explain_uri(*owner)]
        if not stories:
            meant = dict.fromkeys(self._listed_offers() or self._guess_from_prefix())
            stories = [self._explain_offer(*subject) for subject in meant]
        yield from stories or [self._explain_unknown()]

    def trouble(self, stories: tuple[Story, ...]) -> str | None:
        """Why all calls by this name fail, if they do."""
        servers = [story.server for story in stories if story.there]
        reasons = [
            None if slug is None else self._down_reason(self._servers[slug]) for slug in servers
        ]
        return None if None in reasons else next(iter(reasons), None)

    def suggestions(self, stories: tuple[Story, ...]) -> tuple[str, ...]:
        """Similar visible names; only of the server that the name points to, if it does."""
        if any(_has_exact_match(story) for story in stories):
            return ()
        slugs = {story.server for story in stories if story.server is not None}
        known = defaultdict(list, {} if slugs else {slug: [slug] for slug in self._servers})
        for kind in OfferKind:
            for entry in self._profile.catalog.entries(kind):
                if not slugs or entry.slug in slugs:
                    for name in {entry.native, entry.public}:
                        known[name].append(entry.public)
        asked = {story.native for story in stories if story.native is not None} or {self.name}
        close = [
            public
            for name in sorted(asked)
            for match in get_close_matches(name, known, n=SIMILAR_NAMES_MAX)
            for public in known[match]
        ]
        return tuple(dict.fromkeys(close))[:SUGGESTIONS_MAX]

    # What the name may mean.

    def _find_server(self, name: str) -> Server | None:
        named = {server.config.name: server for server in self._servers.values()}
        return self._servers.get(name) or named.get(name)

    def _public_entries(self) -> list[tuple[OfferKind, CatalogEntry]]:
        """Offers with this public name."""
        catalog = self._profile.catalog
        entries = [
            (kind, entry)
            for kind in OfferKind
            for entry in catalog.entries(kind)
            if entry.public == self.name
        ]
        if entries:
            return entries
        named = (
            (kind, catalog.find_named(kind, self.name))
            for kind in (OfferKind.TOOLS, OfferKind.PROMPTS)
        )
        return [(kind, entry) for kind, entry in named if entry is not None]

    def _listed_offers(self) -> list[tuple[OfferKind, str, str]]:
        """Offers with this native name, with or without the server's name before it."""
        subjects = []
        for slug, server in self._servers.items():
            for kind, listing in server.listings.items():
                for offer in listing.offers:
                    native = offer.native
                    called = (native, f"{slug}/{native}", f"{server.config.name}/{native}")
                    if self.name in (*called, self._naming.prefixed_name(slug, native)):
                        subjects.append((kind, slug, native))
        return subjects

    def _guess_from_prefix(self) -> Iterator[tuple[OfferKind, str, str]]:
        """The server that the prefix points to, though it does not list the rest."""
        for slug, server in self._servers.items():
            prefixes = (f"{slug}/", f"{server.config.name}/", self._naming.prefix_of(slug))
            for prefix in prefixes:
                if self.name.startswith(prefix) and len(self.name) > len(prefix):
                    yield OfferKind.TOOLS, slug, self.name.removeprefix(prefix)
                    break

    # How far it gets.

    def _explain_server(self, server: Server) -> Story:
        steps = tuple(self._server_steps(server))
        there = all(step.good for step in steps)
        return Story(
            kind="server", server=server.slug, native=None, public=None, there=there, steps=steps
        )

    def _explain_entry(self, kind: OfferKind, entry: CatalogEntry) -> Story:
        if entry.slug:
            return self._explain_offer(kind, entry.slug, entry.native)
        words = "it belongs to the gateway; gatewayTools = false in the profile removes it"
        return Story(
            kind=KIND_WORDS[kind],
            server=None,
            native=entry.native,
            public=entry.public,
            there=True,
            steps=(Step("configured", True, words),),
        )

    def _explain_offer(self, kind: OfferKind, slug: str, native: str) -> Story:
        server = self._servers[slug]
        steps = [*self._server_steps(server), self._listed_step(server, kind, native)]
        if steps[-1].good and slug in self._profile.servers:
            if kind is OfferKind.TOOLS:
                steps.append(self._allowed_step(slug, native))
            public = self._public_name(kind, slug, native)
            if public is not None:
                steps.append(
                    Step("name", True, self._explain_public_name(kind, slug, native, public))
                )
            elif all(step.good for step in steps):
                steps.append(Step("name", False, NAME_PENDING))
        else:
            public = None
        return Story(
            kind=KIND_WORDS[kind],
            server=slug,
            native=native,
            public=public,
            there=public is not None,
            steps=tuple(steps),
        )

    def _explain_uri(self, slug: str, native: str) -> Story:
        """A URI that no server lists, but a template or a skill of one covers."""
        words = f"one of its templates or skills covers {native!r}"
        steps = (*self._server_steps(self._servers[slug]), Step("listed", True, words))
        return Story(
            kind=KIND_WORDS[OfferKind.RESOURCES],
            server=slug,
            native=native,
            public=self.name,
            there=True,
            steps=steps,
        )

    def _explain_unknown(self) -> Story:
        """No server lists the name, and it has no server's prefix."""
        without_lists = [
            f"'{slug}' has not listed its offers: {status_reason(server) or 'it has just started'}"
            for slug, server in self._profile.servers.items()
            if not server.listings
        ]
        sentences = ["no server lists anything with this name", *without_lists]
        return Story(
            kind="tool",
            server=None,
            native=None,
            public=None,
            there=False,
            steps=tuple(Step("listed", False, sentence) for sentence in sentences),
        )

    def _server_steps(self, server: Server) -> Iterator[Step]:
        config, slug = server.config, server.slug
        origin = config.origin if self._paths else os.path.basename(config.origin)
        where = f" in {origin}" if origin else ""
        called = "" if config.name == slug else f", under the name {config.name!r}"
        yield Step("configured", True, f"the server '{slug}' is defined{where}{called}")
        if server.disabled_reason is not None:
            yield Step("enabled", False, status_reason(server) or server.disabled_reason)
        if slug not in self._profile.servers:
            others = ", ".join(self._profile.servers) or "none"
            words = f"the profile '{self._profile.slug}' has only: {others}; add it to servers"
            yield Step("profile", False, words)
            return
        yield Step("profile", True, f"the profile '{self._profile.slug}' has it")
        if server.disabled_reason is None:
            yield self._started_step(server)

    def _down_reason(self, server: Server) -> str | None:
        """Why calls to a server fail. They wait for one that is starting."""
        down = server.disabled_reason is not None or server.state in (
            ServerState.BROKEN,
            ServerState.STOPPED,
        )
        return status_reason(server) if down else None

    def _started_step(self, server: Server) -> Step:
        if server.state is ServerState.IDLE:
            return Step("started", True, f"it is idle: {status_reason(server)}")
        if server.state is not ServerState.READY:
            return Step("started", False, f"it is not running: {status_reason(server)}")
        peer = server.peer
        speaks = "" if peer is None else f" and speaks {peer.revision.name}"
        return Step("started", True, f"it is running{speaks} over {server.transport}")

    def _listed_step(self, server: Server, kind: OfferKind, native: str) -> Step:
        listing, plural = server.listings.get(kind), f"{KIND_WORDS[kind]}s"
        if listing is None:
            return Step("listed", False, f"it has not listed its {plural} yet")
        offer = next((each for each in listing.offers if each.native == native), None)
        warning = "" if listing.warning is None else f"; {listing.warning}"
        if offer is None:
            return Step(
                "listed",
                False,
                f"it lists {_count_words(len(listing.offers), kind)}, but not this one{warning}",
            )
        listed_words = (
            "it is listed" if server.lists_ready else "it was listed when the server last ran"
        )
        input_words = "; only clients that can answer questions see it" if offer.needs_input else ""
        return Step("listed", True, f"{listed_words} as {native!r}{input_words}")

    def _allowed_step(self, slug: str, native: str) -> Step:
        decision = self._rules.decide(slug, native)
        where = f"tools of the profile '{self._profile.slug}'"
        return Step("rules", decision.allowed, f"it is {decision.reason} ({where})")

    def _public_name(self, kind: OfferKind, slug: str, native: str) -> str | None:
        entries = self._profile.catalog.entries(kind)
        names = (entry.public for entry in entries if (entry.slug, entry.native) == (slug, native))
        return next(names, None)

    def _explain_public_name(self, kind: OfferKind, slug: str, native: str, public: str) -> str:
        if kind not in (OfferKind.TOOLS, OfferKind.PROMPTS):
            reason = "its own URI" if public == native else "another server has the same URI"
            return f"its public name is {public!r}: {reason}"
        reason = explain_public_name(self._naming, slug, native, public)
        return f"its public name is {public!r}: {reason}"


def explain_public_name(naming: Naming, slug: str, native: str, public: str) -> str:
    """Why a tool or prompt has its public name."""
    plain = naming.prefix_of(slug) + native
    if public == native:
        return f'its own name (prefix = "{naming.prefix}")'
    if public == plain and naming.prefix == "always":
        return 'the server, then its own name (prefix = "always")'
    if public == plain:
        return f'its own name is already taken (prefix = "{naming.prefix}")'
    if public in (naming.prefixed_name(slug, native), naming.bare_name(slug, native)):
        return (
            f"{plain!r} does not fit into {NAME_MAX} letters, digits, _ and -, "
            "so a hash replaces the rest"
        )
    return "that name is already taken, so a hash makes it unique"


def _has_exact_match(story: Story) -> bool:
    """Whether the name is exact, visible or not."""
    listed = any(step.stage == "listed" and step.good for step in story.steps)
    return story.there or listed or story.kind == "server"


def _count_words(count: int, kind: OfferKind) -> str:
    return f"{count} {KIND_WORDS[kind]}" + ("" if count == 1 else "s")
