"""Image sets on disk and in memory: the schema of a frame, its files, readers and packs.

- read: `open_frames` (or `FrameFolder`, `HDF5Frames`, `HubFrames`), `collate`, `load_tensors`;
- choose samples by their factors: `FactorIndex`, `group_rows`, `FactorSpace`; choose pixels: `mixed_edges`;
- publish: `pack_hdf5`, `pack_hub`, `push_hub`; find damage: `verify`.

`candlelight.loaders.schema` defines each layer and each field of the metadata.
"""

if __name__ != "candlelight.loaders":
    raise ImportError(f"`{__name__}` is a part of candlelight: import `candlelight.loaders`")

from candlelight.loaders.downscale import downscale as downscale
from candlelight.loaders.downscale import downscaled_set as downscaled_set
from candlelight.loaders.epoch_order import EpochOrder as EpochOrder
from candlelight.loaders.epoch_order import ResumableSampler as ResumableSampler
from candlelight.loaders.errors import InputError as InputError
from candlelight.loaders.factor_space import FactorSpace as FactorSpace
from candlelight.loaders.frame_folder import FrameFolder as FrameFolder
from candlelight.loaders.frames import clean_partial as clean_partial
from candlelight.loaders.frames import complete_indices as complete_indices
from candlelight.loaders.frames import frame_path as frame_path
from candlelight.loaders.frames import is_complete as is_complete
from candlelight.loaders.frames import read_dataset_info as read_dataset_info
from candlelight.loaders.frames import read_frame as read_frame
from candlelight.loaders.frames import write_dataset_info as write_dataset_info
from candlelight.loaders.frames import write_frame as write_frame
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames as HDF5Frames
from candlelight.loaders.hdf5.write_hdf5 import pack_hdf5 as pack_hdf5
from candlelight.loaders.hub.push import push_hub as push_hub
from candlelight.loaders.hub.read_hub import HubFrames as HubFrames
from candlelight.loaders.hub.write_hub import pack_hub as pack_hub
from candlelight.loaders.image_frames import ImageFrames as ImageFrames
from candlelight.loaders.image_frames import open_image_frames as open_image_frames
from candlelight.loaders.looking.describe import describe as describe
from candlelight.loaders.looking.draw_sheet import draw_sheet as draw_sheet
from candlelight.loaders.looking.look import look as look
from candlelight.loaders.mixed_edges import mixed_edges as mixed_edges
from candlelight.loaders.open_frames import open_frames as open_frames
from candlelight.loaders.packs.split_plan import SplitPlan as SplitPlan
from candlelight.loaders.samples import Frame as Frame
from candlelight.loaders.samples import Frames as Frames
from candlelight.loaders.samples import collate as collate
from candlelight.loaders.samples import group_rows as group_rows
from candlelight.loaders.samples import to_sample as to_sample
from candlelight.loaders.selection.adapters import DisentanglementLibData as DisentanglementLibData
from candlelight.loaders.selection.adapters import DisentData as DisentData
from candlelight.loaders.selection.confounding import ConditionalTable as ConditionalTable
from candlelight.loaders.selection.confounding import Selection as Selection
from candlelight.loaders.selection.confounding import ValueRange as ValueRange
from candlelight.loaders.selection.confounding import select_by_rules as select_by_rules
from candlelight.loaders.selection.confounding import select_by_tables as select_by_tables
from candlelight.loaders.selection.confounding_presets import select_preset as select_preset
from candlelight.loaders.selection.counted_propensity import (
    counted_inverse_propensity as counted_inverse_propensity,
)
from candlelight.loaders.selection.counterfactual_rows import counterfactual_rows as counterfactual_rows
from candlelight.loaders.selection.factor_index import FactorIndex as FactorIndex
from candlelight.loaders.selection.pair_dataset import PairDataset as PairDataset
from candlelight.loaders.selection.pair_dataset import collate_pairs as collate_pairs
from candlelight.loaders.selection.supervision import Pairs as Pairs
from candlelight.loaders.selection.supervision import k_pairs as k_pairs
from candlelight.loaders.selection.supervision import match_pairs as match_pairs
from candlelight.loaders.selection.supervision import rank_pairs as rank_pairs
from candlelight.loaders.selection.supervision import restricted_labels as restricted_labels
from candlelight.loaders.tensors_in_memory import load_tensors as load_tensors
from candlelight.loaders.verification.verify_frames import Findings as Findings
from candlelight.loaders.verification.verify_frames import verify as verify
