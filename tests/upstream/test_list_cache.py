"""What is remembered of servers between runs."""

import errno
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyport.catalog.offers import Listing, Offer
from anyport.config.model import ServerConfig
from anyport.protocol.extensions import SKILLS
from anyport.protocol.methods import OfferKind
from anyport.upstream.list_cache import PROBE_RETRY_SECONDS, CachedServer, ListCache
from tests.gateway.fakes import FakeServer

CONFIG = ServerConfig(slug="s", name="s", command="server", args=("x",))
TOOLS = Listing(
    offers=(Offer("a", b'{"name":"a","x":1.50}'), Offer("b", b'{"name":"b"}')),
    extras=b'{"_meta":{"v":1.0}}',
)
KNOWN = CachedServer(
    listings={OfferKind.TOOLS: TOOLS, OfferKind.PROMPTS: Listing()},
    instructions="Use me.",
    extensions={SKILLS: b'{"n":1.0}'},
    offered_capabilities=frozenset({"tools", "resources.subscribe"}),
    dies_of_probe=True,
)


def now(path: Path) -> float:
    return next((path / "lists").iterdir()).stat().st_mtime


def test_what_was_saved_is_loaded_to_the_byte(tmp_path: Path) -> None:
    ListCache(tmp_path).save(CONFIG, KNOWN)

    assert ListCache(tmp_path).load(CONFIG, now(tmp_path)) == KNOWN


def test_a_server_with_an_argument_that_is_no_utf_8_is_remembered(tmp_path: Path) -> None:
    odd, other = (replace(CONFIG, args=(f"a{half}",)) for half in ("\udcff", "\udcfe"))
    ListCache(tmp_path).save(odd, KNOWN)

    assert ListCache(tmp_path).load(odd, now(tmp_path)) == KNOWN
    assert ListCache(tmp_path).load(other, now(tmp_path)) == CachedServer()


def test_nothing_is_known_of_a_server_that_was_never_seen(tmp_path: Path) -> None:
    assert ListCache(tmp_path).load(CONFIG, 0.0) == CachedServer()


@pytest.mark.parametrize(
    "other",
    [replace(CONFIG, args=("y",)), replace(CONFIG, command="z"), replace(CONFIG, cwd="/elsewhere")],
)
def test_another_server_under_the_same_name_is_another_server(
    tmp_path: Path, other: ServerConfig
) -> None:
    ListCache(tmp_path).save(CONFIG, KNOWN)

    assert ListCache(tmp_path).load(other, now(tmp_path)) == CachedServer()


def test_a_server_that_died_of_the_probe_is_probed_again_after_a_while(tmp_path: Path) -> None:
    cache = ListCache(tmp_path)
    cache.save(CONFIG, KNOWN)

    later = cache.load(CONFIG, now(tmp_path) + PROBE_RETRY_SECONDS)

    assert later == replace(KNOWN, dies_of_probe=False)


@pytest.mark.parametrize(
    "broken", [b"", b"{", b"[]", b"\xff", b'{"tools":7,"instructions":[]}', b"null"]
)
def test_a_file_that_cannot_be_read_is_no_more_than_nothing(tmp_path: Path, broken: bytes) -> None:
    cache = ListCache(tmp_path)
    cache.save(CONFIG, KNOWN)
    next((tmp_path / "lists").iterdir()).write_bytes(broken)

    assert cache.load(CONFIG, now(tmp_path)) == CachedServer()


def test_the_files_are_the_users_alone(tmp_path: Path) -> None:
    ListCache(tmp_path / "state").save(CONFIG, KNOWN)

    (file,) = (tmp_path / "state" / "lists").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_place_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "lists").write_text("a file where the directory should be")

    ListCache(tmp_path).save(CONFIG, KNOWN)

    assert ListCache(tmp_path).load(CONFIG, 0.0) == CachedServer()
    assert os.listdir(tmp_path) == ["lists"]


def test_odd_members_beside_a_list_do_not_keep_it_from_being_saved(tmp_path: Path) -> None:
    odd = CachedServer(listings={OfferKind.TOOLS: replace(TOOLS, extras=rb'{"a\"b\u0000":1}')})

    ListCache(tmp_path).save(CONFIG, odd)

    loaded = ListCache(tmp_path).load(CONFIG, now(tmp_path))
    assert loaded.listings[OfferKind.TOOLS].offers == TOOLS.offers


def test_a_server_knows_again_what_it_offered(tmp_path: Path) -> None:
    before, after = FakeServer("s"), FakeServer("s")
    before.listings[OfferKind.TOOLS] = TOOLS
    before.instructions, before.extensions = "Use me.", {SKILLS: b"{}"}
    before.quirks.dies_of_probe = True

    ListCache(tmp_path).save_if_changed(before)
    ListCache(tmp_path).restore(after, now(tmp_path))

    assert after.listings == {OfferKind.TOOLS: TOOLS}
    assert (after.instructions, after.extensions) == ("Use me.", {SKILLS: b"{}"})
    assert after.quirks.dies_of_probe


def test_what_is_no_news_is_not_written_again(tmp_path: Path) -> None:
    server, cache = FakeServer("s"), ListCache(tmp_path)
    server.listings[OfferKind.TOOLS] = TOOLS
    cache.save_if_changed(server)
    (file,) = (tmp_path / "lists").iterdir()
    file.unlink()

    cache.save_if_changed(server)
    assert not file.exists()
    server.extensions = {SKILLS: b"{}"}
    cache.save_if_changed(server)
    assert file.exists()


def test_what_only_some_see_and_what_may_become_a_task_is_known_as_that(tmp_path: Path) -> None:
    shown = Offer("a", b'{"name":"a"}')
    asks = Offer("b", b'{"name":"b"}', needs_input=True)
    known = CachedServer(
        listings={
            OfferKind.TOOLS: Listing(offers=(shown, asks), tasks=True),
            OfferKind.PROMPTS: Listing(),
        },
        complete=True,
    )
    cache = ListCache(tmp_path)

    cache.save(CONFIG, known)

    assert cache.load(CONFIG, now(tmp_path)) == known


def test_a_server_knows_again_whose_lists_it_knew(tmp_path: Path) -> None:
    before, after = FakeServer("s"), FakeServer("s")
    before.listings[OfferKind.TOOLS] = TOOLS
    before.lists.complete = True

    ListCache(tmp_path).save_if_changed(before)
    ListCache(tmp_path).restore(after, now(tmp_path))

    assert after.lists.complete


def test_a_file_of_an_earlier_version_is_good_for_what_it_holds(tmp_path: Path) -> None:
    cache = ListCache(tmp_path)
    cache.save(CONFIG, KNOWN)
    (file,) = (tmp_path / "lists").iterdir()
    file.write_bytes(b'{"tools":{"tools":[{"name":"a"}]},"instructions":null,"diesOfProbe":false}')

    found = cache.load(CONFIG, now(tmp_path))

    assert found == CachedServer(
        listings={OfferKind.TOOLS: Listing(offers=(Offer("a", b'{"name":"a"}'),))}
    )


def test_another_setting_makes_another_server_and_its_value_does_not_show(tmp_path: Path) -> None:
    secret = replace(CONFIG, env={"TOKEN": "hunter2"})
    changed = replace(CONFIG, env={"TOKEN": "hunter3"})
    cache = ListCache(tmp_path)

    cache.save(secret, KNOWN)

    assert cache.load(CONFIG, now(tmp_path)) == CachedServer()
    # A new token is the same server; and nobody can try out tokens on the name of a file.
    assert cache.load(changed, now(tmp_path)) == KNOWN


@given(st.binary(max_size=400) | st.text(max_size=200).map(str.encode))
def test_no_file_whatever_keeps_a_gateway_from_starting(content: bytes) -> None:
    with TemporaryDirectory() as folder:
        cache = ListCache(Path(folder))
        cache.save(CONFIG, KNOWN)
        (file,) = (Path(folder) / "lists").iterdir()
        file.write_bytes(content)

        assert isinstance(cache.load(CONFIG, 0.0), CachedServer)


@pytest.mark.parametrize("depth", [b"[", b'{"a":'])
def test_a_file_too_deep_to_be_read_is_no_more_than_nothing(tmp_path: Path, depth: bytes) -> None:
    cache = ListCache(tmp_path)
    cache.save(CONFIG, KNOWN)
    (file,) = (tmp_path / "lists").iterdir()
    file.write_bytes(b'{"tools":{"tools":' + depth * 100_000)

    assert cache.load(CONFIG, 0.0) == CachedServer()


def test_a_disk_without_room_leaves_what_was_known_and_no_part_of_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ListCache(tmp_path)
    cache.save(CONFIG, KNOWN)

    def full(source: str, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    cache.save(CONFIG, CachedServer())

    assert cache.load(CONFIG, now(tmp_path)) == KNOWN
    assert len(list((tmp_path / "lists").iterdir())) == 1


WRITER = """
import sys
from pathlib import Path
from anyport.upstream.list_cache import ListCache
from tests.upstream.test_list_cache import CONFIG, large
for _ in range(60):
    ListCache(Path(sys.argv[1])).save(CONFIG, large(sys.argv[2]))
"""


def large(mark: str) -> CachedServer:
    """Lists of one writer, too long for a single write to be whole by chance."""
    natives = [f"{mark}-{number}" for number in range(2000)]
    offers = tuple(Offer(each, b'{"name":"%b"}' % each.encode()) for each in natives)
    return CachedServer(listings={OfferKind.TOOLS: Listing(offers=offers)}, complete=True)


@pytest.mark.slow
def test_several_gateways_may_write_at_once_and_each_file_is_whole(tmp_path: Path) -> None:
    cache, marks = ListCache(tmp_path), ("one", "two", "three")
    cache.save(CONFIG, large("one"))
    whole = [large(mark) for mark in marks]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), mark]) for mark in marks
    ]

    while any(writer.poll() is None for writer in writers):
        assert cache.load(CONFIG, 0.0) in whole

    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert cache.load(CONFIG, 0.0) in whole
    assert len(list((tmp_path / "lists").iterdir())) == 1
