"""Find assets: one file per asset, labelled by the file's name.

The folders ``objects materials textures lights scenes`` of this package hold the shipped library; folders of
the user are searched first. `AssetLibrary` finds the files of assets and their facts in manifests.
"""

import lazy_loader

if __name__ != "candlelight.blender_assets":
    raise ImportError(f"`{__name__}` is a part of candlelight: import `candlelight.blender_assets`")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
