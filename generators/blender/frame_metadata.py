"""Metadata of a rendered frame, from the plan, from Blender's scene and from the pixels."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy import ndarray

from candlelight.generators.blender import VERSION
from candlelight.generators.blender.blender_scene import PlacedObject
from candlelight.generators.engine.devices import Device
from candlelight.generators.engine.render_server import cpu_features
from candlelight.generators.language.set_settings import SetSettings
from candlelight.generators.layers.decompose_trace import TracedLayers
from candlelight.generators.scenes.camera import camera_record
from candlelight.generators.scenes.plan_records import (
    PLAN_FIELDS,
    SamplePlan,
    SceneObject,
    keyword_arguments,
)
from candlelight.loaders.schema import (
    ChecksRecord,
    Metadata,
    ObjectRecord,
    PartRecord,
    RecipeRecord,
    RendererRecord,
    array_sha256,
)


def frame_metadata(
    sample: SamplePlan,
    recipe: RecipeRecord,
    chosen: SetSettings,
    device: Device,
    objects: Sequence[PlacedObject],
    traced: TracedLayers,
    layers: Mapping[str, ndarray],
    checks: ChecksRecord,
) -> Metadata:
    """Describe one frame.

    Args:
        sample: the planned sample.
        recipe: name and hash of its recipe.
        chosen: settings of its image set.
        device: the device that traced.
        objects: the objects as Blender placed them, in the order of the plan.
        traced: layers of the trace, for the masks of objects and parts.
        layers: the stored layers, for their hashes.
        checks: the checks of the stored layers.
    """
    trace, image = sample.trace, chosen.image
    pairs = enumerate(zip(trace.objects, objects, strict=True), start=1)
    return Metadata(
        **sample.model_dump(include=PLAN_FIELDS),
        recipe=recipe,
        objects=tuple(_object_record(planned, placed, i, traced) for i, (planned, placed) in pairs),
        environment=trace.environment,
        camera=None if trace.camera is None else camera_record(trace.camera, image.width, image.height),
        exposure=chosen.exposure,
        renderer=_renderer_record(sample, chosen, device, traced.catcher),
        checks=checks,
        layers={name: array_sha256(array) for name, array in layers.items()},
    )


def _renderer_record(
    sample: SamplePlan, chosen: SetSettings, device: Device, catcher: bool
) -> RendererRecord:
    render = chosen.render
    return RendererRecord(
        blender=VERSION,
        device=device.label,
        cpu_features=cpu_features(),
        samples=render.samples,
        bounces=render.bounces,
        geometry_samples=render.geometry_samples if render.has_geometry_trace and catcher else None,
        denoiser=f"pyoidn {version('pyoidn')}, parts apart" if render.denoise else "none",
        cycles_seed=sample.trace.cycles_seed,
    )


def _object_record(
    planned: SceneObject, placed: PlacedObject, index: int, traced: TracedLayers
) -> ObjectRecord:
    """Describe one object, whose pixels have the value ``index``."""
    mask, colors = traced.object == index, placed.colors
    return ObjectRecord(
        type=planned.type,
        numbers=keyword_arguments(planned.numbers),
        material=planned.material.label,
        base_color=colors[0] if len(set(colors)) == 1 else None,
        size=planned.size,
        rotation=planned.rotation,
        tilt=planned.tilt,
        location=planned.location,
        **mask_extent(mask),
        corners=placed.corners,
        parts=_part_records(placed, np.where(mask, traced.part, 0)),
    )


def _part_records(placed: PlacedObject, part: ndarray) -> tuple[PartRecord, ...]:
    """Describe the parts of an object; ``part`` is the part layer, 0 outside the object."""
    numbered = enumerate(zip(placed.parts, placed.colors, strict=bool(placed.parts)), start=1)
    return tuple(
        PartRecord(
            name=planned_part.name,
            index=i,
            material=planned_part.material.label,
            base_color=color,
            **mask_extent(part == i),
        )
        for i, (planned_part, color) in numbered
    )


def mask_extent(mask: Any) -> dict[str, Any]:
    """Return bounding box (left, top, right, bottom; pixels, y down, ends exclusive) and area of a mask.

    Example:
        >>> import numpy as np
        >>> mask_extent(np.array([[0, 0, 0], [0, 1, 1]], bool))
        {'bbox': (1, 1, 3, 2), 'area': 2}
    """
    rows, columns = mask.nonzero()
    if not len(rows):
        return {"bbox": None, "area": 0}
    corners = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    return {"bbox": tuple(int(corner) for corner in corners), "area": len(rows)}
