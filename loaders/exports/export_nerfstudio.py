"""Write the views of scenes for nerfstudio: images, depth, masks, and a ``transforms.json``."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from candlelight.loaders.exports.export_loop import ExportCounts, ExportFiles
from candlelight.loaders.exports.scene_views import ScenePoints, SceneViews, export_scenes
from candlelight.loaders.schema import CameraRecord

_NAMES = {"image": "images/{id}.png", "depth": "depths/{id}.png", "mask": "masks/{id}.png"}
_KEYS = {"image": "file_path", "depth": "depth_file_path", "mask": "mask_path"}
_TRANSFORMS, _POINTS = "transforms.json", "points.ply"


def export_nerfstudio(
    frames: Path | str, out: Path | str, set_name: str | None = None, points: int = 10_000
) -> ExportCounts:
    """Write the views of each scene as nerfstudio's data parser reads them (``ns-train ... --data SCENE``).

    Tancik et al., Nerfstudio: a modular framework for neural radiance field development, SIGGRAPH 2023.
    ``OUT/<scene>/transforms.json`` holds for each view the camera-to-world matrix in OpenGL's convention
    (x right, y up, z back), the intrinsics in pixels from the upper left corner, and the paths of
    ``images/<id>.png``, ``depths/<id>.png`` (distance along the optical axis in millimetres, 16 bits, 0 where
    none is known; nerfstudio's own default unit) and ``masks/<id>.png`` (white where a surface is hit; black
    pixels are not trained on). ``points.ply`` holds points of the rendered surfaces that two views or more
    see. A scene has the id of its first sample; all lengths are metres.

    Args:
        frames: as of `export_scenes`.
        out: as of `export_scenes`.
        set_name: as of `export_scenes`.
        points: largest number of points of a scene.

    Returns:
        How many samples were written now, and how many were found.

    Raises:
        InputError: as of `candlelight.loaders.exports.scene_views.export_scenes`.

    Example:
        >>> export_nerfstudio(Path("frames"), Path("scenes"), "ring").written  # doctest: +SKIP
        12
    """
    return export_scenes(frames, out, set_name, points, _NAMES, _scene_files, _TRANSFORMS, to="nerfstudio")


def _scene_files(scene: SceneViews, points: ScenePoints) -> ExportFiles:
    size = {"w": scene.frames.set_info.width, "h": scene.frames.set_info.height}
    views: list[dict[str, Any]] = [
        {key: _NAMES[kind].format(id=view.id) for kind, key in _KEYS.items()}
        | {"transform_matrix": _to_world(view.camera), **_lens(view.camera)}
        for view in scene.views
    ]
    transforms = {
        "camera_model": "OPENCV",
        **size,
        "depth_unit_scale_factor": 0.001,
        "ply_file_path": _POINTS,
        "frames": views,
    }
    return {_POINTS: _ply(points), _TRANSFORMS: (json.dumps(transforms, indent=1) + "\n").encode()}


def _lens(camera: CameraRecord) -> dict[str, float]:
    (fx, _, cx), (_, fy, cy), _ = camera.intrinsics
    return {"fl_x": fx, "fl_y": fy, "cx": cx, "cy": cy}


def _to_world(camera: CameraRecord) -> list[list[float]]:
    """Return the camera-to-world matrix in OpenGL's axes: y and z are turned round."""
    pose = np.array(camera.world_to_camera)
    matrix = np.eye(4)
    matrix[:3, :3] = pose[:3, :3].T * (1, -1, -1)
    matrix[:3, 3] = -pose[:3, :3].T @ pose[:3, 3]
    return [[float(value) for value in row] for row in (matrix.round(12) + 0.0)]


def _ply(points: ScenePoints) -> bytes:
    kinds = [*(f"float {name}" for name in "xyz"), *(f"uchar {name}" for name in ("red", "green", "blue"))]
    head = ["ply", "format ascii 1.0", f"element vertex {len(points.positions)}"]
    head += [*(f"property {kind}" for kind in kinds), "end_header"]
    rows = (
        " ".join([*(f"{value:.9g}" for value in position), *map(str, color)])
        for position, color in zip(points.positions, points.colors, strict=True)
    )
    return "".join(f"{line}\n" for line in (*head, *rows)).encode()
