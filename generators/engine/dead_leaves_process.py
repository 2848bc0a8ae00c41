"""The render process for dead-leaves images, without Blender."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy import ndarray

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.engine.devices import CPU_REQUEST, DeviceRequest
from candlelight.generators.engine.render_server import WriteSamples, cpu_features, run_renderer
from candlelight.generators.language.load_recipe import recipe_sha256
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_settings import settings
from candlelight.generators.planning.provenance import check_group
from candlelight.generators.scenes.dead_leaves import SUBSAMPLES, PaintedImage, paint_dead_leaves
from candlelight.generators.scenes.plan_records import SamplePlan
from candlelight.loaders.colour import to_display, to_half
from candlelight.loaders.frames import write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import ChecksRecord, Metadata, RecipeRecord, RendererRecord, array_sha256

# Fields that a planned sample and the metadata of its frame have in common.
PLAN_FIELDS = Metadata.model_fields.keys() & SamplePlan.model_fields.keys()


class DeadLeavesRenderer:
    """Renders the dead-leaves samples of one recipe into one folder.

    Args:
        root: folder of the data set.
        recipe: the recipe.
        threads: not used; this renderer has one thread.
        device: not used; this renderer uses the processor.
    """

    def __init__(
        self, root: Path, recipe: Recipe, threads: int = 1, device: DeviceRequest = CPU_REQUEST
    ) -> None:
        del threads, device
        self._root, self._recipe = root, recipe
        self._recipe_record = RecipeRecord(name=recipe.name, sha256=recipe_sha256(recipe))

    def trace(self, group: Sequence[SamplePlan]) -> WriteSamples:
        """Paint one image for all samples of ``group``, which show the same leaves.

        Returns:
            A function that writes the samples and returns their ids.
        """
        check_group(group, AssetLibrary())
        chosen = settings(self._recipe, group[0].set)
        leaves = group[0].trace.dead_leaves
        assert leaves is not None
        painting = paint_dead_leaves(
            leaves, group[0].trace.cycles_seed, chosen.image.width, chosen.image.height
        )
        return partial(self._write, group, painting)

    def _write(self, group: Sequence[SamplePlan], painting: PaintedImage) -> list[str]:
        chosen = settings(self._recipe, group[0].set)
        made, checks = develop_painting(painting, chosen.exposure)
        layers = {name: made[name] for name in made if name in chosen.layers}
        for sample in group:
            metadata = Metadata(
                **sample.model_dump(include=PLAN_FIELDS),
                recipe=self._recipe_record,
                objects=(),
                environment=None,
                camera=None,
                exposure=chosen.exposure,
                renderer=RendererRecord(
                    blender=None,
                    device="CPU",
                    cpu_features=cpu_features(),
                    samples=SUBSAMPLES**2,
                    denoiser="none",
                    cycles_seed=sample.trace.cycles_seed,
                ),
                checks=checks,
                layers={name: array_sha256(array) for name, array in layers.items()},
            )
            write_frame(self._root, Frame(metadata, layers))
        return [sample.id for sample in group]


def develop_painting(painting: PaintedImage, exposure: float) -> tuple[dict[str, ndarray], ChecksRecord]:
    """Make the layers of a painted image, so that ``radiance = float16(albedo * shading + residual)`` holds.

    Args:
        painting: linear albedo and shading; the residual is 0, because no leaf is glossy.
        exposure: factor on radiance before the sRGB curve.

    Returns:
        The layers by name, in the order of the schema, and the checks of the metadata.

    Example:
        >>> flat = np.full((1, 1, 3), 0.5, np.float32)
        >>> develop_painting(PaintedImage(flat, flat), 1.0)[0]["radiance"]
        array([[[0.25, 0.25, 0.25]]], dtype=float16)
    """
    albedo, shading = to_half(painting.albedo), to_half(painting.shading)
    total = albedo.astype(np.float32) * shading.astype(np.float32)
    radiance = to_half(total)
    exposed = radiance.astype(np.float32) * np.float32(exposure)
    layers = {
        "image": to_display(exposed),
        "radiance": radiance,
        "albedo": albedo,
        "shading": shading,
        "residual": np.zeros_like(radiance),
    }
    checks = ChecksRecord(
        identity_error=None,
        stored_error=float(np.abs(total - radiance).max()),
        clipped=float((exposed > 1.0).any(axis=-1).mean()),
    )
    return layers, checks


if __name__ == "__main__":
    run_renderer(DeadLeavesRenderer)
