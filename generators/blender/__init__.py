"""Blender: the only package that imports `bpy`, and only render and helper processes import the package."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from candlelight.generators.engine.blender_version import how_to_render
from candlelight.generators.engine.processor_count import THREADS_VARIABLE, limit_processors

try:
    with limit_processors(int(os.environ.get(THREADS_VARIABLE, sys.maxsize))):
        import bpy as bpy
except ModuleNotFoundError as error:
    raise ImportError(f"rendering needs bpy, not installed here; {how_to_render()}") from error

VERSION = ".".join(map(str, bpy.app.version))  # without the "LTS" of `version_string`


def start_empty() -> None:
    """Reset Blender to factory settings and an empty file, and remove its temporary folder."""
    bpy.ops.wm.read_factory_settings(use_empty=True)
    _remove_temporary_folder()


def _remove_temporary_folder() -> None:
    """Remove Blender's temporary folder, which is not used here and which a killed process would leave."""
    with suppress(OSError):
        Path(bpy.app.tempdir).rmdir()


_remove_temporary_folder()  # importing bpy made one
