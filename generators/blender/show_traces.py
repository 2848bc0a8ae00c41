"""Open assets as a render does, without rendering: set up Blender's scene for some traces.

``python -m candlelight.generators.blender.show_traces`` is asked by
`candlelight.generators.engine.helper_process.run_helper` with the user's ``folders`` and some ``traces``, and
replies for each trace the ``error`` for which `candlelight.generators.blender.renderer.Renderer` would
refuse it, or None.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.blender.blender_scene import BlenderScene
from candlelight.generators.engine.helper_process import answer_request
from candlelight.generators.scenes.plan_records import Trace


def _open_all(request: dict[str, Any]) -> Iterator[dict[str, str | None]]:
    library = AssetLibrary({kind: Path(folder) for kind, folder in request["folders"].items()})
    scene = None
    for trace in map(Trace.model_validate, request["traces"]):
        if scene is None:
            scene = BlenderScene(width=64, height=64, samples=1, bounces=0, threads=1, library=library)
        try:
            scene.show(trace)
            yield {"error": None}
        except (OSError, ValueError, RuntimeError) as error:
            scene = None  # it may mix two traces
            yield {"error": str(error)}


if __name__ == "__main__":
    answer_request(_open_all)
