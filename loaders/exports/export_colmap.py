"""Write the views of scenes in COLMAP's layout: images, and a sparse model as text."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.exports.export_loop import ExportCounts, ExportFiles
from candlelight.loaders.exports.scene_views import ScenePoints, SceneViews, export_scenes

_MODEL = "sparse/0"


def export_colmap(
    frames: Path | str, out: Path | str, set_name: str | None = None, points: int = 10_000
) -> ExportCounts:
    """Write the views of each scene with a sparse model in COLMAP's text format.

    Schönberger and Frahm, Structure-from-motion revisited, CVPR 2016; the format is that of
    https://colmap.github.io/format.html. ``OUT/<scene>/images/<id>.png`` are the images of a scene, which has
    the id of its first sample. ``sparse/0`` holds ``cameras.txt`` (PINHOLE), ``images.txt`` (world to camera)
    and ``points3D.txt``: points of the rendered surfaces with the colour of a pixel, and as track all views
    that see them. Beside them lie ``masks/<id>.png.png``, white where a surface is hit, and
    ``depths/<id>.png``: distance along the optical axis in millimetres, 16 bits, 0 where none is known. All
    lengths are metres.

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
        >>> export_colmap(Path("frames"), Path("scenes"), "ring").written  # doctest: +SKIP
        12
    """
    names = {"image": "images/{id}.png", "depth": "depths/{id}.png", "mask": "masks/{id}.png.png"}
    return export_scenes(
        frames, out, set_name, points, names, _model_files, f"{_MODEL}/points3D.txt", to="colmap"
    )


def _model_files(scene: SceneViews, points: ScenePoints) -> ExportFiles:
    texts = {
        "cameras.txt": _camera_lines(scene),
        "images.txt": _image_lines(scene, points),
        "points3D.txt": _point_lines(points),
    }
    return {
        f"{_MODEL}/{name}": "".join(f"{line}\n" for line in lines).encode() for name, lines in texts.items()
    }


def _camera_lines(scene: SceneViews) -> Iterator[str]:
    yield "# CAMERA_ID, MODEL, WIDTH, HEIGHT, PARAMS[]"
    size = f"{scene.frames.set_info.width} {scene.frames.set_info.height}"
    for number, ((fx, _, cx), (_, fy, cy), _) in enumerate(_intrinsics(scene), 1):
        yield f"{number} PINHOLE {size} {fx!r} {fy!r} {cx!r} {cy!r}"


def _intrinsics(scene: SceneViews) -> list[tuple[tuple[float, float, float], ...]]:
    return list(dict.fromkeys(view.camera.intrinsics for view in scene.views))


def _image_lines(scene: SceneViews, points: ScenePoints) -> Iterator[str]:
    yield "# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME; then POINTS2D[] as (X, Y, POINT3D_ID)"
    cameras = _intrinsics(scene)
    for number, view in enumerate(scene.views):
        pose = np.array(view.camera.world_to_camera)
        numbers = " ".join(map(repr, [*quaternion(pose[:3, :3]).tolist(), *pose[:3, 3].tolist()]))
        yield f"{number + 1} {numbers} {cameras.index(view.camera.intrinsics) + 1} {view.id}.png"
        (seen,) = np.nonzero(points.seen[number])
        yield " ".join(
            f"{x:.4f} {y:.4f} {point + 1}"
            for point, (x, y) in zip(seen, points.pixels[number, seen], strict=True)
        )


def _point_lines(points: ScenePoints) -> Iterator[str]:
    yield "# POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)"
    places = np.cumsum(points.seen, axis=1) - 1  # of each point in the list of an image
    for number, (position, color) in enumerate(zip(points.positions, points.colors, strict=True)):
        track = (f"{view + 1} {places[view, number]}" for view in np.flatnonzero(points.seen[:, number]))
        numbers = (*(f"{value:.9g}" for value in position), *map(str, color))
        yield f"{number + 1} {' '.join(numbers)} 0 {' '.join(track)}"


def quaternion(rotation: Float64[ndarray, "3 3"]) -> Float64[ndarray, " 4"]:
    """Return the unit quaternion (w, x, y, z) of a rotation, with w of 0 or more.

    It is the eigenvector of the largest eigenvalue of a symmetric matrix (Bar-Itzhack, J. Guidance 2000,
    eq. 5), which is exact for every angle.

    Args:
        rotation: rotation matrix.

    Example:
        >>> quaternion(np.diag([1.0, -1.0, -1.0])).round(6) + 0.0
        array([0., 1., 0., 0.])
    """
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = rotation
    symmetric = np.array(
        [
            [xx + yy + zz, zy - yz, xz - zx, yx - xy],
            [zy - yz, xx - yy - zz, xy + yx, xz + zx],
            [xz - zx, xy + yx, yy - xx - zz, yz + zy],
            [yx - xy, xz + zx, yz + zy, zz - xx - yy],
        ]
    )
    found: Float64[ndarray, " 4"] = np.linalg.eigh(symmetric / 3)[1][:, -1]
    return found * (1.0 if found[np.flatnonzero(np.abs(found) > 1e-9)[0]] > 0 else -1.0) + 0.0
