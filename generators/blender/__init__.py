"""Blender: the only package that imports `bpy`, and only inside the render child.

Importing it needs Blender's Python module; everything that plans, schedules, reads or evaluates does not.
"""

import os
import sys

from generators.processors import THREADS, held_to

try:
    with held_to(int(os.environ.get(THREADS, sys.maxsize))):
        import bpy as bpy
except ImportError as error:
    raise ImportError(
        "Rendering needs Blender's Python module `bpy`, which runs on Python 3.11 alone. "
        "Install it with `pip install candlelight[render]` in a Python 3.11 environment."
    ) from error
