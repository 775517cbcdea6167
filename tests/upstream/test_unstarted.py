"""Why a process could not be started, for people."""

import errno
import os

import pytest

from anyport.upstream.unstarted import no_room, unstarted


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
    assert words in unstarted(stage, number, name, "/nowhere")


def test_no_room_says_what_the_system_says() -> None:
    assert os.strerror(errno.EAGAIN) in no_room(errno.EAGAIN)
    assert no_room(None)
