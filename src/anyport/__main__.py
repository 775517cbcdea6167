"""`python -m anyport` and the command `anyport`.

The commands that clients and gateways launch, `stdio` and `demo-server`, are started without the
rest of the command line, because somebody waits for them; `serve`, because it runs for months and
needs none of it.
"""

import gc
import sys
from collections.abc import Callable
from functools import partial


def run() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))


def main(argv: list[str]) -> int:
    """Run a command; the exit code."""
    # Imported late, each of them: see above.
    if argv[:1] == ["demo-server"]:
        from anyport.cli.demo_server import demo_server  # noqa: PLC0415

        return demo_server(argv[1:])
    if argv[:1] in (["stdio"], ["serve"]):
        # Nothing that is imported is garbage, and looking for some costs a tenth of the time.
        gc.disable()
        work = _stdio(argv[1:]) if argv[0] == "stdio" else _serve(argv[1:])
        gc.freeze()
        gc.enable()
        if work is not None:
            from anyport.cli.ending import guarded  # noqa: PLC0415

            return guarded(work)
    from anyport.cli.main import main as commands  # noqa: PLC0415

    return commands(argv)


def _stdio(argv: list[str]) -> Callable[[], int] | None:
    """What `stdio` does with these options; None where the command line must explain them."""
    from anyport.cli.options import read_plain  # noqa: PLC0415

    given = read_plain(argv)
    if given is None:
        return None
    from anyport.cli.stdio import stdio  # noqa: PLC0415

    return partial(stdio, given)


def _serve(argv: list[str]) -> Callable[[], int] | None:
    """The same for `serve`."""
    from anyport.cli.options import read_plain_serve  # noqa: PLC0415

    read = read_plain_serve(argv)
    if read is None:
        return None
    from anyport.cli.serve import serve  # noqa: PLC0415

    return partial(serve, *read)


if __name__ == "__main__":
    run()
