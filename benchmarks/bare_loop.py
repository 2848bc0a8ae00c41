"""The least that any renderer of a plan in Blender must do: the peer of `overhead.py`.

    python -m benchmarks.bare_loop PLAN.parquet DONE

For each trace group the scene is mutated and the render operator called (`Renderer.trace`, which does nothing
else), and arrays are denoised. Blender gives its results to files only, so the operator writes its multilayer
file, into memory as the engine lets it; nobody reads it. What is denoised was read before the loop instead:
the arguments of every call that the engine makes of the denoiser for the first trace of a kind, which are
replayed for all others; the denoiser's network costs the same whatever the pixels are. Nothing is decomposed,
rounded, encoded, hashed, written, described or checked. The file DONE grows by a byte with every trace.
"""

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generators.blender.renderer import Renderer
from generators.layers import denoise_layers
from generators.planning.plan_table import load_plan
from generators.scenes.scene import SamplePlan

Call = Callable[[], Any]


@dataclass
class Recorder:
    """Stands in for the denoiser's module, and keeps what would repeat the calls that pass through."""

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
    """Tell apart the traces that are denoised differently: by set, and by whether a floor catches shadows."""
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
