"""Every SDK as a client in front of one gateway, and every SDK as a server behind it.

`corners.py` has the SDKs, `expectations.py` what they must see of each other. A client over
HTTP comes to the one gateway that has all servers on all their transports, to the profile with
those of its turn; a client that starts its gateway itself has one with the same. Every guest meets
every SDK: so with one guest of each, `make test` has all pairs. `make test-all` has all guests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import running
from tests.harness import write_config
from tests.real import rig
from tests.real.conftest import LIST_SECONDS, chosen
from tests.real.corners import (
    GUESTS,
    TURNS,
    Corner,
    Guest,
    corners_of,
    goodbye,
    hello,
    obstacle,
    steps_at,
    turn_of,
)
from tests.real.expectations import FEATURES, Observed, judge

pytestmark = pytest.mark.real

ALL = [Corner(sdk=sdk, transport=way) for sdk, ways in rig.CORNERS.items() for way in ways]
SETTINGS = {"listSeconds": LIST_SECONDS}
VISITORS = {
    "py1-6": ["sse"],
    "py1-9": ["stdio"],
    "py1-12": ["sse"],
    "py1": ["http"],
    "py2": ["http"],
    "fm": ["sse"],
    "ts1-0": ["stdio"],
    "ts1": ["http"],
    "ts2": ["stdio", "http"],
}
"""One guest on each SDK, and more: all turns and transports, and clients of both eras over two."""
EXPECTED = [guest for guest in GUESTS if guest.transport in VISITORS[guest.sdk]]


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """The gateway that all of them come to, and the servers behind it."""

    url: str
    servers: Mapping[str, Any]

    def target(self, guest: Guest, place: Path) -> list[str]:
        """Where a guest goes, or what it starts."""
        url = f"{self.url}/mcp/turn-{turn_of(guest)}"
        if guest.transport != "stdio":
            return [f"{url}/sse" if guest.transport == "sse" else url]
        own = {corner.slug: self.servers[corner.slug] for corner in corners_of(turn_of(guest))}
        config = write_config(place, own, gateway=SETTINGS)
        options = ["--config", str(config), "--state-dir", str(place / "state")]
        return [sys.executable, "-m", "anyport", "stdio", *options]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    place = tmp_path_factory.mktemp("corners")
    listening = [corner.slug for corner in ALL if corner.transport != "stdio"]
    with rig.listening(*listening) as urls:
        servers = {
            corner.slug: {"url": urls[corner.slug]}
            if corner.slug in urls
            else rig.server(corner.slug)
            for corner in ALL
        }
        profiles = {
            f"turn-{turn}": {"servers": [corner.slug for corner in corners_of(turn)]}
            for turn in range(TURNS)
        }
        config = write_config(place, servers, gateway=SETTINGS, profiles=profiles)
        with running("--config", str(config), "--state-dir", str(place / "state")) as gateway:
            yield House(url=gateway.url, servers=servers)


@pytest.mark.parametrize(
    "guest", chosen(GUESTS, *EXPECTED), ids=lambda guest: f"{guest.sdk}-{guest.transport}"
)
def test_a_client_can_do_with_every_server_what_both_of_them_can(
    guest: Guest, house: House, tmp_path: Path
) -> None:
    corners = corners_of(turn_of(guest))
    steps = [*hello().values()]
    ats = {}
    for corner in corners:
        there = steps_at(corner, guest, tmp_path / corner.slug)
        ats[corner] = {name: at for at, name in enumerate(hello())}
        ats[corner] |= {name: at for at, name in enumerate(there, start=len(steps))}
        steps += there.values()
    for at, corner in enumerate(corners, start=len(steps)):
        ats[corner]["goodbye"] = at
        steps.append(goodbye(corner))
    seen = rig.client(guest.client, steps, house.target(guest, tmp_path))

    [connected] = rig.of(seen, "connected")
    assert connected["protocolVersion"] == guest.revision
    sights = [Observed(seen, corner, guest, at) for corner, at in ats.items()]
    wrong = {
        f"{sight.corner.slug}: {feature}": obstacle(feature, guest, sight.corner) or "can be"
        for sight in sights
        for feature in FEATURES
        if not judge(feature, sight)
    }
    assert not wrong, "\n".join(str(line)[:300] for line in [*wrong.items(), *seen])
    assert seen[-1]["saw"] == "closed"


def test_the_guests_of_every_change_are_one_of_each_sdk_in_every_turn() -> None:
    assert {guest.sdk for guest in EXPECTED} == {*rig.CORNERS}
    assert {turn_of(guest) for guest in EXPECTED} == {*range(TURNS)}
    assert {guest.transport for guest in EXPECTED} == {"stdio", "sse", "http"}


def test_the_cells_are_counted() -> None:
    """A cell is a feature of two SDKs, or of one of their meetings over two transports."""
    meetings = [(guest, corner) for guest in GUESTS for corner in corners_of(turn_of(guest))]
    cells = [(meeting, feature) for meeting in meetings for feature in FEATURES]
    works = [(meeting, feature) for meeting, feature in cells if not obstacle(feature, *meeting)]
    assert (len(meetings), len(FEATURES)) == (225, 19)
    assert (len(works), len(cells)) == (3406, 4275)

    def of_sdks(cells: list[tuple[tuple[Guest, Corner], str]]) -> set[tuple[str, str, str]]:
        return {(guest.sdk, corner.sdk, feature) for (guest, corner), feature in cells}

    assert (len(of_sdks(works)), len(of_sdks(cells))) == (1216, 1539)


def test_every_pair_meets_over_every_transport_of_the_server_that_its_turns_reach() -> None:
    for sdk, transports in rig.CORNERS.items():
        for guest_sdk in rig.CORNERS:
            met = {
                corner.transport
                for guest in GUESTS
                if guest.sdk == guest_sdk
                for corner in corners_of(turn_of(guest))
                if corner.sdk == sdk
            }
            turns = len([guest for guest in GUESTS if guest.sdk == guest_sdk])
            assert len(met) == min(turns, len(transports))
