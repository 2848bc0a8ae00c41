"""Devices from invented lists, numbers that tell the render processes of one host apart, and processors."""

import os
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from candlelight.generators.engine import devices
from candlelight.generators.engine.devices import (
    Device,
    GpuSlot,
    check_device_choice,
    choose_devices,
    find_devices,
    usable_devices,
)
from candlelight.generators.engine.helper_process import HelperOutput
from candlelight.generators.engine.processor_count import THREADS_VARIABLE, limit_processors
from candlelight.loaders.errors import InputError
from tests.refusals import refused

CPU = Device("CPU", "EPYC", "CPU")
CUDA = [Device("CUDA", "L4", f"CUDA_{i}") for i in range(2)]
OPTIX = [Device("OPTIX", "L4", f"CUDA_{i}_OptiX") for i in range(2)]
HIP = [Device("HIP", "MI210", "HIP_0")]


@pytest.mark.parametrize(
    ("found", "device", "chosen"),
    [
        ([*CUDA, *OPTIX, CPU], "auto", OPTIX),
        ([*HIP, *CUDA, CPU], "auto", CUDA),
        ([*HIP, CPU], "auto", HIP),
        ([*CUDA, *OPTIX, CPU], "cuda", CUDA),
        ([], "auto", [Device("CPU")]),
        ([*CUDA, *OPTIX, CPU], "cpu", [Device("CPU")]),
    ],
)
def test_the_best_kind_of_device_is_chosen(found, device, chosen):
    assert list(choose_devices(found, device)) == chosen


def test_a_missing_device_is_refused():
    with refused(r"`device` hip: expected .* Blender found: OPTIX L4, CPU; take one"):
        choose_devices([*OPTIX, CPU], "hip")
    with refused(r"`device`: expected one of auto, cpu, optix, .*; got gpu"):
        check_device_choice("gpu")


def test_blender_is_not_started_without_a_driver(monkeypatch):
    monkeypatch.setattr(devices, "find_devices", lambda: pytest.fail("asked"))
    monkeypatch.setattr(devices, "may_have_gpu", lambda: False)
    assert usable_devices("auto") == usable_devices("cpu") == (Device("CPU"),)
    monkeypatch.setattr(devices, "may_have_gpu", lambda: True)
    monkeypatch.setattr(devices, "find_devices", lambda: [*CUDA, CPU])
    assert usable_devices("auto") == tuple(CUDA)
    assert usable_devices("cpu") == (Device("CPU"),)


def test_devices_are_those_that_blender_lists(monkeypatch):
    found = (("CUDA", "L4", "CUDA_0"), ("CPU", "EPYC", "CPU"))
    monkeypatch.setattr(devices, "run_helper", lambda *_: HelperOutput(found, 0, "chatter"))
    assert find_devices() == [CUDA[0], CPU]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (HelperOutput((), -11, "no such driver"), r"with status -11 listing them \(no such driver\)"),
        (None, "did not list them within 120 s"),
    ],
)
def test_a_driver_that_crashes_or_hangs(monkeypatch, answer, message):
    def run(module, request, limit, late):
        if answer is None:
            raise InputError(late)
        return answer

    monkeypatch.setattr(devices, "run_helper", run)
    with refused(rf"^devices: Blender .*{message}; use `device` cpu"):
        find_devices()


@pytest.mark.blender
def test_blender_lists_the_processor():
    assert find_devices()[-1].kind == "CPU"


# ------------------------------------------------------------------------------------------------ slots


@pytest.fixture
def slot(tmp_path):
    """Return a function that takes a slot in a folder."""
    taken = []

    def take(folder=tmp_path / "slots"):
        taken.append(GpuSlot(folder))
        return taken[-1]

    yield take
    for one in taken:
        one.close()


def test_slots_are_the_lowest_free_numbers(slot):
    slots = [slot() for _ in range(3)]
    assert [one.number for one in slots] == [0, 1, 2]
    slots[1].close()
    assert slot().number == 1


def test_a_slot_is_free_when_its_process_ends(slot, tmp_path):
    code = "import os; from pathlib import Path; from candlelight.generators.engine.devices import GpuSlot; "
    code += f"s = GpuSlot(Path({str(tmp_path / 'slots')!r})); assert s.number == 0; os.kill(os.getpid(), 9)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert slot().number == 0


def test_processes_that_see_different_gpus_are_numbered_separately(slot, tmp_path, monkeypatch):
    monkeypatch.setattr(devices.tempfile, "gettempdir", lambda: str(tmp_path))
    numbers = []
    for visible in ("0", "1", "0"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        numbers.append(slot(None).number)
    assert numbers == [0, 0, 1]


def test_without_locks_every_number_is_zero(slot, tmp_path):
    (tmp_path / "file").touch()
    assert [slot(tmp_path / "file").number for _ in range(2)] == [0, 0]


# ------------------------------------------------------------------------------------------- processors

two_processors = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two processors, and a system that can limit a process to one",
)


@two_processors
def test_processors_are_limited_until_the_block_ends_also_for_threads_started_inside():
    every, end, found = os.sched_getaffinity(0), threading.Event(), []
    thread = threading.Thread(target=lambda: (end.wait(), found.append(os.sched_getaffinity(0))))
    with suppress(ZeroDivisionError), limit_processors(1):
        assert len(os.sched_getaffinity(0)) == 1
        thread.start()
        raise ZeroDivisionError
    end.set()
    thread.join()
    with limit_processors(sys.maxsize):
        found.append(os.sched_getaffinity(0))
    assert [*found, os.sched_getaffinity(0)] == [every] * 3


BUSY = """
import os
from candlelight.generators.blender import bpy
scene = bpy.context.scene
scene.render.engine, scene.cycles.samples = "CYCLES", 64
scene.render.resolution_x = scene.render.resolution_y = 128
scene.render.threads_mode, scene.render.threads = "FIXED", 1
scene.render.filepath = "/dev/null"
before = os.times()
bpy.ops.render.render(scene=scene.name)
after = os.times()
used = after.user + after.system - before.user - before.system
print("ratio", used / (after.elapsed - before.elapsed))
"""


@pytest.mark.blender
@two_processors
def test_a_render_of_one_thread_uses_one_processor():
    environment = {**os.environ, THREADS_VARIABLE: "1"}
    done = subprocess.run([sys.executable, "-c", BUSY], env=environment, capture_output=True, check=True)
    assert float(done.stdout.split(b"ratio")[1]) < 1.2  # near 2 on an idle machine if a second thread spins
