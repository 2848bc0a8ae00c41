"""Blender: the only package that imports `bpy`, and only inside the render child.

Importing it needs Blender's Python module; everything that plans, schedules, reads or evaluates does not.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from generators.engine.processor_count import THREADS_VARIABLE, limit_processors

try:
    with limit_processors(int(os.environ.get(THREADS_VARIABLE, sys.maxsize))):
        import bpy as bpy
except ImportError as error:
    raise ImportError(
        "Rendering needs Blender's Python module `bpy`, which runs on Python 3.11 alone. "
        "Install it with `pip install candlelight[render]` in a Python 3.11 environment."
    ) from error


def start_empty() -> None:
    """Bring Blender to factory settings, with nothing in it.

    That makes a temporary folder, which a process that is killed leaves behind, and which nothing uses here.
    """
    bpy.ops.wm.read_factory_settings(use_empty=True)
    _remove_temporary_folder()


def _remove_temporary_folder() -> None:
    with suppress(OSError):
        Path(bpy.app.tempdir).rmdir()


_remove_temporary_folder()  # of importing bpy
