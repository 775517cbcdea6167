"""`python -m anyport` and the command `anyport`.

The commands that clients and gateways launch, `stdio` and `demo-server`, are started without the
rest of the command line, because somebody waits for them; `serve`, because it runs for months and
needs none of it.
"""

import gc
import os
import sys
from collections.abc import Callable
from functools import partial


def run() -> None:
    """The console script."""
    open_standard_descriptors()
    sys.exit(main(sys.argv[1:]))


def open_standard_descriptors() -> None:
    """Open standard input, output and error where whoever started us has closed them.

    Else the next file or socket gets their number, and is read, written to or closed as that.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number, which is this one.
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))


def main(argv: list[str]) -> int:
    """Run a command; the exit code."""
    # Imported late, each of them: see above.
    if argv[:1] == ["demo-server"]:
        from anyport.cli.commands.demo_server import demo_server  # noqa: PLC0415

        return demo_server(argv[1:])
    if argv[:1] in (["stdio"], ["serve"]):
        # Nothing that is imported is garbage, and looking for some costs a tenth of the time.
        gc.disable()
        work = _stdio(argv[1:]) if argv[0] == "stdio" else _serve(argv[1:])
        gc.freeze()
        gc.enable()
        if work is not None:
            from anyport.cli.exit_codes import run_guarded  # noqa: PLC0415

            return run_guarded(work)
    from anyport.cli.main import main as commands  # noqa: PLC0415

    return commands(argv)


def _stdio(argv: list[str]) -> Callable[[], int] | None:
    """What `stdio` does with these options; None where the command line must explain them."""
    from anyport.cli.options import parse_plain  # noqa: PLC0415

    options = parse_plain(argv)
    if options is None:
        return None
    from anyport.cli.commands.stdio import stdio  # noqa: PLC0415

    return partial(stdio, options)


def _serve(argv: list[str]) -> Callable[[], int] | None:
    """The same for `serve`."""
    from anyport.cli.options import parse_plain_serve  # noqa: PLC0415

    read = parse_plain_serve(argv)
    if read is None:
        return None
    from anyport.cli.serve.serve import serve  # noqa: PLC0415

    return partial(serve, *read)


if __name__ == "__main__":
    run()
