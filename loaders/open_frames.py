"""Open an image set, whichever way it is stored."""

from collections.abc import Collection
from pathlib import Path

from loaders.errors import InputError, nearest_file
from loaders.files.urls import local_folder
from loaders.frames import DATASET, FrameFolder, read_dataset_info
from loaders.hdf5.neighbour_files import describe_conflict
from loaders.hdf5.read_hdf5 import HDF5Frames
from loaders.hub.read_hub import HubFrames
from loaders.packs.pack_manifest import PACK_MANIFEST, read_pack_manifest
from loaders.samples import Frames

EXPECTED = "expected a folder of frames, an .h5 file or a folder of them, or a Hugging Face folder"


def open_frames(
    path: Path | str,
    set_name: str | None = None,
    split: str | None = None,
    layers: Collection[str] | None = None,
    *,
    objects: bool = False,
) -> Frames:
    """Open one split of an image set, whichever way it is stored.

    Args:
        path: a folder of frames, an ``.h5`` file or a folder of them, or a folder that `pack_hub` made.
        set_name: name of the image set; may be left out where there is only one.
        split: name of the split; None for the only one, or `train` of several. Of a folder of frames all
            samples are `train`.
        layers: names of the layers to read; None for all.
        objects: whether samples have their objects, for which the metadata of every row are read.

    Raises:
        InputError: there is nothing of the kind, no such set or split, several sets to choose from, or no
            such layer.

    Example:
        >>> open_frames("nowhere")
        Traceback (most recent call last):
        loaders.errors.InputError: nowhere: expected a folder of frames, an .h5 file or a folder of them, or \
a Hugging Face folder
    """
    path = local_folder(path)
    if files := open_hdf5(path):
        name = choose_name(path, "set", list(dict.fromkeys(name for name, _ in files)), set_name)
        split = _choose_split(path, [split for owner, split in files if owner == name], split)
        return HDF5Frames(files[name, split].path, layers, objects=objects)
    if not (path / DATASET).is_file():
        raise InputError(f"{path}: {EXPECTED}{nearest_file(path)}")
    name = choose_name(path, "set", list(read_dataset_info(path).sets), set_name)
    if (path / PACK_MANIFEST).is_file():
        if not (splits := read_pack_manifest(path).splits_of(name)):
            raise InputError(f"{path / PACK_MANIFEST} names no file of set `{name}`; pack it again")
        split = _choose_split(path, splits, split)
        return HubFrames(path, name, split=split, layers=layers, objects=objects)
    if split not in (None, "train"):
        raise InputError(
            f"{path}: a folder of frames has no split `{split}`; make one with `candlelight pack`"
        )
    return FrameFolder(path, name, layers, objects=objects)


def open_hdf5(path: Path) -> dict[tuple[str, str], HDF5Frames]:
    """Open an ``.h5`` file, or all of a folder.

    Returns:
        Readers by set and split; nothing if the path is something else.

    Raises:
        InputError: a file is damaged or none that `pack_hdf5` wrote, or they are not of one pack.
    """
    files = [path] if path.suffix == ".h5" else []
    if path.is_dir() and not (path / DATASET).exists():
        files = sorted(path.glob("[!.]*.h5"))
    opened = [HDF5Frames(file) for file in files]
    if len({reader.info.model_copy(update={"sets": {}}).to_json() for reader in opened}) > 1:
        raise InputError(f"{path} holds HDF5 files of several data sets; name one file")
    if mixed := describe_conflict(opened):
        raise InputError(f"{path}: {mixed}")
    return {(reader.set_name, reader.split): reader for reader in opened}


def _choose_split(path: Path, splits: list[str], wanted: str | None) -> str:
    usual = "train" if wanted is None and "train" in splits else wanted
    return choose_name(path, "split", splits, usual)


def choose_name(path: Path, kind: str, names: list[str], wanted: str | None) -> str:
    """Choose a set or split by its name, or take the only one.

    Raises:
        InputError: there are several and none is named, or there is none of that name.
    """
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted not in names:
        asked = f"choose a {kind}" if wanted is None else f"{kind} `{wanted}` is not there"
        raise InputError(f"{path}: {asked}; expected one of: {', '.join(names) or 'none'}")
    return wanted
