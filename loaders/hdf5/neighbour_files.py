"""Check that the HDF5 files of a folder are splits of one pack."""

from collections.abc import Collection, Iterable
from itertools import combinations
from pathlib import Path

import numpy as np

from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import DATASET
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames


def describe_conflict(readers: Iterable[HDF5Frames]) -> str:
    """Name two files that cannot belong to one pack; "" if there are none.

    Each sample of a pack is in one split. If two files share a sample, one file is from another pack, and a
    model that is trained on one file and tested on the other would be tested on its training data.

    Args:
        readers: the files, of any image sets.
    """
    sets: dict[str, list[HDF5Frames]] = {}
    for reader in readers:
        sets.setdefault(reader.set_name, []).append(reader)
    for name, files in sets.items():
        for one, other in combinations(files, 2):
            shared = np.intersect1d(one.indices, other.indices)
            if len(shared) or one.split == other.split:
                what = f"sample {shared[0]}" if len(shared) else f"split `{one.split}`"
                return (
                    f"{one.path.name} and {other.path.name} both hold {what} of set `{name}`, so they are of "
                    "different packs; keep the files of one pack"
                )
    return ""


def refuse_other_splits(folder: Path, paths: Collection[Path], sets: Collection[str]) -> None:
    """Refuse to pack image sets into a folder with other splits of these sets from an earlier pack.

    Args:
        folder: the folder.
        paths: files to be written; existing ones are replaced.
        sets: names of the image sets.

    Raises:
        InputError: the folder holds such a split, or frames, or a Hugging Face folder.
    """
    if (folder / DATASET).exists():
        raise InputError(
            f"{folder} holds frames or a Hugging Face folder; name another folder for HDF5 files"
        )
    for path in sorted(set(folder.glob("[!.]*.h5")) - set(paths)):
        try:
            name = HDF5Frames(path, layers=[]).set_name
        except InputError:  # damaged, or not written by `pack_hdf5`
            continue
        if name in sets:
            raise InputError(
                f"{path} belongs to an earlier pack of set `{name}` with other splits; delete it, or name "
                "another folder"
            )
