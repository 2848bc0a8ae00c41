"""Read any folder of images, or a Hugging Face data set with a column of images, as frames."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float64, UInt8
from numpy import ndarray

from candlelight.loaders.errors import InputError, require_module
from candlelight.loaders.files.decode_image import IMAGE_SUFFIXES, decode_image
from candlelight.loaders.samples import Frame, Sample, to_sample
from candlelight.loaders.schema import (
    ChecksRecord,
    DatasetInfo,
    Metadata,
    RecipeRecord,
    SetInfo,
    array_sha256,
)
from candlelight.version import code_version

SET_NAME = "pictures"
HUGGING_FACE = "hf:"


class ImageFolder:
    """The images of a folder and its subfolders, in order of their paths.

    Args:
        folder: the folder; hidden files and links out of the folder are left out.

    Raises:
        InputError: the folder does not exist, or holds no image.
    """

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder}: expected a folder of images, found no folder")
        self.origin = str(folder)
        self._folder, inside = folder, folder.resolve()
        found = (
            path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file()
        )
        names = (path.relative_to(folder) for path in found if path.resolve().is_relative_to(inside))
        self._names = sorted(
            name.as_posix() for name in names if not any(part.startswith(".") for part in name.parts)
        )
        if not self._names:
            raise InputError(f"{folder}: expected images ({', '.join(sorted(IMAGE_SUFFIXES))}), found none")

    def __len__(self) -> int:
        """Count the images."""
        return len(self._names)

    def name(self, number: int) -> str:
        """Return the path of an image in the folder."""
        return self._names[number]

    def data(self, number: int) -> bytes:
        """Read the file of an image."""
        return (self._folder / self._names[number]).read_bytes()


class ImageTable:
    """The images of one column of a `datasets.Dataset`.

    Args:
        dataset: one split of a data set.
        origin: name of the data set in messages.

    Raises:
        InputError: the data set has no row, or not exactly one column of images.
    """

    def __init__(self, dataset: Any, origin: str) -> None:
        import datasets

        columns = [name for name, kind in dataset.features.items() if isinstance(kind, datasets.Image)]
        if len(columns) != 1 or not len(dataset):
            raise InputError(
                f"{origin}: expected rows with one column of images, got {len(dataset)} rows with "
                f"{', '.join(columns) or 'none'}; the columns are {', '.join(dataset.features)}"
            )
        self.origin, self._column = origin, columns[0]
        # Not decoded: `datasets` would open every format that Pillow knows, without a limit of size.
        self._rows = dataset.select_columns(columns).cast_column(columns[0], datasets.Image(decode=False))

    def __len__(self) -> int:
        """Count the images."""
        return len(self._rows)

    def name(self, number: int) -> str:
        """Return the name of an image: the number of its row."""
        return f"row {number}"

    def data(self, number: int) -> bytes:
        """Read the bytes of an image, from the table or from the local file that the table names."""
        cell = self._rows[number][self._column]
        return cell["bytes"] if cell["bytes"] is not None else Path(cell["path"]).read_bytes()


class ImageFrames:
    """Images as `candlelight.loaders.samples.Frames`: one layer, `image`, and no factors, camera or renderer.

    Example:
        >>> ImageFrames(ImageFolder(Path("nowhere")), (256, 256))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere: expected a folder of images, found no folder
    """

    def __init__(
        self, source: ImageFolder | ImageTable, size: tuple[int, int], limit: int | None = None, seed: int = 0
    ) -> None:
        """Choose images; none is read yet.

        Args:
            source: source of the images.
            size: height and width of the frames, pixels.
            limit: largest number of images, chosen by a hash of ``seed`` and name, so that one more image in
                the source replaces at most one other; None for all.
            seed: seed of the choice.

        Raises:
            InputError: a size or limit below 1.
        """
        if min(size) < 1 or (limit is not None and limit < 1):
            raise InputError(f"images: expected a size and a limit of at least 1, got {size} and {limit}")
        self._source = source
        self.set_name, self.layers = SET_NAME, ("image",)
        ranked = sorted(range(len(source)), key=lambda number: _digest(f"{seed}\0{source.name(number)}"))
        self.indices = np.array(sorted(ranked[:limit]), np.int64)
        self.set_info = SetInfo(
            count=len(self.indices), width=size[1], height=size[0], layers=self.layers, factors=()
        )
        listing = "\n".join([str(size), *(source.name(number) for number in self.indices.tolist())])
        self.info = DatasetInfo(
            name=SET_NAME,
            description=f"{len(self.indices)} of {len(source)} images of {source.origin}.",
            licence="the licence of the images",
            recipe=RecipeRecord(name=SET_NAME, sha256=_digest(listing)),
            seed=seed,
            candlelight=code_version(),
            sets={SET_NAME: self.set_info},
        )

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.indices)

    def frame(self, row: SupportsIndex) -> Frame:
        """Read one row as a numpy array.

        Raises:
            InputError: the image cannot be read; the message names it.
        """
        number = int(self.indices[row])
        name = self._source.name(number)
        where = f"{self._source.origin}: {name}"
        try:
            data = self._source.data(number)
        except OSError as error:
            raise InputError(f"{where}: cannot be read: {error.strerror or error}") from None
        image = decode_image(data, where, (self.set_info.height, self.set_info.width))
        return Frame(self._metadata(name, number, image), {"image": image})

    def _metadata(self, name: str, number: int, image: UInt8[ndarray, "height width 3"]) -> Metadata:
        clipped = float((image == 255).any(axis=-1).mean())
        return Metadata(
            id=name,
            set=SET_NAME,
            index=number,
            recipe=self.info.recipe,
            unit=name,
            group=name,
            factors={},
            exogenous={},
            intervention={},
            objects=(),
            lights=(),
            environment=None,
            camera=None,
            exposure=1.0,
            renderer=None,
            checks=ChecksRecord(identity_error=None, stored_error=0.0, clipped=clipped),
            layers={"image": array_sha256(image)},
        )

    def metadata(self, row: SupportsIndex) -> Metadata:
        """Read the image of one row and make its metadata."""
        return self.frame(row).metadata

    def __getitem__(self, row: SupportsIndex) -> Sample:
        """Read one row as tensors."""
        return to_sample(self.frame(row), self.set_info)

    def __getitems__(self, rows: Sequence[SupportsIndex]) -> list[Sample]:
        """Read several rows as tensors, in the order of ``rows``."""
        return [self[row] for row in rows]

    @property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Table of factors without a column: images have no factors."""
        return np.empty((len(self), 0))


def open_image_frames(
    source: str, size: tuple[int, int], limit: int | None = None, seed: int = 0
) -> ImageFrames:
    """Open a folder of images, or a Hugging Face data set.

    Args:
        source: the folder; or ``hf:NAME``, ``hf:NAME:SPLIT`` or ``hf:NAME:SPLIT:CONFIGURATION``. NAME is a
            data set of the Hub, a folder in its layout, or a folder that ``Dataset.save_to_disk`` wrote; the
            split is "train" unless given.
        size: height and width of the frames, pixels.
        limit: see `ImageFrames`.
        seed: see `ImageFrames`.

    Raises:
        InputError: the folder does not exist or holds no image, or the data set cannot be loaded.
    """
    if not source.startswith(HUGGING_FACE):
        return ImageFrames(ImageFolder(Path(source)), size, limit, seed)
    name, split, configuration, *rest = [*source.removeprefix(HUGGING_FACE).split(":"), "", ""]
    if not name or rest[:-2]:
        raise InputError(f"{source}: expected hf:NAME, hf:NAME:SPLIT or hf:NAME:SPLIT:CONFIGURATION")
    dataset = load_hugging_face(name, split or "train", configuration or None)
    return ImageFrames(ImageTable(dataset, source), size, limit, seed)


def load_hugging_face(name: str, split: str | None, configuration: str | None) -> Any:
    """Load a Hugging Face data set.

    Args:
        name: name on the Hub, or a folder in its layout, or a folder that ``save_to_disk`` wrote.
        split: name of the split; None for all.
        configuration: name of the configuration; None for the only one.

    Returns:
        A `datasets.Dataset`; a dict of them by split if ``split`` is None.

    Raises:
        InputError: the data set cannot be loaded.
    """
    require_module("datasets")
    import datasets

    path = Path(name)
    try:
        if any((path / name).is_file() for name in ("state.json", "dataset_dict.json")):
            found = datasets.load_from_disk(path)
            return found[split] if split is not None and isinstance(found, dict) else found
        # Always load a folder again: `datasets` caches by its path, and would miss changed files.
        mode = "force_redownload" if path.is_dir() else "reuse_dataset_if_exists"
        where = str(path.resolve()) if path.is_dir() else name
        return datasets.load_dataset(where, configuration, split=split, download_mode=mode)
    except Exception as error:  # `datasets`, Arrow and the network raise many classes
        reason = " ".join(str(error).split()) or type(error).__name__
        which = f"{HUGGING_FACE}{name}" if split is None else f"{HUGGING_FACE}{name}, split {split}"
        raise InputError(f"{which}: cannot be loaded: {reason[:300]}") from None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
