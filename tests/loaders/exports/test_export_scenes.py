"""Exports of several views: points and depth agree between views, in COLMAP and as nerfstudio reads them."""

import json
import shutil

import numpy as np
import pytest

from candlelight.loaders import FrameFolder
from candlelight.loaders.exports import export_colmap, export_nerfstudio
from candlelight.loaders.exports.export_colmap import quaternion
from candlelight.loaders.files.layer_codecs import decode_png_bytes
from candlelight.loaders.files.png16 import decode_png16
from candlelight.loaders.frames import frame_path, write_frame
from candlelight.loaders.samples import Frame
from tests.refusals import refused

HALF_A_PIXEL = 0.5


def lines(path):
    """Read the lines of a text file of COLMAP without its comments."""
    return [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]


def rotate(quaternion, points):
    """Rotate points by a unit quaternion (w, x, y, z), by Rodrigues' formula."""
    w, axis = quaternion[0], np.array(quaternion[1:])
    return points + 2 * np.cross(axis, np.cross(axis, points) + w * points)


@pytest.mark.parametrize("name", ["ring", "flat"])
def test_colmap_points_project_to_their_pixels(scene_frames, tmp_path, name):
    """The text model is read in plain numpy by COLMAP's page: X_camera = R(q) X + t, origin at the corner."""
    export_colmap(scene_frames, tmp_path, name, points=200)
    model = tmp_path / f"{name}-000000" / "sparse" / "0"
    cameras = {row[0]: [float(value) for value in row[4:]] for row in lines(model / "cameras.txt")}
    assert [row[1:4] for row in lines(model / "cameras.txt")] == [["PINHOLE", "32", "24"]] * 2
    points = {row[0]: row for row in lines(model / "points3D.txt")}
    assert len(points) == 200
    images = lines(model / "images.txt")
    seen = 0
    for head, body in zip(images[::2], images[1::2], strict=True):
        fx, fy, cx, cy = cameras[head[8]]
        numbers = [float(value) for value in head[1:8]]
        depth = decode_png16((model.parents[1] / "depths" / head[9]).read_bytes()) / 1000
        for place, (x, y, point) in enumerate(zip(body[::3], body[1::3], body[2::3], strict=True)):
            assert [head[0], str(place)] in np.reshape(points[point][8:], (-1, 2)).tolist()
            world = np.array(points[point][1:4], float)
            inside = rotate(numbers[:4], world) + numbers[4:]
            pixel = np.array([fx * inside[0] / inside[2] + cx, fy * inside[1] / inside[2] + cy])
            assert np.abs(pixel - np.array([x, y], float)).max() < 1e-3
            assert abs(depth[int(pixel[1]), int(pixel[0])] - inside[2]) < 0.011 * inside[2]
            seen += 1
    assert seen == sum(len(row[8:]) / 2 for row in points.values()) > 2 * len(points)


def test_colmap_points_lie_on_the_surfaces_with_their_colours(scene_frames, tmp_path):
    export_colmap(scene_frames, tmp_path, "ring", points=300)
    rows = np.array([row[1:7] for row in lines(tmp_path / "ring-000000/sparse/0/points3D.txt")], float)
    positions, colors = rows[:, :3], rows[:, 3:]
    ball = np.abs(np.linalg.norm(positions - (0.2, 0.1, 0.6), axis=1) - 0.6) < 1e-4
    assert (ball | (np.abs(positions[:, 2]) < 1e-4)).all()
    assert 10 < ball.sum() < 290
    assert np.abs(colors - (60 + 40 * np.cos(3 * positions))).max() < 1.01


def test_files_of_views_are_those_of_the_frames(scene_frames, tmp_path):
    export_colmap(scene_frames, tmp_path, "ring")
    assert sorted(path.name for path in tmp_path.glob("ring-*")) == ["ring-000000", "ring-000009"]
    frames = FrameFolder(scene_frames, "ring")
    for row in (0, 8):
        scene, name, frame = tmp_path / "ring-000000", f"ring-{row:06d}.png", frames.frame(row)
        assert (scene / "images" / name).read_bytes() == (frames.path(row) / "image.png").read_bytes()
        depth, hit = frame.layers["depth"], np.isfinite(frame.layers["depth"])
        stored = decode_png16((scene / "depths" / name).read_bytes())
        assert np.abs(stored[hit] / 1000 - depth[hit]).max() < 0.00051
        assert not stored[~hit].any()
        mask = decode_png_bytes((scene / "masks" / f"{name}.png").read_bytes(), hit.shape)
        assert np.array_equal(mask > 0, hit)


def test_factors_that_change_the_image_of_one_camera_separate_scenes(scene_frames, tmp_path):
    """Three cameras, of which one is there twice as angles of 0 and 360, see a cube and a torus."""
    root = shutil.copytree(scene_frames, tmp_path / "frames")
    frames = FrameFolder(root, "flat")
    sources = [frames.frame(row) for row in range(8)]
    for row in range(9):
        shutil.rmtree(frame_path(root, "flat", row))
    for row, frame in enumerate(sources):
        same = sources[row - row % 4 // 3 * 3]  # rows 3 and 7 are seen by the cameras of rows 0 and 4
        camera = sources[row % 4 % 3].metadata.camera
        angle, shape = (0, 120, 240, 360)[row % 4], ("cube", "torus")[row // 4]
        update = {"camera": camera, "factors": {**frame.metadata.factors, "angle": angle, "shape": shape}}
        update["layers"] = same.metadata.layers
        write_frame(root, Frame(frame.metadata.model_copy(update=update), same.layers))
    export_colmap(root, tmp_path / "out", "flat")
    found = [(path.parts[-3], path.name) for path in sorted((tmp_path / "out").glob("*/images/*"))]
    assert found == [(f"flat-00000{row // 4 * 4}", f"flat-00000{row}.png") for row in range(8)]


def read_nerfstudio(folder):
    """Read views as nerfstudio: rays from pixel centres, camera to world in OpenGL's axes, depth along -z."""
    meta = json.loads((folder / "transforms.json").read_text())
    assert meta["camera_model"] == "OPENCV"
    for view in meta["frames"]:
        to_world = np.array(view["transform_matrix"])
        depth = decode_png16((folder / view["depth_file_path"]).read_bytes()) * 1e-3
        assert depth.shape == (meta["h"], meta["w"])
        rows, columns = np.mgrid[: meta["h"], : meta["w"]] + 0.5
        x, y = (columns - view["cx"]) / view["fl_x"], -(rows - view["cy"]) / view["fl_y"]
        rays = np.stack([x, y, -np.ones_like(x)], axis=-1) @ to_world[:3, :3].T
        yield view, to_world[:3, 3] + rays * depth[..., None], depth


def test_nerfstudio_reads_the_same_world_from_every_view(scene_frames, tmp_path):
    export_nerfstudio(scene_frames, tmp_path, "ring", points=50)
    folder, frames = tmp_path / "ring-000000", FrameFolder(scene_frames, "ring")
    views = list(read_nerfstudio(folder))
    assert len(views) == 9
    for row, (view, world, depth) in enumerate(views):
        frame = frames.frame(row)
        assert view["file_path"] == f"images/{frame.metadata.id}.png"
        hit = depth > 0
        assert np.array_equal(hit, decode_png_bytes((folder / view["mask_path"]).read_bytes(), hit.shape) > 0)
        assert np.abs(world - frame.layers["position"])[hit].max() < 2e-3
        # Into the next view: within half a pixel of where that view's own camera sees the point.
        other = frames.metadata((row + 1) % 9).camera
        pose, lens = np.array(other.world_to_camera), np.array(other.intrinsics)
        before, after = (
            (points @ pose[:3, :3].T + pose[:3, 3]) @ lens.T
            for points in (frame.layers["position"][hit], world[hit])
        )
        front = before[:, 2] > 0.5
        moved = before[front, :2] / before[front, 2:] - after[front, :2] / after[front, 2:]
        assert np.abs(moved).max() < HALF_A_PIXEL
    ply = (folder / "points.ply").read_text().splitlines()
    assert ply[:3] == ["ply", "format ascii 1.0", "element vertex 50"]
    points = np.array([line.split()[:3] for line in ply[ply.index("end_header") + 1 :]], float)
    assert points.shape == (50, 3)
    assert (points[:, 2] > -1e-6).all()


def test_scenes_that_one_view_shows_are_refused(frames_root, candle_frames, tmp_path):
    with refused("expected several views of a scene, got one of each; samples of a unit are views"):
        export_colmap(frames_root, tmp_path / "out")
    with refused("expected a set with the layer `depth`, got candle"):
        export_colmap(candle_frames, tmp_path / "out", "candle")
    with refused("points: expected 1 or more, got 0"):
        export_nerfstudio(frames_root, tmp_path / "out", points=0)


def test_quaternions_rotate_as_their_matrices():
    rng = np.random.default_rng(0)
    half_turns = [np.diag(one) for one in ([1.0, 1, 1], [1.0, -1, -1], [-1.0, 1, -1], [-1.0, -1, 1])]
    turns = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(20)]
    for rotation in (*half_turns, *(turn * np.linalg.det(turn) for turn in turns)):
        found = quaternion(rotation)
        assert abs(np.linalg.norm(found) - 1) < 1e-12
        points = rng.normal(size=(5, 3))
        assert np.abs(rotate(found, points) - points @ rotation.T).max() < 1e-12


@pytest.mark.oracle
def test_pycolmap_reads_the_model(scene_frames, tmp_path):
    pycolmap = pytest.importorskip("pycolmap")
    export_colmap(scene_frames, tmp_path, "ring", points=200)
    found = pycolmap.Reconstruction(tmp_path / "ring-000000" / "sparse" / "0")
    assert (found.num_images(), found.num_points3D(), found.num_cameras()) == (9, 200, 2)
    frames = FrameFolder(scene_frames, "ring")
    for image in found.images.values():
        camera = frames.metadata(int(image.name[5:11])).camera
        pose = image.cam_from_world() if callable(image.cam_from_world) else image.cam_from_world
        assert np.abs(pose.matrix() - np.array(camera.world_to_camera)[:3]).max() < 1e-9
        for seen in image.points2D:
            point = found.points3D[seen.point3D_id]
            assert np.abs(image.project_point(point.xyz) - seen.xy).max() < HALF_A_PIXEL / 100
