"""`python -m anyport` and the command `anyport`.

The two commands that clients and gateways launch, `stdio` and `demo-server`, are started without
the rest of the command line, because somebody waits for them.
"""

import gc
import sys
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
    if argv[:1] == ["stdio"]:
        from anyport.cli.options import read_plain  # noqa: PLC0415

        given = read_plain(argv[1:])
        if given is not None:
            # Nothing that is imported is garbage, and looking for some costs a tenth of the time.
            gc.disable()
            from anyport.cli.ending import guarded  # noqa: PLC0415
            from anyport.cli.stdio import stdio  # noqa: PLC0415

            gc.freeze()
            gc.enable()
            return guarded(partial(stdio, given))
    from anyport.cli.main import main as commands  # noqa: PLC0415

    return commands(argv)


if __name__ == "__main__":
    run()
