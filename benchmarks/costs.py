"""Measure the cost of a trace by what it depends on: the cost model of docs/scaling.md.

    python -m benchmarks.costs [--traces 5]

Renders a few traces of each kind in one process, like the render process of the engine, and changes one thing
at a time: resolution, samples, shadow catcher, objects, layers, denoising, frames per trace. Each row gives
medians over the traces:

- CPU seconds of tracing: changing the scene, and the render operator;
- CPU seconds of finishing: reading the passes, decomposition, denoising; hashing, encoding, writing each
  frame;
- extra CPU seconds of the first trace, compared with the same trace at the end: reading and building the
  scene;
- kilobytes on disk per frame.

The cost of starting a process is printed first. About 5 minutes on an idle processor.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.processes import print_table
from candlelight.generators import load_recipe, make_plan
from candlelight.generators.engine.processor_count import THREADS_VARIABLE
from candlelight.generators.planning.plan import Plan
from candlelight.generators.planning.planned_samples import compress_samples

BASE = ["render.samples=16", "image={width: 320, height: 240}"]
MAP = ("candle", ["sets.candle.factors.scene.values=[garden]"])
MODELLED = ("candle", ["sets.candle.factors.scene.values=[garage]"])
TABLE = "sets.illumination.factors.light_azimuth.values=[10]"  # the smallest second set; it is not rendered
ONE = ("concepts", ["sets.albedo.factors.scene.values=[sphere]", TABLE])
THREE = ("concepts", ["sets.albedo.factors.scene.values=[suzanne_knot_cylinder]", TABLE])
SMALL = ["image={width: 64, height: 64}"]
LAYERS = "layers=[image, radiance, albedo, shading, residual, depth, normal, object, {}]"
CASES = (
    ("environment map, shadow catcher, 320x240, 16 samples, denoised", (MAP, [])),
    ("- 640x480", (MAP, ["image={width: 640, height: 480}"])),
    ("- 128x128", (MAP, ["image={width: 128, height: 128}"])),
    ("- 64x64", (MAP, SMALL)),
    ("- 4 samples", (MAP, ["render.samples=4"])),
    ("- 64 samples", (MAP, ["render.samples=64"])),
    ("- not denoised", (MAP, ["render.denoise=false"])),
    ("- without the catcher", (MAP, ["sets.candle.layout.floor=null"])),
    ("- image alone", (MAP, ["layers=[image]"])),
    ("modelled scene, 320x240", (MODELLED, [])),
    ("- 64x64", (MODELLED, SMALL)),
    ("table, one object, 3 frames a trace, 320x240", (ONE, [])),
    ("- 64x64", (ONE, SMALL)),
    ("- three objects", (THREE, [])),
    ("- with position, roughness, metallic", (ONE, [LAYERS.format("position, roughness, metallic")])),
    ("- with light/*", (ONE, [LAYERS.format("light/*")])),
)


def planned(case: tuple[tuple[str, list[str]], list[str]], traces: int) -> Plan:
    """Plan a case: whole trace groups at equal distances in its first set."""
    (recipe, narrowed), changed = case
    plan = make_plan(load_recipe(recipe, [*BASE, *narrowed, *changed]))
    first = next(iter(plan.recipe.sets))
    groups = [group for group in plan.groups.values() if group.keys[0].set == first]
    step = max(1, len(groups) // traces)
    samples = (sample for group in groups[::step][:traces] for sample in group)
    return Plan(plan.recipe, compress_samples(samples))


def measure(plan: Plan, root: Path) -> tuple[float, float, float, float]:
    """Render a plan; return CPU s of tracing, finishing and the first trace's excess, and bytes a frame."""
    os.environ[THREADS_VARIABLE] = "1"  # as in a render process
    from candlelight.generators.blender.renderer import Renderer

    root.mkdir()
    renderer = Renderer(root, plan.recipe, 1)
    marks = []
    groups = list(plan.groups.values())
    for group in (*groups, groups[0]):
        began = time.process_time()
        finish = renderer.trace(group)
        traced = time.process_time()
        finish()
        marks.append((traced - began, time.process_time() - traced))
    tracing, finishing = (statistics.median(mark[i] for mark in marks[1:]) for i in (0, 1))
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    return tracing, finishing, marks[0][0] - marks[-1][0], size / len(plan)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=int, default=5)
    options = parser.parse_args()
    began = time.process_time()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        measure(planned((ONE, SMALL), 2), Path(folder) / "start")
        started = time.process_time() - began
        print(f"start of a process, planning and three small traces: {started:.1f} CPU s")
        for number, (name, case) in enumerate(CASES):
            root = Path(folder) / str(number)
            plan = planned(case, options.traces)
            *seconds, size = measure(plan, root)
            rows.append((name, *seconds, size / 1000))
            print(*rows[-1], sep=", ", flush=True)
    header = ("trace", "tracing, CPU s", "finishing, CPU s", "first, extra CPU s", "kB per frame")
    print_table(header, rows)


if __name__ == "__main__":
    main()
