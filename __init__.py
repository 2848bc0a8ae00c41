"""Render image sets in which exactly one thing changes, and measure how models respond to the change.

The names below are imported on first use, so that importing the package loads neither Blender nor torch:
`load_recipe`, `make_plan`, `do` and `render` of `candlelight.generators`; `pack_hdf5`, `pack_hub` and
`open_frames` of `candlelight.loaders`. Everything else is imported from `candlelight.generators`,
`candlelight.loaders` and the packages of `candlelight.evaluation`.

Example:
    >>> import candlelight
    >>> recipe = candlelight.do(candlelight.load_recipe("toy-confounded"), color="blue")
    >>> {sample.factors["color"] for sample in candlelight.make_plan(recipe, limit=10).samples}
    {'blue'}
"""

from typing import Any

import lazy_loader

from candlelight.version import code_version

_names, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":  # asks git in a checkout, so not on import
        return code_version()
    return _names(name)
