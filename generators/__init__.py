"""Recipes, plans and rendering of image sets in which exactly one thing changes.

Importing this package imports neither Blender nor torch.
"""

import lazy_loader

if __name__ != "candlelight.generators":
    raise ImportError(f"`{__name__}` is a part of candlelight: import `candlelight.generators`")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
