"""Numbers that tell the render processes of one host apart."""

import subprocess
import sys

import candlelight.generators.engine.devices
from candlelight.generators.engine.devices import GpuSlot


def test_slots_are_the_lowest_free_numbers(tmp_path):
    slots = [GpuSlot(tmp_path / "slots") for _ in range(3)]
    assert [slot.number for slot in slots] == [0, 1, 2]
    slots[1].close()
    slots[1].close()
    slots.append(GpuSlot(tmp_path / "slots"))
    assert slots[3].number == 1
    for slot in slots:
        slot.close()


def test_a_slot_is_free_when_its_process_ends(tmp_path):
    code = "import os; from pathlib import Path; from candlelight.generators.engine.devices import GpuSlot; "
    code += f"s = GpuSlot(Path({str(tmp_path)!r}))"
    subprocess.run(
        [sys.executable, "-c", f"{code}; assert s.number == 0; os.kill(os.getpid(), 9)"], check=False
    )
    slot = GpuSlot(tmp_path)
    assert slot.number == 0
    slot.close()


def test_processes_that_see_different_gpus_are_numbered_separately(tmp_path, monkeypatch):
    monkeypatch.setattr(candlelight.generators.engine.devices.tempfile, "gettempdir", lambda: str(tmp_path))
    slots = []
    for visible in ("0", "1", "0"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        slots.append(GpuSlot())
    assert [slot.number for slot in slots] == [0, 0, 1]
    for slot in slots:
        slot.close()


def test_without_locks_every_number_is_zero(tmp_path):
    (tmp_path / "file").touch()
    slots = [GpuSlot(tmp_path / "file") for _ in range(2)]
    assert [slot.number for slot in slots] == [0, 0]
    for slot in slots:
        slot.close()
