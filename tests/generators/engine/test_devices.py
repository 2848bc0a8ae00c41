"""Choosing devices from invented lists."""

import pytest

import candlelight.generators.engine.devices
from candlelight.generators.engine.devices import (
    Device,
    check_device_choice,
    choose_devices,
    find_devices,
    usable_devices,
)
from candlelight.generators.engine.helper_process import HelperOutput
from candlelight.loaders.errors import InputError

CPU = Device("CPU", "EPYC", "CPU")
CUDA = [Device("CUDA", "L4", f"CUDA_{i}") for i in range(2)]
OPTIX = [Device("OPTIX", "L4", f"CUDA_{i}_OptiX") for i in range(2)]
HIP = [Device("HIP", "MI210", "HIP_0")]


@pytest.mark.parametrize(
    ("found", "device", "chosen"),
    [
        ([*CUDA, *OPTIX, CPU], "auto", OPTIX),
        ([*CUDA, CPU], "auto", CUDA),
        ([*HIP, CPU], "auto", HIP),
        ([*HIP, *CUDA, CPU], "auto", CUDA),
        ([*CUDA, *OPTIX, CPU], "cuda", CUDA),
        ([CPU], "auto", [Device("CPU")]),
        ([], "auto", [Device("CPU")]),
        ([*CUDA, *OPTIX, CPU], "cpu", [Device("CPU")]),
    ],
)
def test_choose_devices(found, device, chosen):
    assert list(choose_devices(found, device)) == chosen


def test_a_missing_device_is_refused_in_one_line():
    with pytest.raises(
        InputError, match=r"`device` hip: expected .* Blender found: OPTIX L4, CPU; take one"
    ) as e:
        choose_devices([*OPTIX, CPU], "hip")
    assert "\n" not in str(e.value)
    with pytest.raises(InputError, match=r"`device`: expected one of auto, cpu, optix, .*; got gpu"):
        check_device_choice("gpu")


def test_blender_is_not_started_without_a_driver(monkeypatch):
    monkeypatch.setattr(candlelight.generators.engine.devices, "find_devices", lambda: pytest.fail("asked"))
    monkeypatch.setattr(candlelight.generators.engine.devices, "may_have_gpu", lambda: False)
    assert usable_devices("auto") == usable_devices("cpu") == (Device("CPU"),)
    monkeypatch.setattr(candlelight.generators.engine.devices, "may_have_gpu", lambda: True)
    monkeypatch.setattr(candlelight.generators.engine.devices, "find_devices", lambda: [*CUDA, CPU])
    assert usable_devices("auto") == tuple(CUDA)
    assert usable_devices("cpu") == (Device("CPU"),)


def test_find_devices(monkeypatch):
    found = (("CUDA", "L4", "CUDA_0"), ("CPU", "EPYC", "CPU"))
    monkeypatch.setattr(
        candlelight.generators.engine.devices, "run_helper", lambda *_: HelperOutput(found, 0, "chatter")
    )
    assert find_devices() == [CUDA[0], CPU]
    monkeypatch.setattr(
        candlelight.generators.engine.devices,
        "run_helper",
        lambda *_: HelperOutput((), -11, "no such driver"),
    )
    message = r"devices: Blender ended with status -11 listing them \(no such driver\); use `device` cpu"
    with pytest.raises(InputError, match=message):
        find_devices()


def test_a_driver_that_hangs(monkeypatch):
    def hang(module, request, limit, late):
        raise InputError(late)

    monkeypatch.setattr(candlelight.generators.engine.devices, "run_helper", hang)
    with pytest.raises(InputError, match=r"did not list them within 120 s; use `device` cpu"):
        find_devices()


@pytest.mark.blender
def test_blender_lists_the_processor():
    assert find_devices()[-1].kind == "CPU"
