"""Render a plan in Blender with as little work as possible: the baseline of `overhead.py`.

    python -m benchmarks.bare_loop PLAN.parquet DONE

For each trace group this loop changes the scene, calls the render operator (`Renderer.trace`, which does
nothing else) and denoises arrays. Blender writes its results only to files, so the operator writes a
multilayer file into memory, as in the engine; this loop does not read it. For denoising, the loop records all
calls of the denoiser for the first trace of each kind before it starts, and repeats them for all other
traces; the cost of the denoiser does not depend on the pixels. The loop does not decompose, round, encode,
hash, write or check anything. The file DONE grows by one byte with every trace.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from candlelight.generators.blender.renderer import Renderer
from candlelight.generators.layers import denoise_layers
from candlelight.generators.planning.plan_table import load_plan
from candlelight.generators.scenes.plan_records import SamplePlan

Call = Callable[[], Any]


@dataclass
class Recorder:
    """Replaces the denoiser's module: passes every call on, and keeps it so that it can be repeated."""

    module: Any
    calls: list[Call] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.module, name)

        def call(*words: Any, **options: Any) -> Any:
            self.calls.append(lambda: function(*words, **options))
            return function(*words, **options)

        return call


def denoising(renderer: Renderer, group: Sequence[SamplePlan]) -> list[Call]:
    """Render a group as the engine does, and return its calls of the denoiser."""
    module = denoise_layers.pyoidn
    recorder = denoise_layers.pyoidn = Recorder(module)
    try:
        renderer.trace(group)()
    finally:
        denoise_layers.pyoidn = module
    return recorder.calls


def kind(group: Sequence[SamplePlan]) -> tuple[str, bool]:
    """Return the kind of a trace: traces that are denoised differently differ in set or shadow catcher."""
    floor = group[0].trace.floor
    return group[0].set, floor is not None and floor.catcher


def main(plan_file: Path, done: Path) -> None:
    """Run the loop."""
    plan = load_plan(plan_file)
    groups = [tuple(group) for group in plan.groups.values()]
    with tempfile.TemporaryDirectory() as root, done.open("wb", buffering=0) as progress:
        renderer = Renderer(Path(root), plan.recipe, 1)
        first = {kind(group): group for group in reversed(groups)}
        calls = {name: denoising(renderer, group) for name, group in first.items()}
        for group in groups:
            renderer.trace(group)
            for call in calls[kind(group)]:
                call()
            progress.write(b".")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
