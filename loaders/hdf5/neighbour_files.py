"""HDF5 files that lie beside each other: whether they are splits of one pack, or of several."""

from collections.abc import Collection, Iterable
from itertools import combinations
from pathlib import Path

import numpy as np

from loaders.errors import InputError
from loaders.frames import DATASET
from loaders.hdf5.read_hdf5 import HDF5Frames


def describe_conflict(readers: Iterable[HDF5Frames]) -> str:
    """Say which two files cannot be of one pack, an empty text if all can.

    A pack has each sample in one split. Where two have it, one of them is of another pack, and what is
    trained on one and tested on the other is tested on what it has seen.

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
                    "different packs; keep those of one"
                )
    return ""


def refuse_other_splits(folder: Path, paths: Collection[Path], sets: Collection[str]) -> None:
    """Refuse to pack image sets beside files of theirs that would stay, being of an earlier pack.

    Args:
        folder: the folder.
        paths: files to be made, which replace those of their names.
        sets: names of the image sets.

    Raises:
        InputError: there is such a file.
    """
    if (folder / DATASET).exists():
        raise InputError(
            f"{folder} holds frames or a Hugging Face folder, which further files would spoil; name another"
        )
    for path in sorted(set(folder.glob("[!.]*.h5")) - set(paths)):
        try:
            name = HDF5Frames(path, layers=[]).set_name
        except InputError:  # what is damaged, or from elsewhere, is no file of an earlier pack
            continue
        if name in sets:
            raise InputError(
                f"{path} is of an earlier pack of set `{name}`, which had other splits; delete it, or name "
                "another folder"
            )
