"""What tests of commands have in common: a quick server, and a command run in this process."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from anyport.__main__ import main

TINY_SERVER: Final = Path(__file__).parent / "tiny_server.py"


def tiny_entry(notes: Path) -> dict[str, Any]:
    """The tiny server, as a configuration has it."""
    return {
        "command": sys.executable,
        "args": ["-I", "-S", str(TINY_SERVER)],
        "env": {"TINY_NOTES": str(notes)},
        "protocol": "legacy",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Stage:
    """A directory of its own, where commands run."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.state = folder / "state"
        self._capsys = capsys

    @property
    def notes(self) -> Path:
        """Where the tiny server notes that it was cancelled."""
        return self.folder / "notes"

    def configure(self, **servers: Any) -> Path:
        """An `anyport.json` with the tiny server and these."""
        file = self.folder / "anyport.json"
        servers = {"tiny": tiny_entry(self.notes), **servers}
        file.write_text(json.dumps({"mcpServers": servers}))
        return file

    def run(self, *argv: str) -> Ran:
        """Run a command here."""
        self._capsys.readouterr()
        code = main(list(argv))
        captured = self._capsys.readouterr()
        return Ran(code=code, out=captured.out, err=captured.err)
