"""A gateway over HTTP as a process, whose configuration can be changed while it runs.

Knows how it is started, told to read its file again, and stopped; nothing of who calls it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.harness import WAIT_SECONDS, Message, put_down, write_config
from tests.rig.load_servers import LoadServers

SESSION_IDLE_SECONDS: Final = 90
"""Sessions that nobody ends are forgotten within the run, those in use never."""


class LoadGateway:
    """A gateway as a process, with its configuration."""

    def __init__(self, folder: Path, servers: LoadServers) -> None:
        self.fleet = servers
        self.folder = folder
        self.state = folder / "state"
        self.canary = f"canary-{uuid4().hex}"
        self.reloads = 0
        self.stderr = b""
        self._entries = servers.entries(self.canary)
        self._present = self._entries
        self._config = self._write(self._entries)
        argv = [sys.executable, "-m", "anyport", "serve", "--port", "0", "--json"]
        argv += ["--config", str(self._config), "--state-dir", str(self.state)]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self.process.pid
        self._listener = threading.Thread(target=self._read_stderr, daemon=True)
        self._listener.start()
        assert self.process.stdout is not None
        told = self.process.stdout.readline()
        assert told, self.stderr
        self.port = int(json.loads(told)["url"].rsplit(":", 1)[1].split("/")[0])

    def _write(self, entries: Message) -> Path:
        settings = {"sessionIdleSeconds": SESSION_IDLE_SECONDS, "listSeconds": 30, "watch": False}
        return write_config(self.folder, entries, gateway=settings)

    def change(self, *, broken: bool) -> set[str]:
        """Another configuration, and the gateway is told; the servers that it must have then.

        A thirteenth one comes and goes, whose name nobody can resolve.
        """
        if broken:
            self._config.write_text('{"mcpServers": {"steady": ')
        else:
            self.reloads += 1
            nowhere = {"url": f"http://nowhere-{self.reloads}.invalid/mcp", "timeout": 5}
            self._present = {
                **self._entries,
                **({"thirteenth": nowhere} if self.reloads % 2 else {}),
            }
            self._write(self._present)
        self.process.send_signal(signal.SIGHUP)
        return set(self._present)

    def stop(self) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(WAIT_SECONDS)
        self._listener.join(WAIT_SECONDS)
        return code

    def kill(self) -> None:
        """End it whatever it is doing."""
        put_down(self.process, self._listener)

    def _read_stderr(self) -> None:
        assert self.process.stderr is not None
        while chunk := os.read(self.process.stderr.fileno(), 65536):
            self.stderr += chunk
