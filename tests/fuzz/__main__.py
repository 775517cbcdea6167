"""`python -m tests.fuzz TARGET --seconds N`: looks for an input that breaks something.

With atheris the search is led by which code an input reaches; where that is not installed, inputs
are changed blindly. `--keep` adds to the corpus what reached something new. An input that breaks
something is written to the corpus, too, and stays there as a test; the exit code is 1.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.fuzz import corpus

MEMORY_MIB = 2048
KEPT_MAX = 250
"""Inputs of one target; the shortest are kept."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=[file.stem for file in corpus.FOLDER.glob("*.txt")])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--led", metavar="FOLDER", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.led:
        return _led(given.target, given.led, given.seconds, given.seed)
    if find_spec("atheris") is None:
        return _blind(given.target, given.seconds, given.seed)
    with tempfile.TemporaryDirectory() as folder:
        return _search(given, Path(folder))


def _search(given: argparse.Namespace, folder: Path) -> int:
    """In a process of its own: libFuzzer ends the one it runs in."""
    known = corpus.read(given.target)
    for number, raw in enumerate(known):
        (folder / f"{number:04}").write_bytes(raw)
    argv = [sys.executable, "-m", "tests.fuzz", given.target, "--led", str(folder)]
    argv += ["--seconds", str(given.seconds), "--seed", str(given.seed)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    words = done.stderr.splitlines()
    sys.stdout.write("\n".join(line for line in words if line.startswith("Done ")) + "\n")
    broken = [file for file in folder.iterdir() if file.name.startswith(("crash-", "oom-", "slow"))]
    if broken or done.returncode != 0:
        corpus.write(given.target, [*known, *(file.read_bytes() for file in broken)])
        sys.stderr.write(done.stderr[-4000:])
        return 1
    if given.keep:
        found = sorted((file.read_bytes() for file in folder.iterdir()), key=len)
        corpus.write(given.target, [*known, *found[: max(0, KEPT_MAX - len(known))]])
    return 0


def _led(target: str, folder: str, seconds: int, seed: int) -> int:
    atheris: Any = import_module("atheris")
    with atheris.instrument_imports(include=["anyport"]):
        from tests.fuzz import targets  # noqa: PLC0415

    def one(raw: Any) -> None:
        targets.hold(target, bytes(raw))

    options = [
        f"-max_total_time={seconds}", f"-seed={seed}", f"-rss_limit_mb={MEMORY_MIB}",
        f"-artifact_prefix={folder}{os.sep}", f"-max_len={corpus.INPUT_BYTES_MAX}",
        "-print_final_stats=0", "-timeout=60",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, folder], one)
    atheris.Fuzz()
    return 0


def _blind(target: str, seconds: int, seed: int) -> int:
    from tests.fuzz import targets  # noqa: PLC0415

    chance, known = random.Random(seed), corpus.read(target)
    over, runs = time.monotonic() + seconds, 0
    while time.monotonic() < over:
        raw = mutated(chance, chance.choice(known), chance.choice(known))
        try:
            targets.hold(target, raw)
        except Exception:
            corpus.write(target, [*known, raw])
            sys.stderr.write(f"broken by {raw!r}\n")
            raise
        runs += 1
    sys.stdout.write(f"Done {runs} runs\n")
    return 0


def mutated(chance: random.Random, raw: bytes, other: bytes) -> bytes:
    """Another input, made of one or two that are known."""
    for _ in range(chance.randint(1, 4)):
        at, end = sorted((chance.randint(0, len(raw)), chance.randint(0, len(raw))))
        piece = chance.choice(
            (b"", raw[at:end] * 2, chance.randbytes(1), other[: chance.randint(0, len(other))])
        )
        raw = raw[:at] + piece + raw[end:]
    return raw[: corpus.INPUT_BYTES_MAX]


if __name__ == "__main__":
    sys.exit(main())
