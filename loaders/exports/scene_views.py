"""Views of one scene: samples that share all but the camera, their files, and points that they share."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int, UInt8, UInt16
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.exports.export_loop import (
    ExportCounts,
    ExportFiles,
    ExportUnit,
    fitting_sets,
    samples_sha256,
    write_export,
)
from candlelight.loaders.files.layer_codecs import encode_png
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import IMAGE
from candlelight.loaders.schema import CameraRecord, FactorValue, Metadata

_LAYERS = ("image", "depth", "position")
# What a view changes in the record of an object.
_SEEN: Any = {"bbox": True, "area": True, "parts": {"__all__": {"bbox": True, "area": True}}}
_SAME_SURFACE = 0.01  # largest difference of two depths of a point, as a share of the depth
_MILLIMETRES = 1000
_FARTHEST = 2**16 - 1  # of 16-bit depth, in millimetres


@dataclass(frozen=True)
class SceneView:
    """One view of a scene: its row, and its sample's id, camera, factors and hash of the image."""

    row: int
    id: str
    camera: CameraRecord
    factors: dict[str, FactorValue]
    image: str


@dataclass(frozen=True)
class SceneViews:
    """All views of one scene.

    Attributes:
        name: id of the first view's sample.
        frames: the image set.
        views: at least two, in order of their rows.
    """

    name: str
    frames: FrameFolder
    views: tuple[SceneView, ...]


@dataclass(frozen=True, eq=False)
class ScenePoints:
    """Points of a scene that two views or more see.

    Attributes:
        positions: world points in metres.
        colors: their sRGB pixels in the view that they were drawn from.
        seen: whether a view sees a point.
        pixels: x and y of each point in each view, in pixels from the upper left corner.
    """

    positions: Float64[ndarray, "points 3"]
    colors: UInt8[ndarray, "points 3"]
    seen: Bool[ndarray, "views points"]
    pixels: Float64[ndarray, "views points 2"]


SceneFiles = Callable[[SceneViews, ScenePoints], ExportFiles]


def export_scenes(
    frames: Path | str,
    out: Path | str,
    set_name: str | None,
    points: int,
    view_files: Mapping[str, str],
    scene_files: SceneFiles,
    last: str,
    **settings: str,
) -> ExportCounts:
    """Write the views of each scene and the files that describe the scene, one folder for each scene.

    Samples of one unit are views of a scene if they have the same objects, lights, environment and exposure.
    A factor that changes the image of one of their cameras separates them: it changes something else, such as
    the material of the floor.
    Scenes of one view are left out. Every frame is compared with its hashes.

    Args:
        frames: folder of frames; only traced sets with the layer ``depth`` are written.
        out: folder to write: new, or started by the same export.
        set_name: the image set; None for all.
        points: largest number of points of a scene.
        view_files: names of the files "image", "depth" and "mask" of a view below the scene's folder;
            ``{id}`` is the sample's id.
        scene_files: makes the files that describe a scene, by their names below the scene's folder.
        last: name of the last of these.
        settings: name of the layout, and further settings of the export.

    Returns:
        How many samples were written now, and how many were found.

    Raises:
        InputError: there is no such set, no scene has two views, ``points`` is below 1, a frame is damaged,
            or the folder holds something else.
    """
    if points < 1:
        raise InputError(f"points: expected 1 or more, got {points}")
    sets = _open_sets(Path(frames), set_name)
    scenes = [scene for one in sets for scene in _find_scenes(one)]
    if not scenes:
        raise InputError(
            f"{frames}: expected several views of a scene, got one of each; samples of a unit are views of "
            "one scene if objects, lights (with a `location`) and environment are the same in all"
        )
    units = []
    for scene in scenes:
        for view in scene.views:
            names = {kind: f"{scene.name}/{name.format(id=view.id)}" for kind, name in view_files.items()}
            units.append(ExportUnit(names["image"], partial(_view_files, scene, view, names)))
        make = partial(_described, scene, points, scene_files)
        units.append(ExportUnit(f"{scene.name}/{last}", make, 0))
    recipe, samples = sets[0].info.recipe.sha256, samples_sha256(sets)
    return write_export(Path(out), units, recipe=recipe, samples=samples, points=str(points), **settings)


def _open_sets(frames: Path, set_name: str | None) -> list[FrameFolder]:
    fitting = fitting_sets(frames, set_name, lambda info: "depth" in info.layers, "the layer `depth`")
    return [
        FrameFolder(frames, name, [layer for layer in _LAYERS if layer in info.layers])
        for name, info in fitting.items()
    ]


def _find_scenes(frames: FrameFolder) -> Iterator[SceneViews]:
    scenes: dict[tuple[str, ...], list[SceneView]] = {}
    for row in range(len(frames)):
        metadata = frames.metadata(row)
        if metadata.camera is not None:
            image = metadata.layers["image"]
            view = SceneView(row, metadata.id, metadata.camera, metadata.factors, image)
            scenes.setdefault(_scene_key(metadata), []).append(view)
    for alike in scenes.values():
        for views in _split_scenes(alike):
            if len(views) > 1:
                yield SceneViews(views[0].id, frames, tuple(views))


def _scene_key(metadata: Metadata) -> tuple[str, ...]:
    """Return all that the views of a scene have in common."""
    objects = (one.model_dump_json(exclude=_SEEN) for one in metadata.objects)
    lights = (one.model_dump_json() for one in metadata.lights)
    environment = metadata.environment.model_dump_json() if metadata.environment else ""
    return (metadata.unit, environment, str(metadata.exposure), *objects, *lights)


def _split_scenes(alike: Collection[SceneView]) -> Collection[list[SceneView]]:
    """Separate scenes by the factors that change the image of one camera, such as the material of a floor."""
    cameras: dict[CameraRecord, list[SceneView]] = {}
    for view in alike:
        cameras.setdefault(view.camera, []).append(view)
    changes = {
        frozenset(name for name, value in one.factors.items() if value != other.factors[name])
        for same in cameras.values()
        for one, other in combinations(same, 2)
        if one.image != other.image
    }
    # A factor that changes nothing, such as an angle of 0 or 360 degrees, is in no smallest change.
    names = sorted({name for one in changes if not any(other < one for other in changes) for name in one})
    scenes: dict[tuple[FactorValue, ...], list[SceneView]] = {}
    for view in alike:
        scenes.setdefault(tuple(view.factors[name] for name in names), []).append(view)
    return scenes.values()


def _view_files(scene: SceneViews, view: SceneView, names: Mapping[str, str]) -> ExportFiles:
    depth = scene.frames.frame(view.row, verify=True).layers["depth"]
    return {
        names["depth"]: encode_png(depth_in_millimetres(depth)),
        names["mask"]: encode_png(np.where(np.isfinite(depth), 255, 0).astype(np.uint8)),
        names["image"]: (scene.frames.path(view.row) / IMAGE).read_bytes(),
    }


def _described(scene: SceneViews, points: int, scene_files: SceneFiles) -> ExportFiles:
    files = scene_files(scene, shared_points(scene, points))
    return {f"{scene.name}/{name}": content for name, content in files.items()}


def depth_in_millimetres(
    depth: Float32[ndarray, "height width"],
) -> UInt16[ndarray, "height width"]:
    """Round depth to whole millimetres; 0 where nothing is hit, or beyond 65.535 m.

    Example:
        >>> depth_in_millimetres(np.array([[1.2344, np.inf, 70.0]], np.float32))
        array([[1234,    0,    0]], dtype=uint16)
    """
    millimetres = np.rint(depth * np.float32(_MILLIMETRES))
    return np.where(millimetres <= _FARTHEST, millimetres, 0).astype(np.uint16)


def shared_points(scene: SceneViews, count: int) -> ScenePoints:
    """Draw points of the surfaces that two views or more see; always the same ones.

    Pixels are drawn at random from all views. A pixel's point is its `position`, or else its centre at its
    depth. Another view sees the point if its pixel there has the point's depth within 1 %.

    Args:
        scene: the views.
        count: largest number of points; there are fewer if few surfaces are seen twice.
    """
    rng = np.random.default_rng(0)
    share = -(-2 * count // len(scene.views))
    drawn = [_draw_points(scene, view, share, rng) for view in scene.views]
    positions = np.concatenate([one for one, _ in drawn])
    colors = np.concatenate([one for _, one in drawn])
    order = rng.permutation(len(positions))
    positions, colors = positions[order].round(9), colors[order]
    looked = [_look(scene, view, positions) for view in scene.views]
    seen, pixels = np.stack([one for one, _ in looked]), np.stack([one for _, one in looked])
    (kept,) = np.nonzero(seen.sum(axis=0) > 1)
    kept = kept[:count]
    return ScenePoints(positions[kept], colors[kept], seen[:, kept], pixels[:, kept])


def project_points(
    camera: CameraRecord, points: Float[ndarray, "points 3"]
) -> tuple[Float64[ndarray, "points 2"], Float64[ndarray, " points"]]:
    """Project world points to pixels.

    Args:
        camera: the camera.
        points: metres.

    Returns:
        x and y from the upper left corner in pixels, and the depth in metres, negative behind the camera.

    Example:
        >>> camera = CameraRecord.model_validate(
        ...     {"intrinsics": [[50, 0, 16], [0, 50, 12], [0, 0, 1]], "world_to_camera": np.eye(4).tolist()}
        ... )
        >>> project_points(camera, np.array([[0.2, 0.0, 2.0]]))
        (array([[21., 12.]]), array([2.]))
    """
    pose, intrinsics = np.array(camera.world_to_camera), np.array(camera.intrinsics)
    inside = points @ pose[:3, :3].T + pose[:3, 3]
    with np.errstate(divide="ignore", invalid="ignore"):
        projected = inside @ intrinsics.T
        return projected[:, :2] / projected[:, 2:], inside[:, 2]


def _draw_points(
    scene: SceneViews, view: SceneView, count: int, rng: np.random.Generator
) -> tuple[Float64[ndarray, "points 3"], UInt8[ndarray, "points 3"]]:
    layers = scene.frames.frame(view.row).layers
    rows, columns = np.nonzero(np.isfinite(layers["depth"]))
    chosen = rng.choice(len(rows), min(count, len(rows)), replace=False)
    rows, columns = rows[chosen], columns[chosen]
    if "position" in layers:
        points = layers["position"][rows, columns].astype(np.float64)
    else:
        points = _unproject(view.camera, rows, columns, layers["depth"][rows, columns])
    return points, layers["image"][rows, columns]


def _unproject(
    camera: CameraRecord,
    rows: Int[ndarray, " points"],
    columns: Int[ndarray, " points"],
    depth: Float[ndarray, " points"],
) -> Float64[ndarray, "points 3"]:
    """Return the world points at the centres of pixels."""
    centres = np.stack([columns + 0.5, rows + 0.5, np.ones(len(rows))], axis=1)
    inside = depth[:, None] * (centres @ np.linalg.inv(np.array(camera.intrinsics)).T)
    pose = np.array(camera.world_to_camera)
    world: Float64[ndarray, "points 3"] = (inside - pose[:3, 3]) @ pose[:3, :3]
    return world


def _look(
    scene: SceneViews, view: SceneView, points: Float64[ndarray, "points 3"]
) -> tuple[Bool[ndarray, " points"], Float64[ndarray, "points 2"]]:
    """Find out which points a view sees, and at which pixels."""
    stored = scene.frames.frame(view.row).layers["depth"]
    pixels, depth = project_points(view.camera, points)
    size = np.array(stored.shape[::-1])
    inside = (depth > 0) & ((pixels >= 0) & (pixels < size)).all(axis=1)
    columns, rows = np.where(inside[:, None], pixels, 0).astype(np.int64).T
    return inside & (np.abs(stored[rows, columns] - depth) <= _SAME_SURFACE * depth), pixels
