"""Workers of this machine, in a process that is stopped for a while."""

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("distributed", exc_type=ImportError)

TASK_STOP_TASK = """
import sys
from generators.engine.clusters import connected

with connected(1) as client:
    print(client.submit(len, "ab", pure=False).result(60), flush=True)
    sys.stdin.readline()
    print(client.submit(len, "abc", pure=False).result(20), flush=True)
"""


def test_a_process_that_was_stopped_for_long_continues():
    # dask removes workers after five silent minutes; with this limit after ten heartbeats, its least time.
    impatient = os.environ | {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "1s"}
    process = subprocess.Popen(
        [sys.executable, "-c", TASK_STOP_TASK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=impatient,
    )
    with process:
        assert process.stdout.readline() == "2\n"
        process.send_signal(signal.SIGSTOP)
        time.sleep(6)
        process.send_signal(signal.SIGCONT)
        time.sleep(2)  # for the scheduler to look at its workers again
        out, errors = process.communicate("\n", timeout=60)
    assert (out, process.returncode) == ("3\n", 0), errors
