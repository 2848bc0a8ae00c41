"""The render child: the one process that holds Blender. `generators.serving` says how it is spoken to."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from blender_assets import AssetLibrary
from generators.blender import bpy, passes
from generators.blender.stage import Stage
from generators.camera import record
from generators.compose import Decomposition, decompose, denoise, develop
from generators.load import recipe_sha256
from generators.painter import Painter
from generators.recipe import Recipe
from generators.scene import SamplePlan, Thing
from generators.serving import cpu_features, run
from generators.settings import light_names, settings, stored_layers
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


class Renderer:
    """Renders trace groups of one recipe into one folder.

    Args:
        root: folder of the data set.
        recipe: the recipe; its settings decide what a stage is set up for.
        threads: render threads.
    """

    def __init__(self, root: Path, recipe: Recipe, threads: int) -> None:
        self._root, self._recipe, self._threads = root, recipe, threads
        self._library = AssetLibrary(recipe.assets)
        self._stage: Stage | None = None
        self._stage_set = ""
        self._recipe_record = RecipeRecord(name=recipe.name, sha256=recipe_sha256(recipe))
        self._scratch = passes.scratch_file()
        self._painter = Painter(root, recipe)

    def render(self, group: Sequence[SamplePlan]) -> list[str]:
        """Trace once, and write every sample of ``group``, all of which share the trace.

        Returns:
            The ids written.
        """
        first = group[0]
        if first.trace.leaves is not None:
            return self._painter.render(group)
        assert first.trace.camera is not None
        stage = self._set_up(first.set)
        colors = stage.show(first.trace)
        traced = passes.trace(stage.scene, self._scratch)
        chosen = settings(self._recipe, first.set)
        floor = first.trace.floor
        parts = decompose(
            traced,
            camera=first.trace.camera,
            catcher=floor is not None and floor.catcher,
            split="shading_direct" in chosen.layers or "shading_indirect" in chosen.layers,
        )
        if chosen.render.denoise:
            parts = denoise(parts, traced)
        for sample in group:
            write_frame(self._root, self._develop(sample, parts, colors))
        return [sample.id for sample in group]

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
            passes.request(self._stage.scene, light_names(self._recipe, set_name))
            self._stage_set = set_name
        return self._stage

    def _develop(self, sample: SamplePlan, parts: Decomposition, colors: Sequence[Any]) -> Frame:
        chosen = settings(self._recipe, sample.set)
        names = stored_layers(self._recipe, sample.set)
        layers, checks = develop(parts, gain=sample.gain, exposure=chosen.exposure, layers=names)
        environment = sample.trace.environment
        metadata = Metadata(
            id=sample.id,
            set=sample.set,
            index=sample.index,
            recipe=self._recipe_record,
            unit=sample.unit,
            group=sample.group,
            factors=sample.factors,
            exogenous=sample.exogenous,
            intervention=sample.intervention,
            propensity=sample.propensity,
            counterfactual_of=sample.counterfactual_of,
            objects=tuple(
                ObjectRecord(
                    type=thing.type,
                    material=thing.material.label,
                    base_color=own[0] if len(set(own)) == 1 else None,
                    size=thing.size,
                    rotation=thing.rotation,
                    tilt=thing.tilt,
                    location=thing.location,
                    **extent(parts.object == i + 1),
                    corners=self._set_up(sample.set).corners(i),
                    parts=part_records(thing, own, np.where(parts.object == i + 1, parts.part, 0)),
                )
                for i, (thing, own) in enumerate(zip(sample.trace.objects, colors, strict=True))
            ),
            lights=sample.lights,
            environment=None if environment is None else EnvironmentRecord(**environment.model_dump()),
            camera=None
            if sample.trace.camera is None
            else record(sample.trace.camera, chosen.image.width, chosen.image.height),
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
            device="CPU",
            cpu_features=cpu_features(),
            samples=render.samples,
            denoiser=f"pyoidn {version('pyoidn')}, parts apart" if render.denoise else "none",
            cycles_seed=sample.trace.cycles_seed,
        )


def part_records(thing: Thing, colors: Sequence[Vector | None], shown: Any) -> tuple[PartRecord, ...]:
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
