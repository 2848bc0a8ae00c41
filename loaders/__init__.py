"""Image sets on disk and in memory: the schema of a frame, its files, readers and packs.

- read: `open_frames` (or `FrameFolder`, `HDF5Frames`, `HubFrames`), `collate`, `load_tensors`;
- choose samples by their factors: `FactorIndex`, `group_rows`, `FactorSpace`; choose pixels: `mixed_edges`;
- publish: `pack_hdf5`, `pack_hub`, `push_hub`; find damage: `verify`.

`loaders.schema` defines each layer and each field of the metadata.
"""

from loaders.downscale import downscale as downscale
from loaders.downscale import downscaled_set as downscaled_set
from loaders.epoch_order import EpochOrder as EpochOrder
from loaders.epoch_order import ResumableSampler as ResumableSampler
from loaders.errors import InputError as InputError
from loaders.factor_space import FactorSpace as FactorSpace
from loaders.frame_folder import FrameFolder as FrameFolder
from loaders.frames import clean_partial as clean_partial
from loaders.frames import complete_indices as complete_indices
from loaders.frames import frame_path as frame_path
from loaders.frames import is_complete as is_complete
from loaders.frames import read_dataset_info as read_dataset_info
from loaders.frames import read_frame as read_frame
from loaders.frames import write_dataset_info as write_dataset_info
from loaders.frames import write_frame as write_frame
from loaders.hdf5.read_hdf5 import HDF5Frames as HDF5Frames
from loaders.hdf5.write_hdf5 import pack_hdf5 as pack_hdf5
from loaders.hub.push import push_hub as push_hub
from loaders.hub.read_hub import HubFrames as HubFrames
from loaders.hub.write_hub import pack_hub as pack_hub
from loaders.image_frames import ImageFrames as ImageFrames
from loaders.image_frames import open_image_frames as open_image_frames
from loaders.looking.describe import describe as describe
from loaders.looking.draw_sheet import draw_sheet as draw_sheet
from loaders.looking.look import look as look
from loaders.mixed_edges import mixed_edges as mixed_edges
from loaders.open_frames import open_frames as open_frames
from loaders.packs.split_plan import SplitPlan as SplitPlan
from loaders.samples import Frame as Frame
from loaders.samples import Frames as Frames
from loaders.samples import collate as collate
from loaders.samples import group_rows as group_rows
from loaders.samples import to_sample as to_sample
from loaders.selection.adapters import DisentanglementLibData as DisentanglementLibData
from loaders.selection.adapters import DisentData as DisentData
from loaders.selection.confounding import ConditionalTable as ConditionalTable
from loaders.selection.confounding import Selection as Selection
from loaders.selection.confounding import ValueRange as ValueRange
from loaders.selection.confounding import select_by_rules as select_by_rules
from loaders.selection.confounding import select_by_tables as select_by_tables
from loaders.selection.confounding_presets import select_preset as select_preset
from loaders.selection.counted_propensity import counted_inverse_propensity as counted_inverse_propensity
from loaders.selection.counterfactual_rows import counterfactual_rows as counterfactual_rows
from loaders.selection.factor_index import FactorIndex as FactorIndex
from loaders.selection.pair_dataset import PairDataset as PairDataset
from loaders.selection.pair_dataset import collate_pairs as collate_pairs
from loaders.selection.supervision import Pairs as Pairs
from loaders.selection.supervision import k_pairs as k_pairs
from loaders.selection.supervision import match_pairs as match_pairs
from loaders.selection.supervision import rank_pairs as rank_pairs
from loaders.selection.supervision import restricted_labels as restricted_labels
from loaders.tensors_in_memory import load_tensors as load_tensors
from loaders.verification.verify_frames import Findings as Findings
from loaders.verification.verify_frames import verify as verify
