"""Devices of Cycles: list them, and select the device that traces a scene.

``python -m candlelight.generators.blender.cycles_devices`` lists kind, name and id of each device for
`candlelight.generators.engine.helper_process.run_helper`, because some drivers end the process that asks for
devices.
"""

from typing import Any

from candlelight.generators.blender import bpy
from candlelight.generators.engine.devices import (
    GPU_KINDS,
    Device,
    DeviceRequest,
    choose_devices,
    may_have_gpu,
)
from candlelight.generators.engine.helper_process import answer_request


def list_devices() -> list[Device]:
    """List the processor, and every GPU once for each kind of interface that it supports."""
    preferences = _preferences()
    kinds = {item[0] for item in preferences.get_device_types(bpy.context)}
    found = {
        Device(gpu.type, gpu.name, gpu.id): None
        for kind in (name.upper() for name in GPU_KINDS)
        if kind in kinds
        for gpu in _devices_of_kind(preferences, kind)
    }
    return [*found, *(Device(cpu.type, cpu.name, cpu.id) for cpu in preferences.devices if cpu.type == "CPU")]


def find_device(request: DeviceRequest) -> Device:
    """Return the device of this machine that a request names.

    Raises:
        InputError: the machine has no device of that kind.
    """
    asked = request.device != "cpu" and (request.device != "auto" or may_have_gpu())
    chosen = choose_devices(list_devices() if asked else (), request.device)
    return chosen[request.slot % len(chosen)]


def use_device(bpy_scene: Any, device: Device) -> None:
    """Trace a scene on one device only, until Blender is reset to factory settings."""
    if device.kind == "CPU":
        bpy_scene.cycles.device = "CPU"
        return
    preferences = _preferences()
    preferences.compute_device_type = device.kind
    _devices_of_kind(preferences, device.kind)
    for listed in preferences.devices:
        listed.use = listed.id == device.id and listed.type == device.kind
    bpy_scene.cycles.device = "GPU"


def _devices_of_kind(preferences: Any, kind: str) -> list[Any]:
    preferences.get_device_list(kind)  # fills `devices`, which holds devices of other kinds, too
    return [listed for listed in preferences.devices if listed.type == kind]


def _preferences() -> Any:
    return bpy.context.preferences.addons["cycles"].preferences


if __name__ == "__main__":
    answer_request(lambda _: ((device.kind, device.name, device.id) for device in list_devices()))
