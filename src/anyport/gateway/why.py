"""Why a tool, prompt, resource or server is there for the clients of a profile, or is not.

The way of an offer, step by step: its server is configured, is in the profile, has started; it is
listed, allowed, and named. The first step that fails is the reason. Reads the running gateway and
changes nothing; starts nothing, either.
"""

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias

import msgspec

from anyport.gateway.profile import Profile
from anyport.gateway.reason import reason_of
from anyport.policy.judge import ToolRules
from anyport.protocol.method import Kind
from anyport.routing.catalog import Entry
from anyport.routing.names import NAME_MAX, Naming
from anyport.upstream.server import Server
from anyport.upstream.tender import State

NEAR_NAMES: Final = 3
"""How many names that come near are looked at; several servers may have the same."""
SUGGESTIONS_MAX: Final = 8
NAME_CHARS_MAX: Final = 2048
"""Of a name that is asked for; the longest URIs that anybody lists are shorter."""

WORDS: Final[Mapping[Kind, str]] = {
    Kind.TOOLS: "tool",
    Kind.PROMPTS: "prompt",
    Kind.RESOURCES: "resource",
    Kind.TEMPLATES: "resource template",
    Kind.SKILLS: "skill",
}

Stage: TypeAlias = Literal["configured", "enabled", "profile", "started", "listed", "rules", "name"]


class Step(msgspec.Struct, frozen=True):
    """One condition, and whether it holds."""

    stage: Stage
    good: bool
    words: str


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one thing that may be meant."""

    kind: str
    """`tool`, `prompt`, `resource`, `resource template`, `skill` or `server`."""
    server: str | None
    """None for what is the gateway's own, and where nobody knows whose it would be."""
    native: str | None
    public: str | None
    """What clients of the profile call it, where it is there."""
    there: bool
    steps: tuple[Step, ...]


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """Why something is there, or not."""

    name: str
    profile: str
    there: bool
    stories: tuple[Story, ...]
    trouble: str | None = None
    """Why calls fail, though it is there: its server is down."""
    suggestions: tuple[str, ...] = ()
    """Names that may be meant instead."""


def why(name: str, profile: Profile, servers: Mapping[str, Server], *, paths: bool = False) -> Why:
    """Why clients of a profile see something of this name, or do not.

    `paths` tells where files lie, which is nobody's business outside this machine.
    """
    asked = _Question(name[:NAME_CHARS_MAX], profile, servers, paths=paths)
    stories = tuple(asked.stories())
    there = any(story.there for story in stories)
    return Why(
        name=asked.name,
        profile=profile.slug,
        there=there,
        stories=stories,
        trouble=asked.trouble(stories),
        suggestions=asked.suggestions(stories),
    )


class _Question:
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
        """One for each thing that may be meant, those that are there first."""
        server = self._server_called(self.name)
        if server is not None:
            yield self._of_server(server)
            return
        found = [self._of_entry(kind, entry) for kind, entry in self._public()]
        owner = None if found else self._profile.catalog.owner(self.name)
        if owner is not None:
            found = [self._of_uri(*owner)]
        if not found:
            meant = dict.fromkeys(self._listed() or self._would_be())
            found = [self._of_offer(*subject) for subject in meant]
        yield from found or [self._of_nobody()]

    def trouble(self, stories: tuple[Story, ...]) -> str | None:
        """Why calls of all that is there fail, if they do."""
        servers = [story.server for story in stories if story.there]
        troubles = [None if slug is None else self._down(self._servers[slug]) for slug in servers]
        return None if None in troubles else next(iter(troubles), None)

    def suggestions(self, stories: tuple[Story, ...]) -> tuple[str, ...]:
        """What clients see that is called nearly so; of the server that is named, if one is."""
        if any(_is_known(story) for story in stories):
            return ()
        slugs = {story.server for story in stories if story.server is not None}
        known = defaultdict(list, {} if slugs else {slug: [slug] for slug in self._servers})
        for kind in Kind:
            for entry in self._profile.catalog.entries(kind):
                if not slugs or entry.slug in slugs:
                    for name in {entry.native, entry.public}:
                        known[name].append(entry.public)
        asked = {story.native for story in stories if story.native is not None} or {self.name}
        close = [
            public
            for name in sorted(asked)
            for match in get_close_matches(name, known, n=NEAR_NAMES)
            for public in known[match]
        ]
        return tuple(dict.fromkeys(close))[:SUGGESTIONS_MAX]

    # What may be meant.

    def _server_called(self, name: str) -> Server | None:
        named = {server.config.name: server for server in self._servers.values()}
        return self._servers.get(name) or named.get(name)

    def _public(self) -> list[tuple[Kind, Entry]]:
        """What clients of the profile know by this name."""
        catalog = self._profile.catalog
        found = [
            (kind, entry)
            for kind in Kind
            for entry in catalog.entries(kind)
            if entry.public == self.name
        ]
        if found:
            return found
        named = ((kind, catalog.named(kind, self.name)) for kind in (Kind.TOOLS, Kind.PROMPTS))
        return [(kind, entry) for kind, entry in named if entry is not None]

    def _listed(self) -> list[tuple[Kind, str, str]]:
        """What servers list by this name, alone or after their own."""
        subjects = []
        for slug, server in self._servers.items():
            for kind, listing in server.listings.items():
                for offer in listing.offers:
                    native = offer.native
                    called = (native, f"{slug}/{native}", f"{server.config.name}/{native}")
                    if self.name in (*called, self._naming.prefixed(slug, native)):
                        subjects.append((kind, slug, native))
        return subjects

    def _would_be(self) -> Iterator[tuple[Kind, str, str]]:
        """Whose it would be by its name, though nobody lists it."""
        for slug, server in self._servers.items():
            heads = (f"{slug}/", f"{server.config.name}/", self._naming.head(slug))
            for head in heads:
                if self.name.startswith(head) and len(self.name) > len(head):
                    yield Kind.TOOLS, slug, self.name.removeprefix(head)
                    break

    # What became of it.

    def _of_server(self, server: Server) -> Story:
        steps = tuple(self._server_steps(server))
        there = all(step.good for step in steps)
        return Story(
            kind="server", server=server.slug, native=None, public=None, there=there, steps=steps
        )

    def _of_entry(self, kind: Kind, entry: Entry) -> Story:
        if entry.slug:
            return self._of_offer(kind, entry.slug, entry.native)
        words = "it is the gateway's own; gatewayTools = false in the profile takes it away"
        return Story(
            kind=WORDS[kind],
            server=None,
            native=entry.native,
            public=entry.public,
            there=True,
            steps=(Step("configured", True, words),),
        )

    def _of_offer(self, kind: Kind, slug: str, native: str) -> Story:
        server = self._servers[slug]
        steps = [*self._server_steps(server), self._is_listed(server, kind, native)]
        if steps[-1].good and slug in self._profile.servers:
            if kind is Kind.TOOLS:
                steps.append(self._is_allowed(slug, native))
            public = self._public_name(kind, slug, native)
            if public is not None:
                steps.append(Step("name", True, self._how_named(kind, slug, native, public)))
        else:
            public = None
        return Story(
            kind=WORDS[kind],
            server=slug,
            native=native,
            public=public,
            there=public is not None,
            steps=tuple(steps),
        )

    def _of_uri(self, slug: str, native: str) -> Story:
        """A URI that no list has, and that a template or a skill of a server makes its own."""
        words = f"a template or a skill of it covers {native!r}"
        steps = (*self._server_steps(self._servers[slug]), Step("listed", True, words))
        return Story(
            kind=WORDS[Kind.RESOURCES],
            server=slug,
            native=native,
            public=self.name,
            there=True,
            steps=steps,
        )

    def _of_nobody(self) -> Story:
        """Nobody lists it, and its name does not say whose it would be."""
        silent = [
            f"'{slug}' has not told what it offers: {reason_of(server) or 'it has just started'}"
            for slug, server in self._profile.servers.items()
            if not server.listings
        ]
        words = ["no server lists anything of this name", *silent]
        return Story(
            kind="tool",
            server=None,
            native=None,
            public=None,
            there=False,
            steps=tuple(Step("listed", False, sentence) for sentence in words),
        )

    def _server_steps(self, server: Server) -> Iterator[Step]:
        config, slug = server.config, server.slug
        origin = config.origin if self._paths else os.path.basename(config.origin)
        where = f" in {origin}" if origin else ""
        called = "" if config.name == slug else f", under the name {config.name!r}"
        yield Step("configured", True, f"the server '{slug}' is defined{where}{called}")
        if server.obstacle is not None:
            yield Step("enabled", False, reason_of(server) or server.obstacle)
        if slug not in self._profile.servers:
            others = ", ".join(self._profile.servers) or "none"
            words = f"the profile '{self._profile.slug}' has only: {others}; add it to servers"
            yield Step("profile", False, words)
            return
        yield Step("profile", True, f"the profile '{self._profile.slug}' has it")
        if server.obstacle is None:
            yield self._has_started(server)

    def _down(self, server: Server) -> str | None:
        """Why calls of it fail; they wait for one that is only starting."""
        down = server.obstacle is not None or server.state in (State.BROKEN, State.STOPPED)
        return reason_of(server) if down else None

    def _has_started(self, server: Server) -> Step:
        if server.state is State.IDLE:
            return Step("started", True, f"it does not run now: {reason_of(server)}")
        if server.state is not State.READY:
            return Step("started", False, f"it does not run: {reason_of(server)}")
        peer = server.peer
        speaks = "" if peer is None else f" and speaks {peer.revision.name}"
        return Step("started", True, f"it runs{speaks} over {server.transport}")

    def _is_listed(self, server: Server, kind: Kind, native: str) -> Step:
        listing, plural = server.listings.get(kind), f"{WORDS[kind]}s"
        if listing is None:
            return Step("listed", False, f"it has told of no {plural} yet")
        offer = next((each for each in listing.offers if each.native == native), None)
        odd = "" if listing.warning is None else f"; {listing.warning}"
        if offer is None:
            return Step(
                "listed", False, f"it lists {_counted(len(listing.offers), kind)}, not this{odd}"
            )
        live = "it lists it" if server.listed else "it listed it when it was last asked"
        asks = "; only clients that it may ask something see it" if offer.asks else ""
        return Step("listed", True, f"{live} as {native!r}{asks}")

    def _is_allowed(self, slug: str, native: str) -> Step:
        verdict = self._rules.judge(slug, native)
        where = f"tools of the profile '{self._profile.slug}'"
        return Step("rules", verdict.allowed, f"it is {verdict.reason} ({where})")

    def _public_name(self, kind: Kind, slug: str, native: str) -> str | None:
        entries = self._profile.catalog.entries(kind)
        mine = (entry.public for entry in entries if (entry.slug, entry.native) == (slug, native))
        return next(mine, None)

    def _how_named(self, kind: Kind, slug: str, native: str, public: str) -> str:
        if kind not in (Kind.TOOLS, Kind.PROMPTS):
            kept = "its own URI" if public == native else "another server has the same URI"
            return f"clients know it as {public!r}: {kept}"
        return f"clients know it as {public!r}: {how_named(self._naming, slug, native, public)}"


def how_named(naming: Naming, slug: str, native: str, public: str) -> str:
    """Why a tool or prompt has the public name that it has."""
    plain = naming.head(slug) + native
    if public == native:
        return f'its own name (prefix = "{naming.prefix}")'
    if public == plain and naming.prefix == "always":
        return 'the server before its own name (prefix = "always")'
    if public == plain:
        return f'the name alone is taken already (prefix = "{naming.prefix}")'
    if public in (naming.prefixed(slug, native), naming.bare(slug, native)):
        return (
            f"{plain!r} does not fit into {NAME_MAX} letters, digits, _ and -, "
            "so a hash stands for the rest"
        )
    return "that name is taken already, so a hash tells the two apart"


def _is_known(story: Story) -> bool:
    """Whether something is called exactly so, there or not."""
    listed = any(step.stage == "listed" and step.good for step in story.steps)
    return story.there or listed or story.kind == "server"


def _counted(count: int, kind: Kind) -> str:
    return f"{count} {WORDS[kind]}" + ("" if count == 1 else "s")
