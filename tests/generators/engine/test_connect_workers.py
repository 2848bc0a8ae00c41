"""Workers of this machine, in a process that is stopped for a while; messages of asyncio meanwhile."""

import asyncio
import gc
import logging
import os
import signal
import subprocess
import sys
import time

import pytest

from candlelight.generators.engine.connect_workers import without_late_timeouts

pytest.importorskip("distributed", exc_type=ImportError)

TASK_STOP_TASK = """
import sys
from candlelight.generators.engine.connect_workers import connected

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


def drop(error: Exception) -> None:
    """Drop a failed future whose result is never read."""

    async def fail():
        asyncio.get_running_loop().create_future().set_exception(error)
        gc.collect()

    asyncio.run(fail())


def test_only_timeouts_are_silenced_and_only_inside_the_block(caplog):
    with caplog.at_level(logging.ERROR, "asyncio"):
        with without_late_timeouts():
            drop(TimeoutError("Timeout"))
            assert not caplog.records
            drop(ValueError("another"))
            assert len(caplog.records) == 1
        drop(TimeoutError("Timeout"))
        assert len(caplog.records) == 2
