"""Libraries that a render process loads see as many processors as it has threads."""

import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from candlelight.generators.engine.processor_count import THREADS_VARIABLE, limit_processors

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two processors, and a system that can limit a process to one",
)


def test_the_limit_ends_with_the_block():
    every = os.sched_getaffinity(0)
    with limit_processors(1):
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == every


def test_the_limit_ends_after_an_exception_and_for_threads_started_inside():
    every, end, found = os.sched_getaffinity(0), threading.Event(), []
    thread = threading.Thread(target=lambda: (end.wait(), found.append(os.sched_getaffinity(0))))
    with suppress(ZeroDivisionError), limit_processors(1):
        thread.start()
        raise ZeroDivisionError
    end.set()
    thread.join()
    assert os.sched_getaffinity(0) == every
    assert found == [every]


def test_a_limit_above_the_number_of_processors_changes_nothing():
    every = os.sched_getaffinity(0)
    with limit_processors(sys.maxsize):
        assert os.sched_getaffinity(0) == every


BUSY = """
import os
from candlelight.generators.blender import bpy
scene = bpy.context.scene
scene.render.engine, scene.cycles.samples = "CYCLES", 256
scene.render.resolution_x = scene.render.resolution_y = 192
scene.render.threads_mode, scene.render.threads = "FIXED", 1
scene.render.filepath = "/dev/null"
before = os.times()
bpy.ops.render.render(scene=scene.name)
after = os.times()
used = after.user + after.system - before.user - before.system
print("ratio", used / (after.elapsed - before.elapsed))
"""


@pytest.mark.blender
def test_a_render_of_one_thread_uses_one_processor():
    done = subprocess.run(
        [sys.executable, "-c", BUSY],
        env={**os.environ, THREADS_VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    ratio = float(done.stdout.split("ratio")[1])
    assert ratio < 1.2  # near 2 on an idle machine if a second thread spins
