"""What HDF5 and Parquet packs have in common: which sets they take, and frames that are proven whole."""

from collections.abc import Collection, Iterator
from pathlib import Path

from tqdm import tqdm

from loaders.errors import InputError
from loaders.frames import FrameFolder, read_dataset_info
from loaders.samples import Frame


def open_sets(root: Path, sets: Collection[str] | None) -> list[FrameFolder]:
    """Open the image sets to pack.

    Args:
        root: folder of frames.
        sets: names of the sets; None for all.

    Raises:
        InputError: there is no such data set or set, or a set has no complete sample.
    """
    names = read_dataset_info(root).sets if sets is None else sets
    if not names:
        raise InputError(f"{root}: expected at least one set to pack, got none")
    return [FrameFolder(root, name) for name in names]


def whole_frames(frames: FrameFolder) -> Iterator[tuple[int, Frame]]:
    """Read every row with a progress bar, comparing each layer with its hash.

    Yields:
        Row number and frame.

    Raises:
        InputError: a frame is damaged, has other layers than its set lists, or lies in another's folder.
    """
    # disable=None: no bar where standard error is no terminal, so that logs stay readable.
    for row in tqdm(range(len(frames)), desc=f"packing {frames.set_name}", unit="frame", disable=None):
        frame = frames.frame(row, verify=True)
        metadata, path = frame.metadata, frames.path(row)
        if (metadata.set, metadata.index) != (frames.set_name, frames.indices[row]):
            raise InputError(f"{path} holds sample {metadata.index} of set `{metadata.set}`; delete it")
        if metadata.layers.keys() != set(frames.set_info.layers):
            raise InputError(
                f"{path}: expected the layers of its set ({', '.join(frames.set_info.layers)}), got "
                f"{', '.join(metadata.layers)}; delete its folder and render again"
            )
        yield row, frame
