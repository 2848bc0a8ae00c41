"""Make .blend files in the convention of CANDLE's generator: ``python originals.py GOOD BAD IMAGE``.

Each is a whole file, as Blender saves it, and not a single datablock: names are capitalised, and the file
holds the scene and its collection, too. GOOD gets a folder of each kind; BAD gets files that must be refused,
one of which refers to IMAGE.
"""

import math
import sys
from pathlib import Path

import bpy  # noqa: TID251 - a script that runs in its own process


def start():
    bpy.ops.wm.read_factory_settings(use_empty=True)


def save(folder, name):
    folder.mkdir(parents=True, exist_ok=True)
    bpy.ops.wm.save_as_mainfile(filepath=str(folder / f"{name}.blend"), compress=True, relative_remap=False)


def shape(add, name, lift, **sizes):
    """Add a primitive of 2 m with its origin at its base, scaled by half on the object but not its mesh."""
    add(**sizes)
    made = bpy.context.object
    made.name = name
    for vertex in made.data.vertices:
        vertex.co.z += lift
    made.scale = (0.5, 0.5, 0.5)


def doll(bearer):
    """Add a cube whose part `hat` is attached to another, as a custom property of its material says."""
    shape(bpy.ops.mesh.primitive_cube_add, "Doll", 1.0, size=2)
    mesh = bpy.context.object.data
    for name in ("head", "hat"):
        mesh.materials.append(material(name, (0.5, 0.5, 0.5)))
    mesh.materials["hat"]["attached_to"] = bearer
    mesh.polygons[0].material_index = 1


def material(name, color):
    made = bpy.data.materials.new(name)
    made.use_fake_user = True
    shader = next(node for node in made.node_tree.nodes if node.type == "BSDF_PRINCIPLED")
    shader.inputs["Base Color"].default_value = (*color, 1.0)
    return made


def light(name, location, kind="POINT"):
    data = bpy.data.lights.new(name, kind)
    data.energy = 5000.0
    if kind == "POINT":
        data.shadow_soft_size = 0.25
    made = bpy.data.objects.new(name, data)
    made.location = location
    bpy.context.scene.collection.objects.link(made)
    return made


def world(image=None):
    """Make a world that shows ``image``, or by default a small packed map, blue above and green below."""
    made = bpy.data.worlds.new("World")
    bpy.context.scene.world = made
    tree = made.node_tree
    background = next(node for node in tree.nodes if node.type == "BACKGROUND")
    node = tree.nodes.new("ShaderNodeTexEnvironment")
    if image is None:
        image = bpy.data.images.new("sky", 32, 16, float_buffer=True)
        image.pixels = [c for row in range(16) for _ in range(32) for c in _color(row)]
        image.pack()
    node.image = image
    tree.links.new(node.outputs["Color"], background.inputs["Color"])


def _color(row):
    return (0.1, 0.4, 0.1, 1.0) if row < 8 else (0.2, 0.3, 0.8, 1.0)


def camera(pitch=0.0, roll=0.0, **optics):
    """Add a camera at (1, 15, 3) that looks along -y, in a collection named as in a new Blender file."""
    collection = bpy.data.collections.new("Collection")
    bpy.context.scene.collection.children.link(collection)
    made = bpy.data.cameras.new("Camera")
    for name, value in optics.items():
        setattr(made, name, value)
    stand = bpy.data.objects.new("Camera", made)
    stand.location = (1.0, 15.0, 3.0)
    stand.rotation_euler = (math.radians(90 + pitch), math.radians(roll), math.radians(180))
    collection.objects.link(stand)
    bpy.context.scene.camera = stand


def make_good(folder):
    ops = bpy.ops.mesh
    start()
    shape(ops.primitive_cube_add, "Cube", 1.0, size=2)
    save(folder / "objects", "cube")
    start()
    shape(ops.primitive_torus_add, "Torus", 0.25, major_radius=1.0, minor_radius=0.25)
    save(folder / "objects", "torus")
    start()
    doll("head")
    save(folder / "objects", "doll")
    start()
    material("Red", (0.8, 0.0866, 0.0804))
    save(folder / "materials", "red")
    for name, location in (("left", (5, -5, 7)), ("right", (-5, 5, 7))):
        start()
        made = light(name.capitalize(), location)
        if name == "right":
            made.data.use_nodes = True
            made.data.node_tree.nodes["Emission"].inputs["Strength"].default_value = 2.0
        save(folder / "lights", name)
    start()
    world()
    camera(lens=40.0)
    save(folder / "scenes", "harbour")


def make_bad(folder):
    ops = bpy.ops.mesh
    start()
    shape(ops.primitive_cube_add, "Cube", 0.0, size=2)
    save(folder, "sunk")
    start()
    doll("neck")
    save(folder, "loose")
    start()
    bpy.context.scene.collection.objects.link(bpy.data.objects.new("hollow", bpy.data.meshes.new("hollow")))
    save(folder, "hollow")
    start()
    light("Sun", (0, 0, 5), "SUN")
    save(folder, "sun")
    start()
    light("Warm", (0, 0, 5)).data.exposure = 1.0
    save(folder, "warm")
    start()
    material("One", (0, 0, 0))
    material("Two", (0, 0, 0))
    save(folder, "both")
    start()
    camera()
    save(folder, "nowhere")
    start()
    sky = bpy.data.images.load(sys.argv[3])
    world(sky)
    save(folder, "elsewhere")
    for name, turns, optics in (
        ("rolled", {"roll": 5.0}, {}),
        ("upright", {"pitch": -90.0}, {}),
        ("flat", {}, {"type": "ORTHO"}),
        ("shifted", {}, {"shift_x": 0.1}),
    ):
        start()
        world()
        camera(**turns, **optics)
        save(folder, name)
    (folder / "torn.blend").write_bytes(b"BLENDER-v293 torn")


if __name__ == "__main__":
    make_good(Path(sys.argv[1]))
    make_bad(Path(sys.argv[2]))
