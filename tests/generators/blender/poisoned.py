"""Make malicious .blend files, which write to disk or read files of other folders, and open them.

``python poisoned.py make FOLDER MARKERS`` writes FOLDER/{materials,objects,scenes}/NAME.blend. Each file
tries to write a file into the folder MARKERS, or to read a file from there.
``python poisoned.py open FILE...`` opens each file in a Blender that runs scripts, and renders it.
"""

import os
import sys
from pathlib import Path

import bpy  # noqa: TID251 - a script that runs in its own process

# A green shader in OSL's byte code, because bpy has no compiler.
GREEN = """OpenShadingLanguage 1.00
# Compiled by oslc 1.14.5
# options:
shader green
oparam\tcolor\tC\t1 0 0\t\t%read{2147483647,-1} %write{0,0} %derivs
const\tcolor\t$const1\t0 1 0\t\t%read{0,0} %write{2147483647,-1}
code C
code ___main___
# green.osl:1
\tassign\t\tC $const1 \t%argrw{"wr"}
\tend
"""


class Maker:
    """Makes .blend files one after another.

    Args:
        folder: the folder of the .blend files.
        markers: the folder that the files try to write to and to read from.
    """

    def __init__(self, folder: Path, markers: Path) -> None:
        self.folder, self.markers = folder, markers

    def start(self):
        """Begin a file: a red cube in front of a camera, lit by the world."""
        bpy.ops.wm.read_factory_settings(use_empty=True)
        self.scene = bpy.context.scene
        self.scene.render.engine = "CYCLES"
        self.scene.render.resolution_x = self.scene.render.resolution_y = 8
        self.scene.cycles.samples, self.scene.cycles.use_denoising = 1, False
        self.scene.view_settings.view_transform = "Standard"
        self.scene.render.filepath = str(self.markers / "still.png")
        stand = self.link(bpy.data.objects.new("stand", bpy.data.cameras.new("stand")))
        stand.location = (0, 0, 3)
        self.scene.camera = stand
        self.scene.world = bpy.data.worlds.new("World")
        bpy.ops.mesh.primitive_cube_add(size=1)
        self.cube = bpy.context.object
        self.cube.name = "cube"
        self.material = bpy.data.materials.new("paint")
        self.material.use_fake_user = True
        self.nodes = self.material.node_tree.nodes
        self.shader = next(node for node in self.nodes if node.type == "BSDF_PRINCIPLED")
        self.shader.inputs["Base Color"].default_value = (0.8, 0.1, 0.1, 1.0)
        self.cube.data.materials.append(self.material)

    def link(self, made):
        self.scene.collection.objects.link(made)
        return made

    def save(self, kind, name):
        (self.folder / kind).mkdir(parents=True, exist_ok=True)
        file = self.folder / kind / f"{name}.blend"
        bpy.ops.wm.save_as_mainfile(filepath=str(file), relative_remap=False)

    def save_scene(self, name):
        """Save the scene as a modelled scene."""
        collection = bpy.data.collections.new(name)
        self.scene.collection.children.link(collection)
        for made in list(self.scene.collection.objects):
            if made.type != "CAMERA":
                collection.objects.link(made)
                self.scene.collection.objects.unlink(made)
        self.save("scenes", name)

    def drive(self, block, field, name, index=-1):
        """Add a driver that writes a file and evaluates to 0."""
        curve = block.driver_add(field, index)
        curve.driver.type = "SCRIPTED"
        curve.driver.expression = f"len(open('{self.markers / name}', 'w').name) * 0.0"

    def script(self, name):
        """Add a text that writes a file when Blender opens the .blend file, and handlers that do, too."""
        text = bpy.data.texts.new(f"{name}.py")
        text.use_module = True
        text.write(
            f"import bpy\nopen('{self.markers / name}', 'w')\n"
            f"def run(*_): open('{self.markers / name}_handler', 'w')\n"
            "for handlers in (bpy.app.handlers.load_post, bpy.app.handlers.depsgraph_update_post,\n"
            "                 bpy.app.handlers.render_pre):\n    handlers.append(run)\n"
        )
        return text


def drivers(make):
    make.start()
    tree, cube = make.material.node_tree, make.cube
    make.drive(tree, f'nodes["{make.shader.name}"].inputs["Roughness"].default_value', "driver_nodes")
    make.drive(make.material, "pass_index", "driver_material")
    group = bpy.data.node_groups.new("inner", "ShaderNodeTree")
    group.interface.new_socket("value", in_out="OUTPUT", socket_type="NodeSocketFloat")
    value, end = group.nodes.new("ShaderNodeValue"), group.nodes.new("NodeGroupOutput")
    value.outputs[0].default_value = 0.0
    group.links.new(value.outputs[0], end.inputs[0])
    make.drive(group, f'nodes["{value.name}"].outputs[0].default_value', "driver_group")
    inner = make.nodes.new("ShaderNodeGroup")
    inner.node_tree = group
    tree.links.new(inner.outputs[0], make.shader.inputs["Metallic"])
    make.save("materials", "driven")
    cube.data["size"] = 1.0
    make.drive(cube.data, '["size"]', "driver_mesh")
    cube.shape_key_add(name="still")
    key = cube.shape_key_add(name="moved")
    make.drive(cube.data.shape_keys, f'key_blocks["{key.name}"].value', "driver_key")
    cube.name = "driven"
    make.save("objects", "driven")
    make.drive(cube, "location", "driver_object", 0)
    make.drive(make.scene.world, "mist_settings.start", "driver_world")
    lamp = make.link(bpy.data.objects.new("lamp", bpy.data.lights.new("lamp", "POINT")))
    make.drive(lamp.data, "energy", "driver_lamp")
    make.save_scene("driven")


def scripts(make):
    make.start()
    make.material["text"] = make.script("text")
    make.material["file"] = bpy.data.texts.new("elsewhere.py")
    bpy.data.texts["elsewhere.py"].filepath = str(make.markers / "secret.py")
    make.material["scene"] = make.scene
    make.save("materials", "scripted")


def outputs(make):
    """Attach a whole scene with an output path and a compositor that writes files."""
    make.start()
    make.scene.render.filepath = str(make.markers / "filepath.png")
    tree = bpy.data.node_groups.new("compositor", "CompositorNodeTree")
    layers, output = tree.nodes.new("CompositorNodeRLayers"), tree.nodes.new("CompositorNodeOutputFile")
    output.directory, output.file_name = str(make.markers), "compositor"
    output.file_output_items.new("RGBA", "Image")
    tree.links.new(layers.outputs[0], output.inputs[0])
    make.scene.compositing_node_group = tree
    make.material["scene"], make.material["tree"] = make.scene, tree
    make.material["workspace"] = bpy.data.workspaces[0]
    make.save("materials", "composed")


def osl(make):
    make.start()
    make.scene.cycles.shading_system = True
    node = make.nodes.new("ShaderNodeScript")
    node.mode, node.filepath, node.bytecode = "EXTERNAL", "/nowhere.osl", GREEN
    node.outputs.new("NodeSocketColor", "C")
    make.material.node_tree.links.new(node.outputs["C"], make.shader.inputs["Emission Color"])
    make.shader.inputs["Emission Strength"].default_value = 1.0
    make.scene.render.filepath = str(make.markers / "osl.png")
    make.save("materials", "osl")


def simulations(make):
    make.start()
    soft = make.cube.modifiers.new("soft", "SOFT_BODY")
    make.save_scene("cached")  # while the file has no name, Blender writes no cache to disk
    soft.point_cache.use_disk_cache = True
    make.save("scenes", "cached")
    soft.point_cache.use_external = True
    soft.point_cache.filepath = str(make.markers)
    make.save("scenes", "external")
    make.start()
    tree = bpy.data.node_groups.new("baked", "GeometryNodeTree")
    tree.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    tree.nodes.new("GeometryNodeBake")
    make.cube.modifiers.new("bake", "NODES").node_group = tree
    make.save_scene("baked")
    make.start()
    fluid = make.cube.modifiers.new("fluid", "FLUID")
    fluid.fluid_type = "DOMAIN"
    fluid.domain_settings.cache_directory = str(make.markers / "fluid")
    fluid.domain_settings.resolution_max = 6
    make.save_scene("fluid")


def elsewhere(make):
    """Refer to files outside the folder: images, also by a link, a film, a light profile, a .blend file."""
    secret = bpy.data.images.new("secret", 4, 4)
    secret.filepath_raw, secret.file_format = str(make.markers / "secret.png"), "PNG"
    secret.save()
    folder = make.folder / "materials"
    (folder / "linked.png").symlink_to(make.markers / "secret.png")
    for name, file in (
        ("absolute", str(make.markers / "secret.png")),
        ("climbing", f"//../../{make.markers.name}/secret.png"),
        ("linked", "//linked.png"),
        ("missing", "//missing.png"),
        ("device", "/dev/zero"),
        ("tiled", f"//../../{make.markers.name}/secret.<UDIM>.png"),
        ("film", "//film.png"),
    ):
        make.start()
        image = bpy.data.images.new(name, 4, 4)
        image.source = {"tiled": "TILED", "film": "SEQUENCE"}.get(name, "FILE")
        image.filepath = file
        _show(make, image)
        make.save("materials", name)
    make.start()
    image = bpy.data.images.new("vast", 4, 4)
    image.generated_width = image.generated_height = 60000
    _show(make, image)
    make.save("materials", "vast")
    make.start()
    image = bpy.data.images.new("half", 4, 4, tiled=True)
    image.pixels = [0.5] * 64
    image.pack()
    image.tiles.new(1002)
    image.filepath_raw = str(make.markers / "half.<UDIM>.png")
    _show(make, image)
    make.save("materials", "half")
    make.start()
    profile = make.nodes.new("ShaderNodeTexIES")
    profile.mode, profile.filepath = "EXTERNAL", str(make.markers / "secret.ies")
    make.save("materials", "profile")
    profile.mode, profile.ies = "INTERNAL", bpy.data.texts.new("lamp")
    make.save("materials", "worded")
    make.start()
    make.save("..", f"{make.markers.name}/library")
    make.start()
    with bpy.data.libraries.load(str(make.markers / "library.blend"), link=True) as (_, target):
        target.materials = ["paint"]
    make.cube.data.materials[0] = target.materials[0]
    make.cube.name = "borrowed"
    make.save("objects", "borrowed")


def imports(make):
    make.start()
    tree = bpy.data.node_groups.new("imports", "GeometryNodeTree")
    tree.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    node, end = tree.nodes.new("GeometryNodeImportOBJ"), tree.nodes.new("NodeGroupOutput")
    node.inputs[0].default_value = str(make.markers / "secret.obj")
    tree.links.new(node.outputs[0], end.inputs[0])
    make.cube.modifiers.new("nodes", "NODES").node_group = tree
    make.save_scene("imported")


def harmless(make):
    """Refer to allowed files: images in the folder and packed, and driven nodes of a file in the folder."""
    make.start()
    group = bpy.data.node_groups.new("lent", "ShaderNodeTree")
    group.use_fake_user = True
    group.interface.new_socket("color", in_out="OUTPUT", socket_type="NodeSocketColor")
    color, end = group.nodes.new("ShaderNodeRGB"), group.nodes.new("NodeGroupOutput")
    color.outputs[0].default_value = (0.01, 0.3185, 0.0331, 1.0)
    group.links.new(color.outputs[0], end.inputs[0])
    make.drive(group, f'nodes["{color.name}"].outputs[0].default_value', "driver_lent", 0)
    make.save("materials", "lender")
    make.start()
    lender = str(make.folder / "materials" / "lender.blend")
    with bpy.data.libraries.load(lender, link=True, relative=False) as (_, target):
        target.node_groups = ["lent"]
    inner = make.nodes.new("ShaderNodeGroup")
    inner.node_tree = target.node_groups[0]
    make.material.node_tree.links.new(inner.outputs[0], make.shader.inputs["Base Color"])
    target.node_groups[0].library.filepath = "//lender.blend"
    make.save("materials", "beholden")
    make.start()
    beside = bpy.data.images.new("beside", 4, 4)
    beside.pixels = [0.1, 0.6, 0.2, 1.0] * 16
    beside.filepath_raw, beside.file_format = str(make.folder / "materials" / "beside.png"), "PNG"
    beside.save()
    beside.filepath = "//beside.png"
    _show(make, beside)
    make.save("materials", "beside")
    make.start()
    packed = bpy.data.images.new("packed", 4, 4)
    packed.pixels = [0.1, 0.6, 0.2, 1.0] * 16
    packed.filepath_raw = str(make.markers / "packed.png")
    packed.pack()
    _show(make, packed)
    make.save("materials", "packed")


def _show(make, image):
    node = make.nodes.new("ShaderNodeTexImage")
    node.image = image
    make.material.node_tree.links.new(node.outputs["Color"], make.shader.inputs["Base Color"])


def make_all(folder, markers):
    """Make every file."""
    make = Maker(folder, markers)
    for attack in (drivers, scripts, outputs, osl, simulations, elsewhere, imports, harmless):
        attack(make)


def open_all(files):
    """Open each file as trusted, and render two frames."""
    for file in files:
        bpy.ops.wm.open_mainfile(filepath=file, use_scripts=True)
        bpy.context.preferences.filepaths.use_scripts_auto_execute = True
        bpy.context.scene.frame_set(1)
        bpy.ops.render.render(write_still=True)
        bpy.context.scene.frame_set(2)
    sys.stdout.flush()
    os._exit(0)  # Blender's fluids abort at a normal end of the process


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make_all(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        open_all(sys.argv[2:])
