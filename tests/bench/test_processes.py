"""Processes are measured with all that they start, and ended with it."""

import sys
from pathlib import Path

import pytest

from bench.processes import StartFailed, cpu_seconds, free_port, rss_kilobytes, start, tree
from tests.rig.probe import eventually

PARENT = """
import socket, subprocess, sys, time
child = subprocess.Popen(["sleep", "60"])
while time.process_time() < 0.05:  # A few ticks of the kernel's clock.
    pass
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
child.wait()
"""


def test_a_process_is_measured_and_ended_with_its_children(tmp_path: Path) -> None:
    port = free_port()
    running = start("parent", [sys.executable, "-c", PARENT, str(port)], core=None, folder=tmp_path)
    try:
        running.wait_for_port(port)
        family = tree(running.pid)
        usage, megabytes = running.usage(), running.rss_megabytes()
    finally:
        running.stop()

    assert len(family) == 2
    assert 0 < usage.own <= usage.tree
    assert megabytes > 1
    # The child has been told to end, and is nobody's to wait for.
    eventually(lambda: not any(map(rss_kilobytes, family)), "the end of both")
    assert [cpu_seconds(pid) for pid in family] == [0, 0]


def test_a_process_that_ends_at_once_is_quoted(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('no such option')"]
    running = start("broken", argv, core=None, folder=tmp_path)

    with pytest.raises(StartFailed, match=r"broken ended at once: no such option"):
        running.wait_for_port(free_port())

    running.stop()
