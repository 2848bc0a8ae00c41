"""Compare CPU time at equal error: rebuilding the scene for each image at 128 samples, against the engine.

    python -m benchmarks.equal_error                     all: 3 frames at 320x240, 2048-sample references
    python -m benchmarks.equal_error --quick             the same at 80x60 with 512-sample references
    python -m benchmarks.equal_error --lights            also one trace of three lights, against three traces

"Theirs" is the method of CANDLE: for each image Blender is reset, every asset is read again, and 128 samples
are traced without denoising. "Ours" is the method of the engine: one stage, persistent data, denoised layers.
The engine runs with several numbers of samples, to find for each layer the number that reaches the error of
theirs. Both methods run on one thread, each in its own process, by turns. CPU seconds are those of the
process and include building the scene, tracing, reading, decomposing, denoising and rounding.

The error is the PSNR in dB relative to a reference with another seed, with peak 1. `image` is code values /
255; `radiance`, `shading` and `residual` are multiplied by the recipe's exposure and clipped to 0..1, so that
1 is white in `image`; `albedo` and the components of `normal` are used as stored; `depth` is 1 / m, 0 in the
background; `object` is 1 where the index differs. All pixels count, except that `shading` uses only pixels
whose albedo is not 0 in both images.
"""

import argparse
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy import ndarray

from candlelight.blender_assets import AssetLibrary
from candlelight.generators import Recipe, load_recipe
from candlelight.generators.engine.processor_count import THREADS_VARIABLE
from candlelight.generators.language.set_settings import settings, stored_layers
from candlelight.generators.layers.denoise_layers import limit_denoiser_threads
from candlelight.generators.layers.round_layers import frame_layers
from candlelight.generators.planning.plan import plan_samples
from candlelight.generators.scenes.plan_records import SamplePlan

# An environment map with a shadow catcher, a modelled scene, and a plain table under one light.
FRAMES = {"candle": ("candle-001358", "candle-010837"), "concepts": ("albedo-000100",)}
LIT_BY_THREE = "candle-010837"
NEXT_LIGHT = 450  # distance of two plan rows of `candle` that differ only in the light
THEIR_SAMPLES = 128
TEMPERATURES = 3
EQUAL = 99.0  # dB, printed for equal images

Layers = dict[str, ndarray]


@dataclass(frozen=True)
class Shot:
    """A sample to trace, and the settings of the trace."""

    recipe: Recipe
    sample: SamplePlan
    samples: int
    denoised: bool = True
    images: int = 1
    lights: tuple[str, ...] = ()


_kept: dict[str, object] = {}


def shoot(shot: Shot, anew: bool, threads: int = 1) -> tuple[float, Layers]:
    """Trace a frame in this process.

    Args:
        shot: the sample and settings.
        anew: reset Blender and read everything again, like CANDLE.
        threads: render threads.

    Returns:
        CPU seconds, and the layers of the last image.
    """
    from candlelight.generators.blender import passes
    from candlelight.generators.blender.blender_scene import BlenderScene
    from candlelight.generators.blender.geometry_trace import GeometryTrace
    from candlelight.generators.blender.renderer import layers_of_trace

    limit_denoiser_threads(threads)
    chosen = settings(shot.recipe, shot.sample.set)
    image, trace = chosen.image, shot.sample.trace
    started = time.process_time()
    key = f"{shot.recipe.name} {shot.sample.set} {shot.lights} {threads}"
    if anew or _kept.get("key") != key:
        scene = BlenderScene(
            width=image.width,
            height=image.height,
            samples=shot.samples,
            bounces=chosen.render.bounces,
            threads=threads,
            library=AssetLibrary(shot.recipe.assets),
        )
        passes.request(scene.bpy_scene, shot.lights)
        geometry = GeometryTrace(scene, image.width, image.height, chosen.render.geometry_samples, threads)
        files = _kept.get("files") or (passes.scratch_file(), passes.scratch_file())
        _kept.update(key=key, scene=scene, geometry=geometry, files=files)
    scene, (light_file, geometry_file) = _kept["scene"], _kept["files"]
    scene.bpy_scene.render.use_persistent_data = not anew
    scene.bpy_scene.cycles.samples = shot.samples
    objects = scene.show(trace)
    passes.trace(scene.bpy_scene, light_file)
    render = chosen.render.model_copy(update={"samples": shot.samples, "denoise": shot.denoised})
    geometry = None
    if render.has_geometry_trace and trace.floor is not None and trace.floor.catcher:
        geometry = _kept["geometry"].trace(trace, objects, geometry_file)
    traced = layers_of_trace(trace, replace(chosen, render=render), light_file, geometry)
    names = (*stored_layers(shot.recipe, shot.sample.set), *(f"light/{name}" for name in shot.lights))
    for _ in range(shot.images):
        layers, _checks = frame_layers(traced, gain=shot.sample.gain, exposure=chosen.exposure, layers=names)
    return time.process_time() - started, layers


def errors(layers: Layers, truth: Layers, exposure: float) -> dict[str, float]:
    """Return the PSNR of every layer."""
    return {name: psnr(*comparable(name, layers, truth, exposure)) for name in truth}


def comparable(name: str, layers: Layers, truth: Layers, exposure: float) -> tuple[ndarray, ndarray]:
    """Convert a layer of two frames to the range and pixels for which its error is defined."""
    pair = [frame[name].astype(np.float64) for frame in (layers, truth)]
    if name == "image":
        pair = [array / 255 for array in pair]
    elif name == "object":
        pair = [(pair[0] != pair[1]).astype(np.float64), np.zeros_like(pair[0])]
    elif name == "depth":
        pair = [1 / array for array in pair]
    elif name in ("radiance", "shading", "residual") or name.startswith("light/"):
        pair = [np.clip(array * exposure, 0, 1) for array in pair]
    if name == "shading":
        lit = (layers["albedo"] > 0).any(axis=-1) & (truth["albedo"] > 0).any(axis=-1)
        pair = [array[lit] for array in pair]
    return pair[0], pair[1]


def psnr(found: ndarray, truth: ndarray) -> float:
    """Peak signal-to-noise ratio in dB for a peak of 1, at most `EQUAL`."""
    error = float(np.mean((found - truth) ** 2)) if found.size else 0.0
    return min(EQUAL, -10 * np.log10(error)) if error else EQUAL


def reseeded(sample: SamplePlan) -> SamplePlan:
    """Return the same scene with another renderer seed."""
    trace = sample.trace
    return sample.model_copy(
        update={"trace": trace.model_copy(update={"cycles_seed": trace.cycles_seed + 1})}
    )


def one_thread() -> None:
    """Let Blender load as in a render process with one thread."""
    os.environ[THREADS_VARIABLE] = "1"


class Bench:
    """Three processes with Blender: one for each method, and one for the references."""

    def __init__(self, options: argparse.Namespace) -> None:
        """Create the process pools; a process starts when it is first used."""
        spawn = multiprocessing.get_context("spawn")
        self.theirs, self.ours = (ProcessPoolExecutor(1, spawn, one_thread) for _ in range(2))
        self.references = ProcessPoolExecutor(1, spawn)
        self.options = options

    def truth(self, shot: Shot) -> Layers:
        """Trace the reference of a frame, on all processors."""
        seeded = replace(
            shot, sample=reseeded(shot.sample), samples=self.options.reference, denoised=False, images=1
        )
        return self.references.submit(shoot, seeded, False, multiprocessing.cpu_count()).result()[1]

    def compare(self, name: str, shot: Shot) -> None:
        """Print the table of one frame."""
        exposure = settings(shot.recipe, shot.sample.set).exposure
        truth = self.truth(shot)
        counts = self.options.samples
        raw = replace(shot, samples=THEIR_SAMPLES, denoised=False)
        for count in counts:  # the first trace of a process, or with a new number of samples, costs more
            self.ours.submit(shoot, replace(shot, samples=count), False).result()
        cpu: dict[int, list[float]] = {count: [] for count in (0, -1, *counts)}
        found: dict[int, dict[str, float]] = {}
        for _ in range(self.options.rounds):
            seconds, layers = self.theirs.submit(shoot, raw, True).result()
            cpu[0].append(seconds)
            found[0] = errors(layers, truth, exposure)
            for count in counts:
                seconds, layers = self.ours.submit(shoot, replace(shot, samples=count), False).result()
                cpu[count].append(seconds)
                found[count] = errors(layers, truth, exposure)
            three = replace(shot, samples=counts[0], images=TEMPERATURES)
            cpu[-1].append(self.ours.submit(shoot, three, False).result()[0])
        self.print_table(name, {key: median(values) for key, values in cpu.items()}, found)

    def print_table(self, name: str, cpu: dict[int, float], found: dict[int, dict[str, float]]) -> None:
        """Print the PSNR of each layer, and the ratio of CPU times at equal error."""
        counts = self.options.samples
        print(f"\n{name}: PSNR in dB to {self.options.reference} samples; theirs {cpu[0]:.2f} CPU s a trace")
        print(
            f"{'':10}{'theirs':>8}",
            *(f"{count:>7}" for count in counts),
            "  CPU of theirs / ours at equal error",
        )
        for layer, theirs in found[0].items():
            enough = [count for count in counts if found[count][layer] >= theirs - self.options.margin]
            verdict = f"{cpu[0] / cpu[enough[0]]:6.1f} ({enough[0]} samples)" if enough else "  not reached"
            print(
                f"{layer:10}{theirs:8.1f}",
                *(f"{found[count][layer]:7.1f}" for count in counts),
                f"  {verdict}",
            )
        print(f"{'CPU ratio':10}{1.0:8.1f}", *(f"{cpu[0] / cpu[count]:7.1f}" for count in counts))
        gain = cpu[0] * TEMPERATURES / cpu[-1]
        print(
            f"per image where {counts[0]} samples give {TEMPERATURES} temperatures: {gain:.1f} times less CPU"
        )

    def lights(self, shot: Shot, lamps: list[SamplePlan]) -> None:
        """Compare one trace of three lights, each in a light group, with three traces at equal CPU time."""
        own = [lamp.trace.lights[0] for lamp in lamps]
        names = tuple(f"light {i}" for i in range(len(own)))
        named = [lamp.model_copy(update={"name": name}) for lamp, name in zip(own, names, strict=True)]
        exposure = settings(shot.recipe, shot.sample.set).exposure

        def lit(lights: list) -> SamplePlan:
            trace = shot.sample.trace.model_copy(update={"lights": tuple(lights)})
            return shot.sample.model_copy(update={"trace": trace})

        apart = [replace(shot, sample=lit([lamp])) for lamp in named]
        together = replace(
            shot, sample=lit(named), samples=shot.samples * len(own), lights=(*names, "environment")
        )
        truths = [self.truth(one) for one in apart]
        alone = [self.ours.submit(shoot, one, False).result() for one in (*apart, *apart)][len(apart) :]
        self.ours.submit(shoot, replace(together, samples=1), False).result()
        seconds, grouped = self.ours.submit(shoot, together, False).result()
        total = sum(cpu for cpu, _ in alone)
        print(f"\nthree lights: {len(own)} traces of {shot.samples} samples {total:.2f} CPU s;", end=" ")
        print(f"one of {together.samples} with three light groups {seconds:.2f} CPU s; radiance, PSNR in dB")
        for i, (name, truth) in enumerate(zip(names, truths, strict=True)):
            total_light = grouped[f"light/{name}"].astype(np.float32) + grouped["light/environment"]
            pair = comparable("radiance", {"radiance": total_light}, truth, exposure)
            apart_error = errors(alone[i][1], truth, exposure)["radiance"]
            print(f"{name}: apart {apart_error:.1f}, together {psnr(*pair):.1f}")


def chosen_frames(options: argparse.Namespace) -> dict[str, Shot]:
    """Plan the frames."""
    size = ["image={width: 80, height: 60}"] if options.quick else ["image={width: 320, height: 240}"]
    frames = {}
    for name, ids in FRAMES.items():
        recipe = load_recipe(name, size)
        for sample in plan_samples(recipe, ids).samples:
            frames[sample.id] = Shot(recipe, sample, options.samples[0])
    return {name: shot for name, shot in frames.items() if not options.only or name in options.only}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="80x60 pixels, 512-sample references")
    parser.add_argument("--lights", action="store_true", help="compare one trace of three lights with three")
    parser.add_argument("--only", nargs="+", help="ids of the frames to trace")
    parser.add_argument(
        "--samples", nargs="+", type=int, default=[16, 32, 64, 128], help="numbers of samples of the engine"
    )
    parser.add_argument("--rounds", type=int, default=2, help="rounds of traces; medians are printed")
    parser.add_argument(
        "--reference", type=int, help="samples of the reference [default: 2048, or 512 with --quick]"
    )
    parser.add_argument("--margin", type=float, default=0.0, help="difference in dB that counts as equal")
    options = parser.parse_args()
    options.reference = options.reference or (512 if options.quick else 2048)
    bench = Bench(options)
    frames = chosen_frames(options)
    for name, shot in frames.items():
        bench.compare(name, shot)
    if options.lights:
        shot = chosen_frames(argparse.Namespace(**{**vars(options), "only": [LIT_BY_THREE]}))[LIT_BY_THREE]
        first = shot.sample.index
        ids = [f"{shot.sample.set}-{(first // NEXT_LIGHT + i) * NEXT_LIGHT:06d}" for i in range(3)]
        bench.lights(shot, list(plan_samples(shot.recipe, ids).samples))


if __name__ == "__main__":
    main()
