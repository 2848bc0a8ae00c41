"""Open an image set from a folder of frames, from HDF5 or from a Hugging Face folder."""

from collections.abc import Collection
from pathlib import Path

from candlelight.loaders.choices import choose_name, choose_split
from candlelight.loaders.errors import InputError, nearest_file
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import DATASET
from candlelight.loaders.hdf5.read_hdf5 import HDF5Frames, describe_conflict
from candlelight.loaders.hub.read_hub import HubFrames
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST
from candlelight.loaders.samples import Frames

_EXPECTED = "expected a folder of frames, an .h5 file or a folder of them, or a Hugging Face folder"


def open_frames(
    path: Path | str,
    set_name: str | None = None,
    split: str | None = None,
    layers: Collection[str] | None = None,
    *,
    objects: bool = False,
    captions: bool = False,
) -> Frames:
    """Open one split of an image set from a folder of frames, from HDF5 or from a Hugging Face folder.

    Args:
        path: a folder of frames, an ``.h5`` file or a folder of them, or a folder that `pack_hub` made.
        set_name: name of the image set; None for the only one.
        split: name of the split; None for the only one, or `train` of several. In a folder of frames, all
            samples are `train`.
        layers: names of the layers to read; None for all.
        objects: whether to read the objects of samples; this reads the metadata of every row.
        captions: whether samples have a caption, see `candlelight.loaders.captions.caption`.

    Raises:
        InputError: the path holds no image set, or no such set, split or layer, or several sets and none is
            named.

    Example:
        >>> open_frames("nowhere")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere: does not exist; expected a folder of frames, an .h5 \
file or a folder of them, or a Hugging Face folder
    """
    path = local_folder(path)
    if files := open_hdf5(path):
        name = choose_name(path, "set", list(dict.fromkeys(name for name, _ in files)), set_name)
        split = choose_split(path, [split for owner, split in files if owner == name], split)
        return HDF5Frames(files[name, split].path, layers, objects=objects, captions=captions)
    if not (path / DATASET).is_file():
        raise no_frames(path)
    if (path / PACK_MANIFEST).is_file():
        return HubFrames(path, set_name, layers, split, objects=objects, captions=captions)
    if split not in (None, "train"):
        raise InputError(
            f"{path}: a folder of frames has no split `{split}`; make one with `candlelight pack`"
        )
    return FrameFolder(path, set_name, layers, objects=objects, captions=captions)


def no_frames(path: Path, or_else: str = "") -> InputError:
    """Make the error for a path that holds no frames, or does not exist.

    Args:
        path: the path.
        or_else: further expectation, for the end of the message.

    Example:
        >>> str(no_frames(Path("."))).partition(",")[0]
        '.: expected a folder of frames'
    """
    missing = "" if path.exists() else "does not exist; "
    return InputError(f"{path}: {missing}{_EXPECTED}{or_else}{nearest_file(path)}")


def open_hdf5(path: Path) -> dict[tuple[str, str], HDF5Frames]:
    """Open an ``.h5`` file, or all ``.h5`` files of a folder.

    Returns:
        Readers by set and split; empty if the path holds no HDF5 files.

    Raises:
        InputError: a file is damaged or was not written by `pack_hdf5`, or the files are of several packs.
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
