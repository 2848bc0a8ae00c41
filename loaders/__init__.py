"""Image sets on disk and in memory: the schema of a frame, its files, readers and packs.

Start with `open_frames` (or `FrameFolder`, `HDF5Frames`, `HubFrames`) and `collate` to read, `group_rows` and
`FactorSpace` to choose samples by their factors, `mixed_edges` to choose pixels, `pack_hdf5` and `pack_hub`
to publish, `verify` to find damage. `loaders.schema` says what each layer and each field of the metadata
means.
"""

from loaders.describe import describe as describe
from loaders.describe import open_frames as open_frames
from loaders.edges import mixed_edges as mixed_edges
from loaders.errors import InputError as InputError
from loaders.factors import FactorSpace as FactorSpace
from loaders.frames import FrameFolder as FrameFolder
from loaders.frames import clean_partial as clean_partial
from loaders.frames import complete_indices as complete_indices
from loaders.frames import frame_path as frame_path
from loaders.frames import is_complete as is_complete
from loaders.frames import read_dataset_info as read_dataset_info
from loaders.frames import read_frame as read_frame
from loaders.frames import write_dataset_info as write_dataset_info
from loaders.frames import write_frame as write_frame
from loaders.hdf5 import HDF5Frames as HDF5Frames
from loaders.hdf5 import pack_hdf5 as pack_hdf5
from loaders.hub import pack_hub as pack_hub
from loaders.hub_frames import HubFrames as HubFrames
from loaders.pictures import Pictures as Pictures
from loaders.pictures import open_pictures as open_pictures
from loaders.samples import Frame as Frame
from loaders.samples import Frames as Frames
from loaders.samples import collate as collate
from loaders.samples import group_rows as group_rows
from loaders.samples import to_sample as to_sample
from loaders.verify import Findings as Findings
from loaders.verify import verify as verify
