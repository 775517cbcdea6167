"""Starting and stopping servers, as the gateway sees it."""

import asyncio
import errno
import fcntl
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from anyport.upstream.stdio.process import (
    ChildProcess,
    Command,
    ExitStatus,
    ProcessSpawner,
    SpawnFailed,
    child_environment,
    describe_fork_error,
    describe_start_error,
)
from tests.upstream.processes import (
    alive,
    command,
    descriptors_of,
    disown_children,
    eventually,
    group_and_session_of,
    marked,
    new_mark,
    output_of,
    own_children,
    python,
    read,
)

Scene = Callable[[ProcessSpawner], Coroutine[Any, Any, None]]

PIECES = [
    *("", " ", "a b", "'", '"', "`id`", "$(id)", "${HOME}", "$HOME", ";id", "&& id", "| id"),
    *("\n", "a\nb", "\r\n", "\t", "\\", "\\n", "%s", "{}", "*", "~", "-c", "--", "=", "a=b", "#"),
    *("é", "日本", "😀", "\u202e", "\x1b[0m", "\x7f", "\udcff", "!", "<", ">", "()", "{a,b}"),
]
PAYLOADS = PIECES + [first + second for first in PIECES[1:] for second in PIECES[1:]][:300]

DUMP = """
import json, os, sys
argv = [os.fsencode(word).hex() for word in sys.argv[1:]]
env = {name.hex(): text.hex() for name, text in os.environb.items()}
os.write(1, json.dumps([argv, env]).encode())
"""


OWNED_BY_THE_C_LIBRARY = 0b11 << 31
"""Signals 32 and 33 as bits: `make` leaves them ignored, and no program can change that."""


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[[Scene], None]:
    """Plays a scene with a spawner, on each event loop, and sees that it leaves nothing behind."""

    async def with_spawner(scene: Scene) -> None:
        disown_children()
        spawner, before = ProcessSpawner(), descriptors_of(os.getpid())
        try:
            await scene(spawner)
        finally:
            await spawner.close()
        assert own_children() == {}
        assert descriptors_of(os.getpid()) <= before

    return lambda scene: request.param(with_spawner(scene))


def test_arguments_and_environment_arrive_byte_for_byte(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        env = {f"V{number}": text for number, text in enumerate(PAYLOADS)} | {"LC_ALL": "C.UTF-8"}
        names = {f"N {text}": "" for text in PIECES if "=" not in text}
        asked = replace(python(DUMP, *PAYLOADS), env=env | names)

        argv, seen = json.loads(await output_of(await spawner.spawn(asked)))

        assert argv == [os.fsencode(text).hex() for text in PAYLOADS]
        assert seen == {os.fsencode(k).hex(): os.fsencode(v).hex() for k, v in asked.env.items()}

    play(scene)


def test_a_command_and_a_directory_may_have_any_name(tmp_path: Path) -> None:
    async def said_in(spawner: ProcessSpawner, place: Path, name: str) -> bytes:
        asked = Command(argv=(name, "-P"), env={"PATH": str(place)}, cwd=str(place))
        return await output_of(await spawner.spawn(asked))

    async def scene() -> None:
        spawner = ProcessSpawner()
        places = [tmp_path / f"in {piece}" for piece in PIECES]
        for place in places:
            place.mkdir()
            (place / f"run {place.name}").symlink_to("/bin/pwd")

        found = [said_in(spawner, place, f"run {place.name}") for place in places]
        named = [said_in(spawner, place, f"./run {place.name}") for place in places]

        expected = [os.fsencode(place) + b"\n" for place in places]
        assert await asyncio.gather(*found, *named) == expected * 2
        await spawner.close()

    asyncio.run(scene())


def test_an_environment_of_a_mebibyte_arrives(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        env = {f"V{number}": "x" * 65_536 for number in range(16)}

        said = await output_of(await spawner.spawn(replace(command("env", "-0"), env=env)))

        assert dict(line.split("=") for line in said.decode().split("\0") if line) == env

    play(scene)


OWN_DESCRIPTORS = """
import os
os.write(1, " ".join(os.listdir("/proc/self/fd")).encode())
"""


def test_a_server_starts_clean(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        child = await spawner.spawn(command("cat"))
        # What it answers, it answers once its loader has closed the libraries.
        os.write(child.stdin, b"loaded\n")
        assert await read(child.stdout) == b"loaded\n"
        status = Path(f"/proc/{child.pid}/status").read_text()
        signals = {
            line.split()[0]: int(line.split()[1], 16) & ~OWNED_BY_THE_C_LIBRARY
            for line in status.splitlines()
            if line.startswith("Sig") and "/" not in line
        }

        assert descriptors_of(child.pid) == {0, 1, 2}
        assert group_and_session_of(child.pid) == (child.pid, child.pid)
        assert set(signals.values()) == {0}
        assert not any(os.get_blocking(fd) for fd in (child.stdin, child.stdout, child.stderr))
        assert not any(os.get_inheritable(fd) for fd in (child.stdin, child.stdout, child.stderr))

        await child.stop()
        child.close()

    play(scene)


def test_what_the_gateway_inherited_does_not_reach_servers(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        reader, writer = os.pipe()
        # The lowest free number from there: the one itself may be pytest's or the loop's.
        inherited = [fcntl.fcntl(writer, fcntl.F_DUPFD, fd) for fd in (97, 250, 900)]
        assert all(map(os.get_inheritable, inherited))
        os.set_inheritable(reader, True)
        try:
            first = await spawner.spawn(python("import os; os.write(1, os.read(0, 1))"))
            later = await output_of(await spawner.spawn(python(OWN_DESCRIPTORS)))
        finally:
            for fd in (writer, *inherited):
                os.close(fd)
        # The listing has a descriptor of its own, the lowest that was free.
        assert sorted(map(int, later.split())) == [0, 1, 2, 3]
        os.set_blocking(reader, False)
        # Neither the reaper nor a keeper holds it: whoever waits for its end is told.
        assert os.read(reader, 1) == b""
        os.close(reader)
        os.write(first.stdin, b"x")
        await first.stop()
        first.close()

    play(scene)


@pytest.mark.parametrize(
    ("script", "how", "text"),
    [
        ("exit 0", ExitStatus(code=0, signal=None), "exit code 0"),
        ("exit 3", ExitStatus(code=3, signal=None), "exit code 3"),
        ("kill -9 $$", ExitStatus(code=None, signal=9), "killed by SIGKILL"),
        ("kill -40 $$", ExitStatus(code=None, signal=40), "killed by signal 40"),
    ],
)
def test_an_exit_is_told_once(
    play: Callable[[Scene], None], script: str, how: ExitStatus, text: str
) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        child = await spawner.spawn(command("sh", "-c", f"read line; {script}"))
        told: list[ExitStatus] = []
        child.on_exit = told.append
        os.write(child.stdin, b"go\n")

        assert await child.wait() == how
        assert str(how) == text
        assert await child.stop() == how
        assert told == [how]

        late: list[ExitStatus] = []
        child.on_exit = late.append
        assert late == [how]
        child.close()

    play(scene)


def test_a_server_killed_from_outside_is_told(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        child = await spawner.spawn(command("cat"))

        os.kill(child.pid, signal.SIGKILL)

        assert await child.wait() == ExitStatus(code=None, signal=signal.SIGKILL)
        assert await read(child.stdout) == b""
        child.close()

    play(scene)


def test_what_a_server_said_before_it_exited_can_still_be_read(
    play: Callable[[Scene], None],
) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        child = await spawner.spawn(command("sh", "-c", "echo out; echo why >&2; exit 1"))
        await child.stop()

        assert await read(child.stdout, until=None) == b"out\n"
        assert await read(child.stderr, until=None) == b"why\n"
        child.close()

    play(scene)


def test_stopping_goes_from_polite_to_certain(play: Callable[[Scene], None]) -> None:
    stubborn = "trap '' TERM; echo ready; while :; do sleep 1000; done"
    killed: list[str] = []

    async def scene(spawner: ProcessSpawner) -> None:
        async def stopped(
            *argv: str, grace_seconds: float = 60, terminate_seconds: float = 60
        ) -> str:
            child = await spawner.spawn(command(*argv))
            child.on_killed = lambda: killed.append(argv[-1])
            assert await read(child.stdout) == b"ready\n"
            how = await child.stop(grace_seconds=grace_seconds, terminate_seconds=terminate_seconds)
            child.close()
            assert not alive(child.pid)
            return str(how)

        assert await stopped("sh", "-c", "echo ready; cat; exit 5") == "exit code 5"
        assert (
            await stopped("sh", "-c", "echo ready; exec sleep 1000", grace_seconds=0)
            == "killed by SIGTERM"
        )
        assert (
            await stopped("sh", "-c", stubborn, grace_seconds=0, terminate_seconds=0)
            == "killed by SIGKILL"
        )
        assert killed == [stubborn]

    play(scene)


def test_all_who_stop_a_server_wait_for_the_same_end(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        child = await spawner.spawn(command("sleep", "1000"))
        impatient = asyncio.gather(child.stop(grace_seconds=0.01))
        await asyncio.sleep(0)
        impatient.cancel()

        others = await asyncio.gather(child.stop(grace_seconds=1000), child.stop())

        assert set(others) == {ExitStatus(code=None, signal=signal.SIGTERM)}
        child.close()

    play(scene)


@pytest.mark.parametrize(
    ("argv", "cwd", "reason"),
    [
        (("no-such-command",), None, "command 'no-such-command' was not found on its PATH"),
        (("./none",), None, "command './none' does not exist"),
        (("plain.txt",), None, "command 'plain.txt' may not be executed: permission denied"),
        (("lost.sh",), None, "command 'lost.sh' is no program for this system, or its inter"),
        (("text.sh",), None, "command 'text.sh' is no program for this system, or its inter"),
        (("cat", "x" * 200_000), None, "its arguments and environment are longer than this s"),
        (("cat",), "gone", "working directory 'gone' does not exist"),
        (("cat",), "plain.txt", "working directory 'plain.txt' cannot be used: Not a directory"),
        ((), None, "its command is empty"),
        (("",), None, "its command is empty"),
        (("cat", "a\0b"), None, "its command, environment or working directory contains a NUL"),
        (("cat", "\ud800"), None, "its command or environment contains half a character"),
    ],
)
def test_a_failed_start_says_why(
    tmp_path: Path, argv: tuple[str, ...], cwd: str | None, reason: str
) -> None:
    for name, text, mode in [
        ("plain.txt", "hello", 0o644),
        ("lost.sh", "#!/no/such/interpreter\n", 0o755),
        ("text.sh", "echo hello", 0o755),
    ]:
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)

    async def scene() -> None:
        spawner = ProcessSpawner()
        env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        with pytest.raises(SpawnFailed) as failure:
            await spawner.spawn(Command(argv=argv, env=env, cwd=cwd and str(tmp_path / cwd)))
        await spawner.close()
        assert str(failure.value).replace(f"{tmp_path}/", "").startswith(reason)

    asyncio.run(scene())


@pytest.mark.parametrize("name", ["", "A=B"])
def test_a_variable_that_no_environment_can_hold_is_refused(name: str) -> None:
    with pytest.raises(SpawnFailed, match="environment variable"):
        asyncio.run(ProcessSpawner().spawn(Command(argv=("cat",), env={name: "x"}, cwd=None)))


def test_the_command_is_looked_up_on_its_own_path_alone(tmp_path: Path) -> None:
    async def scene() -> None:
        spawner = ProcessSpawner()
        with pytest.raises(SpawnFailed, match="'cat' was not found on its PATH"):
            await spawner.spawn(Command(argv=("cat",), env={"PATH": str(tmp_path)}, cwd=None))
        await spawner.close()

    asyncio.run(scene())


def test_a_gateway_without_descriptors_says_so_and_recovers(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        fd = os.open("/dev/null", os.O_RDONLY)
        os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (fd + 3, hard))
        try:
            with pytest.raises(SpawnFailed, match=r"no room .* Too many open files"):
                await spawner.spawn(command("cat"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        child = await spawner.spawn(command("cat"))
        await child.stop()
        child.close()

    play(scene)


def test_a_cancelled_start_leaves_nothing(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        mark = new_mark()
        start = asyncio.gather(spawner.spawn(command("sleep", "1000", mark=mark)))
        await asyncio.sleep(0)
        start.cancel()
        with pytest.raises(asyncio.CancelledError):
            await start

        child = await spawner.spawn(command("cat"))
        await eventually(lambda: not marked(mark))
        await child.stop()
        child.close()

    play(scene)


def test_many_servers_start_at_once(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        children = await asyncio.gather(*(spawner.spawn(command("cat")) for _ in range(50)))
        assert len({child.pid for child in children}) == 50
        await asyncio.gather(*(child.stop() for child in children))
        for child in children:
            child.close()

    play(scene)


def test_closing_ends_what_still_runs(play: Callable[[Scene], None]) -> None:
    async def scene(spawner: ProcessSpawner) -> None:
        children: list[ChildProcess] = [
            await spawner.spawn(command("sleep", "1000")) for _ in range(3)
        ]

        await spawner.close()

        assert [str(child.exit_status) for child in children] == ["killed by SIGKILL"] * 3
        assert not any(alive(child.pid) for child in children)
        with pytest.raises(SpawnFailed, match="shutting down"):
            await spawner.spawn(command("cat"))
        for child in children:
            child.close()

    play(scene)


def test_a_command_shows_no_secret() -> None:
    secret = Command(argv=(sys.executable, "--key=hunter2"), env={"KEY": "hunter2"}, cwd="/")

    assert "hunter2" not in repr(secret)


@pytest.mark.parametrize(
    ("stage", "number", "name", "words"),
    [
        ("command", errno.ENOENT, "npx", "command 'npx' was not found on its PATH"),
        ("command", errno.ENOENT, "./npx", "command './npx' does not exist"),
        ("command", errno.EACCES, "npx", "may not be executed"),
        ("command", errno.EIO, "npx", f"could not be started: {os.strerror(errno.EIO)}"),
        ("cwd", errno.ENOENT, "npx", "working directory '/nowhere' does not exist"),
        ("prepare", errno.EIO, "npx", "could not be prepared"),
        ("fork", errno.EAGAIN, "npx", "no room for another process"),
    ],
)
def test_each_failure_has_its_sentence(stage: str, number: int, name: str, words: str) -> None:
    assert words in describe_start_error(stage, number, name, "/nowhere")


def test_no_room_says_what_the_system_says() -> None:
    assert os.strerror(errno.EAGAIN) in describe_fork_error(errno.EAGAIN)
    assert describe_fork_error(None)


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
        *("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "https_proxy", "DOCKER_HOST", "NVM_DIR"),
        *("NPM_CONFIG_REGISTRY", "npm_config_cache", "PIP_INDEX_URL", "UV_CACHE_DIR"),
    ],
)
def test_what_programs_need_to_run_is_inherited(name: str) -> None:
    assert child_environment({name: "https://mirror.example/simple"}, {}) == {
        name: "https://mirror.example/simple"
    }


@pytest.mark.parametrize(
    "name",
    [
        *("GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "OPENAI_API_KEY", "DATABASE_URL", "PGPASSWORD"),
        *("SSH_AUTH_SOCK", "ANYPORT_STATE_DIR", "path", "PATHS", "XDG_SESSION_ID"),
        *("LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "BASH_ENV"),
        *("VIRTUAL_ENV", "BASH_FUNC_x%%", ""),
    ],
)
def test_everything_else_stays_with_the_gateway(name: str) -> None:
    assert child_environment({name: "canary"}, {}) == {}


@pytest.mark.parametrize(
    "name",
    [
        *("npm_config__auth", "NPM_CONFIG__AUTHTOKEN", "npm_config_//r.example/:_password"),
        *("UV_PUBLISH_TOKEN", "UV_INDEX_PRIVATE_PASSWORD", "PIP_CLIENT_KEY", "UV_CREDENTIALS_DIR"),
    ],
)
def test_what_launchers_log_in_with_is_not_inherited(name: str) -> None:
    assert child_environment({name: "canary"}, {}) == {}


@pytest.mark.parametrize(
    "value",
    [
        "https://user:canary@mirror.example/simple",
        "https://canary@mirror.example/simple",
        "https://open.example/a https://user:canary@mirror.example/b",
        "socks5://user:canary@proxy.example:1080",
    ],
)
def test_an_address_with_a_password_is_not_inherited(value: str) -> None:
    assert child_environment({"UV_INDEX": value, "HTTPS_PROXY": value}, {}) == {}


@pytest.mark.parametrize("value", ["ssh://me@engine.example", "https://npm.example/@scope/x"])
def test_an_address_without_one_is(value: str) -> None:
    assert child_environment({"DOCKER_HOST": value}, {}) == {"DOCKER_HOST": value}


def test_functions_of_the_shell_are_not_inherited() -> None:
    assert child_environment({"TERM": "() { :; }; echo canary"}, {}) == {}


def test_what_is_given_arrives_as_it_is_and_wins() -> None:
    given = {"PATH": "/opt/bin", "GITHUB_TOKEN": "t", "EMPTY": "", "F": "() { :; }"}

    assert child_environment({"PATH": "/usr/bin", "EMPTY": "x", "HOME": "/h"}, given) == {
        "HOME": "/h",
        **given,
    }
