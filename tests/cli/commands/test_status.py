"""`anyport status`."""

import json
import os
import signal
import subprocess
import sys

import pytest

from anyport.cli.commands.status import are_all_running, print_report
from tests.cli.running import running
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


def test_the_hooks_of_a_gateway_that_runs_are_a_table(stage: Stage) -> None:
    file = stage.configure()
    hooks = [
        {"name": "quiet", "on": "status:timeout", "run": ["true"]},
        {"name": "alarm", "on": "status:error", "post": "${env:ANYPORT_TEST_ABSENT}"},
    ]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"hooks": hooks}))

    assert "HOOK" not in stage.run("status").out, "one for the occasion sets none off"
    with running("--config", str(file), "--state-dir", str(stage.state)) as there:
        ran = stage.run("status", "--url", there.url)

    _, _, table = ran.out.partition("\n\n")
    titles, quiet, alarm = table.splitlines()
    assert titles.split() == ["HOOK", "ACTION", "DELIVERED", "FAILED", "DROPPED", "LAST", "ERROR"]
    assert quiet.split() == ["quiet", "run", "0", "0", "0"]
    assert alarm.split()[:5] == ["alarm", "post", "0", "0", "0"]
    assert "ANYPORT_TEST_ABSENT" in alarm


def test_what_a_collector_does_not_take_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry = {"dropped": 0, "troubles": {"spans": "HTTP 401"}}
    report = {"backends": {}, "gateway": {"event_monitoring": {"telemetry": telemetry}}}

    print_report(report, as_json=False, follow=False)

    assert capsys.readouterr().err == "anyport: warning: telemetry (spans): HTTP 401\n"


def test_all_run_leaves_out_what_is_switched_off() -> None:
    def report(*states: str, blocking: bool = False) -> dict[str, object]:
        return {
            "gateway": {"event_monitoring": {"blocking": blocking}},
            "backends": {str(at): {"status": state} for at, state in enumerate(states)},
        }

    assert are_all_running(report("running", "idle", "disabled"))
    assert not are_all_running(report("running", "starting"))
    assert are_all_running(report())
    assert not are_all_running(report("running", blocking=True)), "no call is served"


def test_following_repeats_until_it_is_interrupted(stage: Stage) -> None:
    stage.configure()
    command = [sys.executable, "-m", "anyport", "status", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        assert process.stdout is not None
        assert b'"starting"' in process.stdout.readline(), "the first report comes at once"
        assert b'"running"' in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 130
