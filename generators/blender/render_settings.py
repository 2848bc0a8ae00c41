"""Render settings that no trace changes: every setting of Blender that decides pixels is set here.

Blender's defaults change between versions and with the user's start-up file, so none is relied on. The test
of this module fails if a version has a setting that is neither set here nor known to decide no pixel.
"""

from typing import Any

# Names that only some versions have are set where they exist.
CYCLES_SETTINGS: dict[str, Any] = {
    **{"shading_system": False, "use_denoising": False, "use_fast_gi": False, "use_guiding": False},
    # Sampling. Adaptive sampling would give pixels different errors.
    **{"sampling_pattern": "TABULATED_SOBOL", "scrambling_distance": 1.0, "auto_scrambling_distance": False},
    **{"use_adaptive_sampling": False, "use_layer_samples": "IGNORE", "use_animated_seed": False},
    **{"use_sample_subset": False, "sample_offset": 0, "time_limit": 0.0},
    **{"direct_light_sampling_type": "MULTIPLE_IMPORTANCE_SAMPLING", "light_sampling_threshold": 0.01},
    **{"use_light_tree": True, "pixel_filter_type": "BLACKMAN_HARRIS", "filter_width": 1.5},
    "use_pixel_jitter": False,
    # Paths. No clamping, because the sum of the passes must stay the traced radiance.
    **{"sample_clamp_direct": 0.0, "sample_clamp_indirect": 0.0, "blur_glossy": 1.0},
    **{"caustics_reflective": True, "caustics_refractive": True},
    **{"min_light_bounces": 0, "min_transparent_bounces": 0, "transparent_max_bounces": 8},
    **{"diffuse_bounces": 4, "glossy_bounces": 4, "transmission_bounces": 12, "volume_bounces": 0},
    **{"volume_biased": False, "volume_step_rate": 1.0, "volume_max_steps": 1024},
    # Film and camera.
    **{"film_exposure": 1.0, "film_transparent_glass": False, "film_transparent_roughness": 0.1},
    **{"rolling_shutter_type": "NONE", "use_camera_cull": False, "use_distance_cull": False},
    # Geometry and textures, in full resolution.
    **{"dicing_rate": 1.0, "max_subdivisions": 12, "offscreen_dicing_scale": 4.0},
    **{"texture_limit_render": "OFF", "texture_resolution_render": 1.0},
    **{"use_auto_tile": True, "tile_size": 2048},
}
SCENE_SETTINGS: dict[str, Any] = {
    **{"engine": "CYCLES", "resolution_percentage": 100, "pixel_aspect_x": 1.0, "pixel_aspect_y": 1.0},
    **{"threads_mode": "FIXED", "use_persistent_data": True, "film_transparent": False},
    **{"use_motion_blur": False, "use_simplify": False, "use_multiview": False, "use_freestyle": False},
    **{"use_compositing": False, "use_sequencer": False, "use_border": False, "use_crop_to_border": False},
    **{"use_single_layer": False, "use_stamp": False, "dither_intensity": 0.0},
    **{"hair_type": "STRAND", "hair_subdiv": 0},
    # The texture cache reads files beside a texture that the asset's hash does not cover.
    **{"use_texture_cache": False, "use_auto_generate_texture_cache": False},
}
# The passes hold scene-linear values; these settings would change only what Blender itself displays.
VIEW_SETTINGS: dict[str, Any] = {
    **{"view_transform": "Standard", "look": "None", "exposure": 0.0, "gamma": 1.0},
    **{"use_curve_mapping": False, "use_white_balance": False},
}
VIEW_LAYER_SETTINGS: dict[str, Any] = {
    # Guides of the denoiser show what a mirror shows, as in versions without this setting.
    **{"denoising_pass_follow_reflections": True, "denoising_pass_use_albedo_roughness_weighting": True},
}


def configure(bpy_scene: Any, width: int, height: int, samples: int, bounces: int, threads: int) -> None:
    """Set all render settings of a new Blender scene, for the processor.

    Args:
        bpy_scene: the Blender scene.
        width: pixels.
        height: pixels.
        samples: paths per pixel.
        bounces: largest number of bounces of a path.
        threads: render threads; pixels do not depend on them.
    """
    render, cycles = bpy_scene.render, bpy_scene.cycles
    for settings, values in (
        (render, SCENE_SETTINGS),
        (cycles, CYCLES_SETTINGS),
        (bpy_scene.view_settings, VIEW_SETTINGS),
        (bpy_scene.view_layers[0].cycles, VIEW_LAYER_SETTINGS),
    ):
        for name, value in values.items():
            if hasattr(settings, name):
                setattr(settings, name, value)
    render.resolution_x, render.resolution_y, render.threads = width, height, threads
    cycles.device, cycles.samples, cycles.max_bounces = "CPU", samples, bounces
