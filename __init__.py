"""Render image sets in which exactly one thing changes, and measure how models respond to the change.

The names below are imported on first use, so that importing the package loads neither Blender nor torch:
`load_recipe`, `make_plan`, `do` and `render` of `candlelight.generators`; `pack_hdf5`, `pack_hub` and
`open_frames` of `candlelight.loaders`. Everything else is imported from `candlelight.generators`,
`candlelight.loaders` and the packages of `candlelight.evaluation`.

Example:
    >>> import candlelight
    >>> recipe = candlelight.load_recipe("candle")
    >>> len(candlelight.make_plan(candlelight.do(recipe, color="blue")))
    21600
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from candlelight.generators import do as do
    from candlelight.generators import load_recipe as load_recipe
    from candlelight.generators import make_plan as make_plan
    from candlelight.generators import render as render
    from candlelight.loaders import open_frames as open_frames
    from candlelight.loaders import pack_hdf5 as pack_hdf5
    from candlelight.loaders import pack_hub as pack_hub

_PACKAGES = {
    "candlelight.generators": ("do", "load_recipe", "make_plan", "render"),
    "candlelight.loaders": ("open_frames", "pack_hdf5", "pack_hub"),
}
_PACKAGE_OF = {name: package for package, names in _PACKAGES.items() for name in names}
__all__ = sorted(_PACKAGE_OF)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("candlelight.version").code_version()
    if name not in _PACKAGE_OF:
        raise AttributeError(f"module 'candlelight' has no attribute {name!r}")
    return getattr(import_module(_PACKAGE_OF[name]), name)


def __dir__() -> list[str]:
    return [*globals(), "__version__", *__all__]
