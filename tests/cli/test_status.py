"""`anyport status`."""

import os
import signal
import subprocess
import sys

from anyport.cli.status import all_run
from tests.cli.stage import Stage
from tests.harness import WAIT_SECONDS


def test_a_server_that_runs_is_shown_with_what_it_speaks(stage: Stage) -> None:
    stage.configure(off={"command": "nothing", "disabled": True})

    ran = stage.run("status")

    assert ran.code == 0
    _, tiny, off = (line.split() for line in ran.out.splitlines())
    assert tiny == ["tiny", "running", "8", "2025-11-25", "legacy", "0"]
    assert off[:3] == ["off", "disabled", "0"]


def test_a_server_that_does_not_run_is_a_failure_with_its_reason(stage: Stage) -> None:
    stage.configure(broken={"command": str(stage.folder / "absent")})

    ran = stage.run("status", "--json")

    assert ran.code == 1
    assert ran.json["backends"]["tiny"]["status"] == "running"
    assert ran.json["backends"]["broken"]["status"] == "failed"
    assert ran.json["backends"]["broken"]["last_error"]


def test_all_run_leaves_out_what_is_switched_off() -> None:
    def report(*states: str) -> dict[str, object]:
        return {"backends": {str(at): {"status": state} for at, state in enumerate(states)}}

    assert all_run(report("running", "disabled"))
    assert not all_run(report("running", "starting"))
    assert all_run(report())


def test_following_repeats_until_it_is_interrupted(stage: Stage) -> None:
    stage.configure()
    command = [sys.executable, "-m", "anyport", "status", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        assert b'"starting"' in process.stdout.readline(), "the first report comes at once"
        assert b'"running"' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130
