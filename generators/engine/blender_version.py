"""The version of Blender that traces on this machine; other versions trace other pixels."""

import sys
from importlib.metadata import PackageNotFoundError, version

# The Pythons that Blender is built for as a module (bpy), and the version that the project is tested with.
BLENDER_OF_PYTHON = {"3.13": "5.2.3", "3.11": "5.0.1"}


def blender_version() -> str | None:
    """Return the version of the installed `bpy`; None if it is not installed."""
    try:
        return version("bpy")
    except PackageNotFoundError:
        return None


def pythons_with_blender() -> str:
    """Say in words which Pythons can render.

    Example:
        >>> pythons_with_blender()
        'Python 3.13 (bpy 5.2.3) or Python 3.11 (bpy 5.0.1)'
    """
    return " or ".join(f"Python {python} (bpy {bpy})" for python, bpy in BLENDER_OF_PYTHON.items())


def how_to_render() -> str:
    """Say how to install the packages for rendering, or, on a Python without Blender, where."""
    if "{}.{}".format(*sys.version_info) in BLENDER_OF_PYTHON:
        return 'run `pip install "candlelight[render]"`'
    return f'Blender needs {pythons_with_blender()}: install "candlelight[render]" there'
