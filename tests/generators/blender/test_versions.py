"""Differences between versions of Blender: settings that decide pixels, nodes and blocks that read files."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.blender

END = "--- end of a script ---"

# Print the settings that `configure` leaves alone, and those whose value is another after it.
SETTINGS = """
import json
from candlelight.generators.blender import bpy, render_settings, start_empty
start_empty()
scene = bpy.context.scene
tables = {
    "render": (scene.render, render_settings.SCENE_SETTINGS),
    "cycles": (scene.cycles, render_settings.CYCLES_SETTINGS),
    "view": (scene.view_settings, render_settings.VIEW_SETTINGS),
    "view layer": (scene.view_layers[0].cycles, render_settings.VIEW_LAYER_SETTINGS),
}
render_settings.configure(scene, 8, 6, 4, 2, 1)
def same(found, value):
    return abs(found - value) < 1e-6 if isinstance(value, float) else found == value
plain = ("BOOLEAN", "INT", "FLOAT", "STRING", "ENUM")
left = {
    place: sorted(p.identifier for p in settings.bl_rna.properties if p.type in plain and p.identifier not in
    table) for place, (settings, table) in tables.items()
}
wrong = [
    name for settings, table in tables.values() for name, value in table.items()
    if hasattr(settings, name) and not same(getattr(settings, name), value)
]
print(json.dumps([left, wrong]))
"""
# Settings that change no pixel of a render in the background, by the start of their names. The last lines of
# "render" and "cycles" are set from the recipe and the trace.
NO_PIXEL = {
    "render": """
        border_ compositor_ file_extension filepath fps frame_map_ has_multiple_engines is_movie_format
        line_thickness metadata_input ppm_ preview_ save_output sequencer_ simplify_ stamp_ use_file_extension
        use_lock_interface use_overwrite use_placeholder use_render_cache use_sequencer_override use_simplify_
        use_spherical_stereo use_stamp_ views_format motion_blur_ filter_size anisotropic_filter
        use_high_quality_normals
        resolution_x resolution_y threads
    """,
    "cycles": """
        name preview_ use_preview_ bake_type debug_ denois adaptive_ guiding_ fast_gi_ surface_guiding_
        volume_guiding_ use_surface_guiding use_volume_guiding use_guiding_ use_deterministic_guiding
        ao_bounces camera_cull_margin distance_cull_margin rolling_shutter_d texture_limit texture_resolution
        sample_subset_length volume_preview_
        device samples max_bounces seed
    """,
    "view": "white_balance_ is_hdr support_emulation",
    "view layer": "name use_pass_ pass_ denoising_store_passes use_denoising",
}


@pytest.fixture(scope="module")
def found():
    """Run the scripts one after another in one Blender; return what each printed last."""
    code = "".join(f"{script}\nprint({END!r})\n" for script in (SETTINGS, FILE_NODES, FUTURE))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    settings, nodes, blocks, _ = done.stdout.split(f"{END}\n")
    return {
        name: json.loads(text.splitlines()[-1])
        for name, text in (("settings", settings), ("nodes", nodes), ("blocks", blocks))
    }


def test_every_setting_that_decides_pixels_is_set(found):
    left, wrong = found["settings"]
    unknown = {
        place: [name for name in names if not name.startswith(tuple(NO_PIXEL[place].split()))]
        for place, names in left.items()
    }
    assert unknown == {place: [] for place in NO_PIXEL}
    assert wrong == []


# Print the nodes of shaders and geometry that can name a file, or refer to a block that can.
FILE_NODES = """
import json
from candlelight.generators.blender import bpy
blocks = {"Text", "Sound", "Image", "VectorFont", "CacheFile", "MovieClip", "Volume", "Scene"}
def reads(properties):
    return any(
        (p.type == "POINTER" and p.fixed_type.identifier in blocks)
        or (p.type == "STRING" and p.subtype in ("FILE_PATH", "DIR_PATH", "FILE_NAME"))
        for p in properties
    )
found = []
for name in dir(bpy.types):
    if name.startswith(("ShaderNode", "GeometryNode", "FunctionNode")):
        kind = "ShaderNodeTree" if name.startswith("ShaderNode") else "GeometryNodeTree"
        tree = bpy.data.node_groups.new("all", kind)
        try:
            node = tree.nodes.new(name)
        except RuntimeError:  # not a node, or a node of a tree of another kind
            continue
        sockets = [s.bl_rna.properties["default_value"] for s in node.inputs if hasattr(s, "default_value")]
        if reads(node.bl_rna.properties) or reads(sockets):
            found.append(name)
print(json.dumps(found))
"""
IMPORTS = {f"GeometryNodeImport{kind}" for kind in ("CSV", "OBJ", "PLY", "STL", "Text", "VDB")}
KNOWN = {
    *IMPORTS,  # `sanitize` refuses all nodes whose name starts so
    *("ShaderNodeScript", "ShaderNodeTexIES"),  # dropped; its file must lie in the folder
    # Images and fonts are blocks whose files must lie in the folder; sounds are dropped.
    *("ShaderNodeTexImage", "ShaderNodeTexEnvironment", "GeometryNodeImageInfo", "GeometryNodeImageTexture"),
    *("GeometryNodeInputImage", "GeometryNodeInputFont", "GeometryNodeStringToCurves"),
    "GeometryNodeSampleSoundFrequencies",
}


def test_all_nodes_that_read_files_are_known(found):
    nodes = set(found["nodes"])
    assert nodes <= KNOWN
    assert nodes >= {*IMPORTS, "ShaderNodeScript", "ShaderNodeTexImage"}


# Show `sanitize` a file with a block of a kind that no version has, listed in `all_ids` alone.
FUTURE = """
import json
from pathlib import Path
from types import SimpleNamespace
from candlelight.generators.blender import bpy, sanitize, start_empty
start_empty()
before = sanitize.block_ids()
kept = bpy.data.materials.new("paint")
future = SimpleNamespace(
    session_uid=10**9, name="agent", animation_data=None, bl_rna=SimpleNamespace(name="Agent")
)
removed = []
class Data:
    def __getattr__(self, name):
        if name == "all_ids":
            return [kept, future]
        return getattr(bpy.data, name)
    bl_rna = SimpleNamespace(properties=[
        SimpleNamespace(identifier="all_ids", type="COLLECTION", fixed_type=SimpleNamespace(identifier="ID")),
        *(p for p in bpy.data.bl_rna.properties if p.identifier != "all_ids"),
    ])
    batch_remove = staticmethod(removed.extend)
    file_path_map = staticmethod(lambda subset: {})
sanitize.bpy = SimpleNamespace(data=Data(), path=bpy.path)
notes = sanitize.sanitize(Path("own.blend"), before)
print(json.dumps([notes, [block.name for block in removed]]))
"""


def test_a_block_of_an_unknown_kind_is_dropped(found):
    assert found["blocks"] == [["its agent `agent` is left out"], ["agent"]]
