import hashlib
import json
import struct
from importlib.util import find_spec

import numpy as np
import pytest
from click.testing import CliRunner

from candlelight.blender_assets import AssetLibrary
from candlelight.cli import main
from candlelight.generators.blender.mesh_checks import check_mesh_file, plain_obj
from candlelight.generators.user_assets import import_meshes
from candlelight.generators.user_assets.import_meshes import add_mesh
from tests.refusals import refused

# A box of 2 x 6 x 4, far from the origin.
CORNERS = [(x, y, z) for x in (99, 101) for y in (-3, 3) for z in (5, 9)]
QUADS = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
TRIANGLES = [face for a, b, c, d in QUADS for face in ((a, b, c), (a, c, d))]

needs_blender = pytest.mark.skipif(
    find_spec("bpy") is None, reason="Blender's module bpy is not installed here"
)


def obj(corners=CORNERS, faces=QUADS):
    lines = ["# a comment", "mtllib /etc/passwd", *("v {} {} {}".format(*corner) for corner in corners)]
    return "\n".join([*lines, *("f " + " ".join(str(i + 1) for i in face) for face in faces)]).encode()


def ply(corners=CORNERS):
    head = f"ply\nformat ascii 1.0\nelement vertex {len(corners)}\nproperty float x\nproperty float y\n"
    head += f"property float z\nelement face {len(TRIANGLES)}\n"
    head += "property list uchar int vertex_indices\nend_header\n"
    rows = ["{} {} {}".format(*corner) for corner in corners]
    return (head + "\n".join([*rows, *("3 {} {} {}".format(*face) for face in TRIANGLES)]) + "\n").encode()


def stl(corners=CORNERS):
    body = b"".join(
        struct.pack("<12fH", 0, 0, 0, *(x for i in face for x in corners[i]), 0) for face in TRIANGLES
    )
    return bytes(80) + struct.pack("<I", len(TRIANGLES)) + body


def glb():
    """Make a file with the two halves of the box as nodes."""
    points = b"".join(struct.pack("<3f", *corner) for corner in CORNERS)
    indices = b"".join(struct.pack("<3H", *face) for face in TRIANGLES)
    views = [{"buffer": 0, "byteOffset": 0, "byteLength": len(points)}]
    views += [{"buffer": 0, "byteOffset": len(points) + 36 * i, "byteLength": 36} for i in range(2)]
    bounds = {"min": [99, -3, 5], "max": [101, 3, 9]}
    accessors = [{"bufferView": 0, "componentType": 5126, "count": 8, "type": "VEC3", **bounds}]
    accessors += [
        {"bufferView": 1 + i, "componentType": 5123, "count": 18, "type": "SCALAR"} for i in range(2)
    ]
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0, 1]}],
        "nodes": [{"mesh": 0}, {"mesh": 1}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1 + i}]} for i in range(2)],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": len(points + indices)}],
    }
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    body = points + indices
    body += bytes(-len(body) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(body), b"BIN\0") + body
    return b"glTF" + struct.pack("<II", 2, 12 + len(chunks)) + chunks


@pytest.fixture
def write(tmp_path):
    def write_file(name, data):
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write_file


@pytest.mark.parametrize(
    ("name", "data", "up", "dimensions"),
    [
        ("box.obj", obj(), "-z", [2, 6, 4]),
        ("box.PLY", ply(), None, [2, 6, 4]),
        ("box.stl", stl(), "x", [4, 6, 2]),
        ("box.glb", glb(), None, [2, 4, 6]),
    ],
)
@pytest.mark.blender
@needs_blender
def test_a_mesh_becomes_an_object_that_stands_upright(
    one_blender, write, tmp_path, name, data, up, dimensions
):
    mesh, folder = write(name, data), tmp_path / "objects"
    path = add_mesh(mesh, folder, up=up)
    assert path == folder / f"{mesh.stem}.blend"
    entry = AssetLibrary({"objects": folder}).entry("objects", mesh.stem)
    assert entry["facts"]["dimensions"] == pytest.approx([side / 6 for side in dimensions], abs=1e-5)
    half = [side / 12 for side in dimensions[:2]]
    assert entry["facts"]["footprint"] == pytest.approx((half[0] ** 2 + half[1] ** 2) ** 0.5, abs=1e-5)
    assert entry["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert entry["licence"] == "user's own; see source"
    assert entry["source"] == f"{name}, sha256 {hashlib.sha256(data).hexdigest()}"
    assert {file.name for file in folder.iterdir()} == {path.name, "manifest.json"}


NAN = [(99, -3, float("nan")), *CORNERS[1:]]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.obj", obj(faces=[]), "expected a mesh with faces, got none"),
        ("a.obj", obj(faces=QUADS[:1]), "expected a body, got a flat shape: "),
        ("a.ply", ply(NAN), "expected finite numbers, got `99 -3 nan`"),
        ("a.stl", stl(NAN), "expected finite vertices, got some that are not numbers or infinite"),
        ("a.glb", b"glTF, or not", "repair the mesh"),
        ("a.glb", b"glTF", "unpack_from requires a buffer"),
    ],
)
@pytest.mark.blender
@needs_blender
def test_broken_meshes_are_refused_in_one_line(one_blender, write, tmp_path, name, data, message):
    with refused(rf"^{tmp_path / name}: (?!.*Traceback).*{message}.*$"):
        add_mesh(write(name, data), tmp_path / "objects")
    assert not (tmp_path / "objects").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (obj(NAN), "expected finite numbers, got `v 99 -3 nan`"),
        (obj(faces=[*QUADS, (0, 1, 8)]), "a face names vertex 9, but there are 8"),
    ],
)
def test_numbers_that_blender_would_read_otherwise_are_refused(write, data, message):
    with refused(message, ValueError):
        check_mesh_file(write("a.obj", data))


def test_bad_arguments_are_refused_before_blender_starts(write, tmp_path):
    mesh, out = write("a.obj", obj()), tmp_path / "objects"
    with refused(r"a\.fbx: expected a mesh of type \.obj, \.ply, \.stl, \.glb; convert"):
        add_mesh(write("a.fbx", b""), out)
    with refused(r"b\.obj: no such file; name a mesh"):
        add_mesh(tmp_path / "b.obj", out)
    for label in ("../a", "", ".a", "a.b", "x" * 65):
        with refused(r"is not a valid file name; .* give another with --name"):
            add_mesh(mesh, out, label=label)
    out.mkdir()
    (out / "a.blend").touch()
    with refused(r"a\.blend already exists; give another --name, or --replace it"):
        add_mesh(mesh, out)
    (out / "manifest.json").write_text("{}")
    with refused("schema: Field required"):
        add_mesh(mesh, out, replace=True)


@pytest.mark.blender
@needs_blender
def test_an_import_stops_at_its_time_limit(write, tmp_path):
    with refused(r"a\.obj: not imported within 0\.01 s; reduce the mesh"):
        add_mesh(write("a.obj", obj()), tmp_path / "objects", time_limit=0.01)


def far(corners=CORNERS):
    """Move corners to map coordinates in metres, with the four decimals of photogrammetry."""
    return [
        tuple(f"{x / 8 + place:.4f}" for x, place in zip(c, (5e5, 4.5e6, 100), strict=True)) for c in corners
    ]


def test_an_obj_file_in_map_coordinates_keeps_its_shape(tmp_path):
    (path := tmp_path / "a.obj").write_bytes(
        obj([("0", "0", "0"), *far()], [[i + 1 for i in q] for q in QUADS])
    )
    lines = [line.split() for line in plain_obj(path).read_text().splitlines()]
    moved = np.array([line[1:] for line in lines if line[0] == "v"], np.float64)[1:]
    assert np.abs(moved.astype(np.float32) - (np.array(CORNERS) - [100, 0, 7]) / 8).max() < 1e-4
    assert [line for line in lines if line[0] == "mtllib"] == []


def test_an_obj_file_near_its_origin_keeps_its_numbers(tmp_path):
    (path := tmp_path / "a.obj").write_text("v 0.1 0 0 0.5 0.5 1\nv 1 0 0\nv 0 1 0\nf -3 -2 -1\n")
    assert plain_obj(path).read_text() == path.read_text()


@pytest.mark.blender
@needs_blender
def test_meshes_far_from_their_origin_are_whole_or_refused(one_blender, write, tmp_path):
    whole = add_mesh(write("near.obj", obj()), tmp_path / "objects", up="z")
    moved = add_mesh(write("far.obj", obj(far())), tmp_path / "objects", up="z")
    found = AssetLibrary({"objects": tmp_path / "objects"})
    assert found.facts("objects", moved.stem) == found.facts("objects", whole.stem)
    numbers = [tuple(map(float, corner)) for corner in far()]
    for name, data in (("a.ply", ply(far())), ("b.stl", stl(numbers))):
        with refused("so far off that single precision moves its vertices by 0"):
            add_mesh(write(name, data), tmp_path / "objects")


@pytest.mark.blender
@needs_blender
def test_the_commands_add_and_list(ask_helper, monkeypatch, write, tmp_path):
    mesh, out = write("box.obj", obj()), tmp_path / "objects"
    command = ["assets", "add", str(mesh), "--out", str(out)]
    done = CliRunner().invoke(main, [*command, "--name", "my box"])
    assert (done.exit_code, done.output) == (0, f"{out / 'my box.blend'}\n"), done.output
    listed = CliRunner().invoke(main, ["assets", "list", str(out)])
    assert listed.output.splitlines()[1].startswith(
        "  my box  0.33 x 0.67 x 1.00 m  user's own; see source  box.obj, sha256 "
    )
    monkeypatch.setattr(import_meshes, "run_helper", ask_helper)  # after one import in its own process
    stated = ["--replace", "--name", "my box", "--licence", "CC-BY-4.0", "--source", "A. Author"]
    assert CliRunner().invoke(main, [*command, *stated]).exit_code == 0
    listed = CliRunner().invoke(main, ["assets", "list", str(out)])
    assert "  CC-BY-4.0  A. Author; box.obj, sha256 " in listed.output.splitlines()[1]
    empty = CliRunner().invoke(main, [*command, "--licence", " "])
    assert "expected a line of text; leave --licence out if unknown" in empty.output
    twice = CliRunner().invoke(main, [*command, str(mesh), "--name", "two"])
    assert twice.exit_code == 2
    assert "--name: expected one mesh to name, got 2; add them one by one" in twice.output
