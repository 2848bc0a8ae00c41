"""The devices of Cycles: list them, and have a scene traced on one of them alone.

``python -m generators.blender.cycles_devices`` lists kind, name and id of each for
`generators.engine.helper_process.run_helper`, because some drivers end the process that asks them.
"""

from typing import Any

from generators.blender import bpy
from generators.engine.devices import GPU_KINDS, Device, DeviceRequest, choose_devices, may_have_gpu
from generators.engine.helper_process import answer_request


def list_devices() -> list[Device]:
    """List the processor and every GPU, once for each kind that it can be used as."""
    preferences = _preferences()
    kinds = {item[0] for item in preferences.get_device_types(bpy.context)}
    found = {
        Device(one.type, one.name, one.id): None
        for kind in (name.upper() for name in GPU_KINDS)
        if kind in kinds
        for one in _devices_of(preferences, kind)
    }
    return [*found, *(Device(one.type, one.name, one.id) for one in preferences.devices if one.type == "CPU")]


def find_device(wish: DeviceRequest) -> Device:
    """Return the device of this machine that a wish means.

    Raises:
        InputError: there is none of that kind.
    """
    asked = wish.device != "cpu" and (wish.device != "auto" or may_have_gpu())
    chosen = choose_devices(list_devices() if asked else (), wish.device)
    return chosen[wish.slot % len(chosen)]


def use_device(scene: Any, device: Device) -> None:
    """Have a scene traced on one device and no other; factory settings undo it."""
    if device.kind == "CPU":
        scene.cycles.device = "CPU"
        return
    preferences = _preferences()
    preferences.compute_device_type = device.kind
    _devices_of(preferences, device.kind)
    for one in preferences.devices:
        one.use = one.id == device.id and one.type == device.kind
    scene.cycles.device = "GPU"


def _devices_of(preferences: Any, kind: str) -> list[Any]:
    preferences.get_device_list(kind)  # fills `devices`, which holds those of other kinds, too
    return [one for one in preferences.devices if one.type == kind]


def _preferences() -> Any:
    return bpy.context.preferences.addons["cycles"].preferences


if __name__ == "__main__":
    answer_request(lambda _: ((one.kind, one.name, one.id) for one in list_devices()))
