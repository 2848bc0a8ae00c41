"""Image sets on disk and in memory: the schema of a frame, its files, readers and packs.

- read: `open_frames` (or `FrameFolder`, `HDF5Frames`, `HubFrames`), `collate`, `load_tensors`;
- choose samples by their factors: `FactorIndex`, `group_rows`, `FactorSpace`; choose pixels: `mixed_edges`;
- publish: `pack_hdf5`, `pack_hub`, `push_hub`; find damage: `verify`.

`candlelight.loaders.schema` defines each layer and each field of the metadata.
"""

import lazy_loader

if __name__ != "candlelight.loaders":
    raise ImportError(f"`{__name__}` is a part of candlelight: import `candlelight.loaders`")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
