"""Render trace groups with Blender, in the render process that `engine.render_server` serves."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.blender import passes
from candlelight.generators.blender.blender_scene import BlenderScene, PlacedObject
from candlelight.generators.blender.cycles_devices import find_device, use_device
from candlelight.generators.blender.frame_metadata import frame_metadata
from candlelight.generators.blender.geometry_trace import GeometryResult, GeometryTrace
from candlelight.generators.engine.dead_leaves import DeadLeavesRenderer
from candlelight.generators.engine.devices import CPU_REQUEST, DeviceRequest
from candlelight.generators.engine.render_server import WriteSamples, run_renderer
from candlelight.generators.language.load_recipe import recipe_sha256
from candlelight.generators.language.recipe import Recipe
from candlelight.generators.language.set_settings import SetSettings, light_names, settings, stored_layers
from candlelight.generators.layers.decompose_trace import TracedLayers, decompose_trace
from candlelight.generators.layers.denoise_layers import denoise_layers, limit_denoiser_threads
from candlelight.generators.layers.environment_view import view_map
from candlelight.generators.layers.round_layers import frame_layers
from candlelight.generators.layers.shadow_catcher import exact_backdrop, replace_geometry
from candlelight.generators.planning.provenance import check_group
from candlelight.generators.scenes.plan_records import SamplePlan, Trace
from candlelight.loaders.frames import write_frame
from candlelight.loaders.samples import Frame
from candlelight.loaders.schema import RecipeRecord


class Renderer:
    """Renders trace groups of one recipe into one folder.

    Args:
        root: folder of the frames.
        recipe: the recipe.
        threads: render threads.
        request: the device to trace on.
    """

    def __init__(
        self, root: Path, recipe: Recipe, threads: int, request: DeviceRequest = CPU_REQUEST
    ) -> None:
        self._root, self._recipe, self._threads = root, recipe, threads
        limit_denoiser_threads(threads)
        self._device = find_device(request)
        self._library = AssetLibrary(recipe.assets)
        self._scene: BlenderScene | None = None
        self._scene_set = ""
        self._geometry: GeometryTrace | None = None
        self._recipe_record = RecipeRecord(name=recipe.name, sha256=recipe_sha256(recipe))
        # Two pairs of files, because one pair is read while the next is written.
        self._scratch = [(passes.scratch_file(), passes.scratch_file()) for _ in range(2)]

    def trace(self, group: Sequence[SamplePlan]) -> WriteSamples:
        """Trace once for all samples of ``group``.

        Returns:
            A function that writes the frames and returns their ids, without Blender.
        """
        trace = group[0].trace
        if trace.dead_leaves is not None:
            return DeadLeavesRenderer(self._root, self._recipe).trace(group)
        self._check_assets(group)
        light_file, geometry_file = self._scratch[0]
        self._scratch.reverse()
        scene = self._set_up(group[0].set)
        geometry = None
        try:
            objects = scene.show(trace)
            passes.trace(scene.bpy_scene, light_file)
            if self._geometry is not None and _has_catcher(trace):
                geometry = self._geometry.trace(trace, objects, geometry_file)
            self._check_assets(group)  # again, because Blender reads image files while it renders
        except Exception:
            self._scene = None  # the next trace needs a new scene, because this one may mix two traces
            raise
        return partial(self._write_frames, group, light_file, geometry, objects)

    def _check_assets(self, group: Sequence[SamplePlan]) -> None:
        self._library.look_again()
        check_group(group, self._library)

    def _set_up(self, set_name: str) -> BlenderScene:
        """Return the Blender scene of an image set; a new one only if the set changes."""
        if self._scene is None or self._scene_set != set_name:
            chosen = settings(self._recipe, set_name)
            image, render = chosen.image, chosen.render
            self._scene = BlenderScene(
                width=image.width,
                height=image.height,
                samples=render.samples,
                bounces=render.bounces,
                threads=self._threads,
                library=self._library,
            )
            use_device(self._scene.bpy_scene, self._device)
            passes.request(self._scene.bpy_scene, light_names(self._recipe, set_name))
            self._scene_set = set_name
            self._geometry = None
            if render.has_geometry_trace:
                self._geometry = GeometryTrace(
                    self._scene, image.width, image.height, render.geometry_samples, self._threads
                )
                use_device(self._geometry.bpy_scene, self._device)
        return self._scene

    def _write_frames(
        self,
        group: Sequence[SamplePlan],
        light_file: Path,
        geometry: GeometryResult | None,
        objects: Sequence[PlacedObject],
    ) -> list[str]:
        chosen = settings(self._recipe, group[0].set)
        names = stored_layers(self._recipe, group[0].set)
        traced = layers_of_trace(group[0].trace, chosen, light_file, geometry)
        for sample in group:
            layers, checks = frame_layers(traced, gain=sample.gain, exposure=chosen.exposure, layers=names)
            metadata = frame_metadata(
                sample, self._recipe_record, chosen, self._device, objects, traced, layers, checks
            )
            write_frame(self._root, Frame(metadata, layers))
        return [sample.id for sample in group]


def layers_of_trace(
    trace: Trace, chosen: SetSettings, light_file: Path, geometry: GeometryResult | None
) -> TracedLayers:
    """Make the layers of a trace from the files that Blender wrote.

    Args:
        trace: the trace.
        chosen: settings of its image set.
        light_file: passes of the trace with light.
        geometry: result of the geometry trace, if there was one.

    Returns:
        The layers, denoised if the settings say so.
    """
    camera = trace.camera
    assert camera is not None
    light = passes.read(light_file)
    split = "shading_direct" in chosen.layers or "shading_indirect" in chosen.layers
    traced = decompose_trace(light, camera=camera, catcher=_has_catcher(trace), split=split)
    if not chosen.render.denoise:
        return traced
    if geometry is None:
        return denoise_layers(traced, light)
    geometry_passes = None if geometry.file is None else passes.read(geometry.file)
    view = None
    if geometry.map_pixels is not None:
        assert trace.environment is not None
        size = (chosen.image.width, chosen.image.height)
        view = view_map(geometry.map_pixels, trace.environment, camera, *size)
    denoised = denoise_layers(traced, light, exact_backdrop(light, geometry_passes, view))
    if geometry_passes is None:
        return denoised
    return replace_geometry(denoised, light, geometry_passes, camera)


def _has_catcher(trace: Trace) -> bool:
    """Return whether objects alone have albedo and normals, so that a geometry trace is cheap and pays."""
    return trace.floor is not None and trace.floor.catcher


if __name__ == "__main__":
    run_renderer(Renderer)
