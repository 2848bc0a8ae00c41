"""The stage: one Blender scene, built once and then changed from trace to trace."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from blender_assets import AssetLibrary
from generators.blender import bpy
from generators.blender.materials import Materials, base_color
from generators.camera import world_to_camera
from generators.layout import WORLD
from generators.scene import Camera, Environment, Floor, Thing, Trace
from loaders.schema import LightRecord, Vector

SENSOR_WIDTH = 36.0  # mm; only the ratio to the focal length matters


class Stage:
    """A Blender scene that is set up for one image size and layer list, and shows one trace at a time.

    Meshes, materials and environment maps are read from their files once and kept.

    Args:
        width: pixels.
        height: pixels.
        samples: paths per pixel.
        bounces: largest number of bounces of a path.
        threads: render threads; the pixels do not depend on it.
        library: where assets are found.
    """

    def __init__(
        self, *, width: int, height: int, samples: int, bounces: int, threads: int, library: AssetLibrary
    ) -> None:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        bpy.context.preferences.filepaths.use_scripts_auto_execute = False
        self._library = library
        self._meshes: dict[str, Any] = {}
        self._worlds: dict[str, Any] = {}
        self._materials = Materials(library)
        self.scene = bpy.context.scene
        self._collection = self.scene.collection
        self._camera = self._new_object("camera", bpy.data.cameras.new("camera"))
        self._camera.data.sensor_width = SENSOR_WIDTH
        self._camera.data.sensor_fit = "HORIZONTAL"
        self._camera.data.clip_end = 1000.0
        self.scene.camera = self._camera
        self._floor = self._new_object("floor", _plane_mesh())
        self._things: list[Any] = []
        self._lamps: list[Any] = []
        configure(self.scene, width, height, samples, bounces, threads)

    def show(self, trace: Trace) -> list[Vector | None]:
        """Change the scene into that of ``trace``; nothing of the trace before stays.

        Returns:
            The base colour of each object as its material has it, None where a texture decides it.
        """
        self.scene.cycles.seed = trace.cycles_seed
        for thing in self._things:
            bpy.data.objects.remove(thing)
        self._materials.start()
        self._things = [self._place(thing, i + 1) for i, thing in enumerate(trace.objects)]
        for lamp in self._lamps:
            bpy.data.lights.remove(lamp.data)
        self._lamps = [self._hang(light) for light in trace.lights]
        self._surround(trace.environment)
        self._lay(trace.floor)
        aim(self._camera, trace.camera)
        return [base_color(thing.material_slots[0].material) for thing in self._things]

    def _new_object(self, name: str, data: Any) -> Any:
        thing = bpy.data.objects.new(name, data)
        self._collection.objects.link(thing)
        return thing

    def _place(self, thing: Thing, index: int) -> Any:
        mesh = self._mesh(thing.type)
        placed = self._new_object(f"object {index}", mesh)
        placed.location = thing.location
        placed.rotation_euler = (0.0, 0.0, math.radians(thing.rotation))
        placed.scale = (thing.size,) * 3
        placed.pass_index = index
        self._materials.apply(placed, thing.material)
        return placed

    def _mesh(self, label: str) -> Any:
        if label not in self._meshes:
            source = append(self._library.find("objects", label), "objects", label)
            mesh = source.data
            bpy.data.objects.remove(source)
            mesh.use_fake_user = True
            if not mesh.materials:
                mesh.materials.append(None)
            self._meshes[label] = mesh
        return self._meshes[label]

    def _hang(self, light: LightRecord) -> Any:
        lamp = bpy.data.lights.new(light.name, "POINT")
        lamp.energy, lamp.shadow_soft_size, lamp.color = light.power, light.radius, light.color
        hung = self._new_object(light.name, lamp)
        hung.location = light.location
        hung.lightgroup = light.name
        return hung

    def _surround(self, environment: Environment | None) -> None:
        # A world of its own for each map, and touched only where it changes: Cycles builds the map's sampling
        # table anew at every touch, which costs more than tracing a small frame.
        label = "" if environment is None else environment.map
        if label not in self._worlds:
            self._worlds[label] = self._new_world(label)
        world = self._worlds[label]
        if self.scene.world != world:
            self.scene.world = world
        if environment is not None:
            nodes = world.node_tree.nodes
            _set(nodes["turn"].inputs["Rotation"], (0.0, 0.0, math.radians(environment.rotation)))
            _set(nodes["shader"].inputs["Strength"], environment.strength)

    def _new_world(self, label: str) -> Any:
        """Make the world of one map; without a label, a black one."""
        world = bpy.data.worlds.new(label or "dark")
        world.use_fake_user = True
        world.lightgroup = WORLD
        # Measured at 16 samples on changing worlds: 0.3 CPU s a frame against 1.85 s with the resolution that
        # Cycles chooses, for 4 % more noise before denoising.
        world.cycles.sampling_method, world.cycles.sample_map_resolution = "MANUAL", 1024
        tree = world.node_tree
        tree.nodes.clear()
        output = tree.nodes.new("ShaderNodeOutputWorld")
        shader = tree.nodes.new("ShaderNodeBackground")
        shader.name = "shader"
        shader.inputs["Color"].default_value = (0.0, 0.0, 0.0, 1.0)
        tree.links.new(shader.outputs[0], output.inputs["Surface"])
        if label:
            where = tree.nodes.new("ShaderNodeTexCoord")
            turn = tree.nodes.new("ShaderNodeMapping")
            turn.name = "turn"
            image = tree.nodes.new("ShaderNodeTexEnvironment")
            image.image = load_map(self._library.find("scenes", label))
            image.image.colorspace_settings.name = "Linear Rec.709"
            tree.links.new(where.outputs["Generated"], turn.inputs["Vector"])
            tree.links.new(turn.outputs["Vector"], image.inputs["Vector"])
            tree.links.new(image.outputs["Color"], shader.inputs["Color"])
        return world

    def _lay(self, floor: Floor | None) -> None:
        self._floor.hide_render = floor is None
        if floor is None:
            return
        self._floor.scale = (floor.half_width, floor.half_width, 1.0)
        self._floor.is_shadow_catcher = floor.catcher
        self._materials.apply_floor(self._floor, floor)


def configure(scene: Any, width: int, height: int, samples: int, bounces: int, threads: int) -> None:
    """Set what no trace changes: engine, size, samples, colour management."""
    render, cycles = scene.render, scene.cycles
    render.engine = "CYCLES"
    render.resolution_x, render.resolution_y, render.resolution_percentage = width, height, 100
    render.threads_mode, render.threads = "FIXED", threads
    render.use_persistent_data = True
    render.film_transparent = False
    scene.view_settings.view_transform = "Standard"
    scene.view_settings.look = "None"
    cycles.device = "CPU"
    cycles.samples = samples
    cycles.use_adaptive_sampling = False
    cycles.use_denoising = False
    cycles.max_bounces = bounces
    # Paths are never clamped: the sum of the passes must stay the radiance that was traced.
    cycles.sample_clamp_direct = cycles.sample_clamp_indirect = 0.0


def append(path: Path, collection: str, label: str) -> Any:
    """Append one named datablock from a .blend file, and nothing else.

    The block of that name is taken, whatever its case; where the file holds one block of the kind only, that
    one is taken whatever it is called.

    Raises:
        ValueError: the file is damaged, or holds no such block.
    """
    try:
        with bpy.data.libraries.load(str(path), link=False) as (source, target):
            names = list(getattr(source, collection))
            wanted = [name for name in names if name.lower() == label.lower()] or names
            if len(wanted) != 1:
                raise ValueError(
                    f"{path.name}: expected one block named `{label}` in {collection}, "
                    f"found {names or 'none'}; give the block the file's name"
                )
            setattr(target, collection, wanted)
    except OSError:
        raise ValueError(f"{path}: cannot be read as a .blend file; replace it") from None
    return getattr(target, collection)[0]


def load_map(path: Path) -> Any:
    """Load an environment map.

    Raises:
        ValueError: the file is damaged; Blender itself would go on with a map of one colour.
    """
    try:
        image = bpy.data.images.load(str(path))
    except RuntimeError:
        raise ValueError(f"{path}: cannot be read as an image; replace it") from None
    if not image.size[0]:
        raise ValueError(f"{path}: cannot be read as an image; replace it")
    return image


def aim(camera: Any, plan: Camera) -> None:
    """Put the camera where the plan has it; Blender's cameras look along -Z with Y up."""
    matrix = np.linalg.inv(world_to_camera(plan))
    matrix[:3, 1:3] *= -1
    camera.matrix_world = [list(row) for row in matrix.T.tolist()]
    camera.data.lens = SENSOR_WIDTH / 2 / math.tan(math.radians(plan.field_of_view) / 2)


def _set(socket: Any, value: Any) -> None:
    """Set a socket, but only if that changes it."""
    # Blender keeps single precision, so that is what is compared.
    if not np.array_equal(np.array(socket.default_value, np.float32), np.array(value, np.float32)):
        socket.default_value = value


def _plane_mesh() -> Any:
    mesh = bpy.data.meshes.new("floor")
    mesh.from_pydata([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)], [], [(0, 1, 2, 3)])
    mesh.materials.append(None)
    return mesh
