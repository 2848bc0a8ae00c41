"""The render process: the only one that holds Blender; `generators.engine.render_server` answers for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from blender_assets import AssetLibrary
from generators.blender import bpy, passes
from generators.blender.blender_scene import Stage
from generators.blender.cycles_devices import find_device, use_device
from generators.blender.geometry_trace import Geometry
from generators.engine.dead_leaves_process import PLANNED, Painter
from generators.engine.devices import PROCESSOR, Wish
from generators.engine.render_server import Finish, cpu_features, run
from generators.language.load_recipe import recipe_sha256
from generators.language.recipe import Recipe
from generators.language.set_settings import SetSettings, light_names, settings, stored_layers
from generators.layers.decomposition import Decomposition, decompose, denoise, develop, limit_threads
from generators.layers.environment_view import view_map
from generators.layers.finer_geometry import fine_backdrop, refine
from generators.planning.provenance import check_group
from generators.scenes.camera import camera_record
from generators.scenes.scene import SamplePlan, SceneObject, Trace
from loaders.frames import write_frame
from loaders.samples import Frame
from loaders.schema import (
    EnvironmentRecord,
    Metadata,
    ObjectRecord,
    PartRecord,
    RecipeRecord,
    RendererRecord,
    Vector,
    array_sha256,
)


@dataclass(frozen=True)
class Shown:
    """What Blender made of an object: base colours slot by slot, and corners as `Stage.corners` has them."""

    colors: tuple[Vector | None, ...]
    corners: tuple[float, ...]


@dataclass(frozen=True)
class Refinement:
    """What is known better than from the trace of the light over a shadow catcher.

    ``file`` holds the geometry trace, if an object is in the picture; ``picture`` is the map, if it is one.
    """

    file: Path | None
    picture: ndarray | None


class Renderer:
    """Renders trace groups of one recipe into one folder.

    Args:
        root: folder of the data set.
        recipe: the recipe; its settings decide what a stage is set up for.
        threads: render threads.
        wish: what is traced on.
    """

    def __init__(self, root: Path, recipe: Recipe, threads: int, wish: Wish = PROCESSOR) -> None:
        self._root, self._recipe, self._threads = root, recipe, threads
        limit_threads(threads)
        self._device = find_device(wish)
        self._library = AssetLibrary(recipe.assets)
        self._stage: Stage | None = None
        self._stage_set = ""
        self._geometry: Geometry | None = None
        self._recipe_record = RecipeRecord(name=recipe.name, sha256=recipe_sha256(recipe))
        # Two pairs, because one is read while the next is written.
        self._scratch = [(passes.scratch_file(), passes.scratch_file()) for _ in range(2)]
        self._painter = Painter(root, recipe)

    def trace(self, group: Sequence[SamplePlan]) -> Finish:
        """Trace once for all samples of ``group``.

        Returns:
            What writes the samples and returns their ids; it does not touch Blender.
        """
        first = group[0].trace
        if first.dead_leaves is not None:
            return self._painter.trace(group)
        self._hold(group)
        light, geometry = self._scratch[0]
        self._scratch.reverse()
        stage = self._set_up(group[0].set)
        try:
            colors = stage.show(first)
            shown = [Shown(own, stage.corners(i)) for i, own in enumerate(colors)]
            passes.trace(stage.scene, light)
            refinement = self._refine(first, shown, geometry)
            self._hold(group)  # Blender reads pictures as it renders
        except Exception:
            self._stage = None  # what it shows now is part of this trace and part of the one before
            raise
        return partial(self._finish, group, light, refinement, shown)

    def _hold(self, group: Sequence[SamplePlan]) -> None:
        self._library.look_again()
        check_group(group, self._library)

    def _refine(self, trace: Trace, shown: Sequence[Shown], file: Path) -> Refinement | None:
        """Gather what is known better than from the trace of the light; None where that is nothing."""
        if self._geometry is None or not _has_catcher(trace):
            return None
        assert self._stage is not None
        assert trace.camera is not None
        there = self._geometry.trace(trace.camera, [one.corners for one in shown], file)
        return Refinement(file if there else None, self._stage.map_picture(trace))

    def _finish(
        self, group: Sequence[SamplePlan], light: Path, finer: Refinement | None, shown: Sequence[Shown]
    ) -> list[str]:
        chosen = settings(self._recipe, group[0].set)
        first = group[0].trace
        assert first.camera is not None
        traced = passes.read(light)
        parts = decompose(
            traced,
            camera=first.camera,
            catcher=_has_catcher(first),
            split="shading_direct" in chosen.layers or "shading_indirect" in chosen.layers,
        )
        if finer is not None:
            fine = None if finer.file is None else passes.read(finer.file)
            view = None if finer.picture is None else self._view(first, finer.picture, chosen)
            parts = denoise(parts, traced, fine_backdrop(traced, fine, view))
            if fine is not None:
                parts = refine(parts, traced, fine, first.camera)
        elif chosen.render.denoise:
            parts = denoise(parts, traced)
        for sample in group:
            write_frame(self._root, self._develop(sample, parts, shown))
        return [sample.id for sample in group]

    def _view(self, trace: Trace, picture: ndarray, chosen: SetSettings) -> ndarray:
        assert trace.environment is not None
        assert trace.camera is not None
        return view_map(picture, trace.environment, trace.camera, chosen.image.width, chosen.image.height)

    def _set_up(self, set_name: str) -> Stage:
        """Return the stage of a set; it is built anew only when the set changes."""
        if self._stage is None or self._stage_set != set_name:
            chosen = settings(self._recipe, set_name)
            self._stage = Stage(
                width=chosen.image.width,
                height=chosen.image.height,
                samples=chosen.render.samples,
                bounces=chosen.render.bounces,
                threads=self._threads,
                library=self._library,
            )
            use_device(self._stage.scene, self._device)
            passes.request(self._stage.scene, light_names(self._recipe, set_name))
            self._stage_set = set_name
            self._geometry = self._beside(self._stage, chosen) if chosen.render.refines else None
        return self._stage

    def _beside(self, stage: Stage, chosen: SetSettings) -> Geometry:
        image, samples = chosen.image, chosen.render.geometry_samples
        geometry = Geometry(stage, image.width, image.height, samples, self._threads)
        use_device(geometry.scene, self._device)
        return geometry

    def _develop(self, sample: SamplePlan, parts: Decomposition, shown: Sequence[Shown]) -> Frame:
        chosen = settings(self._recipe, sample.set)
        names = stored_layers(self._recipe, sample.set)
        layers, checks = develop(parts, gain=sample.gain, exposure=chosen.exposure, layers=names)
        trace = sample.trace
        metadata = Metadata(
            **sample.model_dump(include=PLANNED),
            recipe=self._recipe_record,
            objects=tuple(
                object_record(thing, i, own, parts)
                for i, (thing, own) in enumerate(zip(trace.objects, shown, strict=True), start=1)
            ),
            environment=None
            if trace.environment is None
            else EnvironmentRecord(**trace.environment.model_dump()),
            camera=None
            if trace.camera is None
            else camera_record(trace.camera, chosen.image.width, chosen.image.height),
            exposure=chosen.exposure,
            renderer=self._renderer(sample),
            checks=checks,
            layers={name: array_sha256(array) for name, array in layers.items()},
        )
        return Frame(metadata, layers)

    def _renderer(self, sample: SamplePlan) -> RendererRecord:
        render = settings(self._recipe, sample.set).render
        return RendererRecord(
            blender=bpy.app.version_string,
            device=self._device.label,
            cpu_features=cpu_features(),
            samples=render.samples,
            bounces=render.bounces,
            geometry_samples=render.geometry_samples
            if render.refines and _has_catcher(sample.trace)
            else None,
            denoiser=f"pyoidn {version('pyoidn')}, parts apart" if render.denoise else "none",
            cycles_seed=sample.trace.cycles_seed,
        )


def _has_catcher(trace: Trace) -> bool:
    return trace.floor is not None and trace.floor.catcher


def object_record(thing: SceneObject, index: int, shown: Shown, parts: Decomposition) -> ObjectRecord:
    """Describe one object by the plan, by what Blender made of it, and by its pixels, valued ``index``."""
    seen, own = parts.object == index, shown.colors
    return ObjectRecord(
        type=thing.type,
        material=thing.material.label,
        base_color=own[0] if len(set(own)) == 1 else None,
        size=thing.size,
        rotation=thing.rotation,
        tilt=thing.tilt,
        location=thing.location,
        **extent(seen),
        corners=shown.corners,
        parts=part_records(thing, own, np.where(seen, parts.part, 0)),
    )


def part_records(thing: SceneObject, colors: Sequence[Vector | None], shown: Any) -> tuple[PartRecord, ...]:
    """Describe the parts of an object by their values in its pixels, the first part being 1."""
    return tuple(
        PartRecord(
            name=part.name, index=i, material=part.material.label, base_color=color, **extent(shown == i)
        )
        for i, (part, color) in enumerate(zip(thing.parts, colors, strict=bool(thing.parts)), start=1)
    )


def extent(mask: Any) -> dict[str, Any]:
    """Return bounding box (left, top, right, bottom; pixels, y down, ends exclusive) and area of a mask.

    Example:
        >>> import numpy as np
        >>> extent(np.array([[0, 0, 0], [0, 1, 1]], bool))
        {'bbox': (1, 1, 3, 2), 'area': 2}
    """
    rows, columns = mask.nonzero()
    if not len(rows):
        return {"bbox": None, "area": 0}
    corners = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    return {"bbox": tuple(int(corner) for corner in corners), "area": len(rows)}


if __name__ == "__main__":
    run(Renderer)
