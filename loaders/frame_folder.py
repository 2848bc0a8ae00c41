"""Read the samples of one image set from a folder of frames."""

import logging
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import SupportsIndex

import numpy as np
from jaxtyping import Float64
from numpy import ndarray

from candlelight.loaders.captions import caption
from candlelight.loaders.choices import choose_layers, choose_name
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.urls import local_folder
from candlelight.loaders.frames import (
    PLAN,
    complete_indices,
    count_planned,
    frame_path,
    read_dataset_info,
    read_frame,
    read_metadata,
)
from candlelight.loaders.samples import Frame, Sample, factor_number, row_number, to_sample
from candlelight.loaders.schema import Metadata

_log = logging.getLogger("candlelight")


class FrameFolder:
    """The complete samples of one image set in a folder of frames, as `candlelight.loaders.samples.Frames`.

    Samples are listed once, on opening; samples written later are not found. Where samples of the plan are
    missing, a warning is logged.

    Example:
        >>> FrameFolder(Path("nowhere"), "candle")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/dataset.json is missing; name a folder of rendered \
frames
    """

    def __init__(
        self,
        root: Path | str,
        set_name: str | None = None,
        layers: Collection[str] | None = None,
        *,
        objects: bool = False,
        captions: bool = False,
    ) -> None:
        """Open an image set.

        Args:
            root: folder of the data set.
            set_name: name of the image set; None for the only one.
            layers: names of the layers to read; None for all.
            objects: whether to read the objects of samples.
            captions: whether to read the captions of samples.

        Raises:
            InputError: there is no such data set, set or layer, there are several sets and none is named, or
                no sample is complete.
        """
        self.root = root = local_folder(root)
        self.info = read_dataset_info(root)
        self.set_name = choose_name(root, "set", list(self.info.sets), set_name)
        self.set_info = self.info.sets[self.set_name]
        self.layers = choose_layers(self.set_info.layers, layers)
        self.objects, self.captions = objects, captions
        self.indices = complete_indices(root, self.set_name)
        if not len(self.indices):
            raise InputError(
                f"{root}: no sample of set `{self.set_name}` is complete; run `candlelight render` first"
            )
        missing = count_planned(root, self.set_name) - len(self.indices)
        if missing > 0:
            _log.warning(
                "%s: set `%s` lacks %d of its %d samples; to render them: candlelight render %s --out %s",
                *(root, self.set_name, missing, missing + len(self.indices), root / PLAN, root),
            )

    def __len__(self) -> int:
        """Count the rows."""
        return len(self.indices)

    def path(self, row: SupportsIndex) -> Path:
        """Return the sample folder of one row."""
        return frame_path(self.root, self.set_name, int(self.indices[row_number(row, len(self))]))

    def metadata(self, row: SupportsIndex) -> Metadata:
        """Read the metadata of one row."""
        return read_metadata(self.path(row))

    def caption(self, row: SupportsIndex) -> str:
        """Describe the sample of one row in words."""
        return caption(self.metadata(row), self.set_info)

    def frame(self, row: SupportsIndex, verify: bool = False) -> Frame:
        """Read one row as numpy arrays; ``verify`` compares them with their hashes."""
        return read_frame(self.path(row), self.layers, verify, (self.set_info.height, self.set_info.width))

    def __getitem__(self, row: SupportsIndex) -> Sample:
        """Read one row as tensors."""
        return to_sample(self.frame(row), self.set_info, self.objects, self.captions)

    def __getitems__(self, rows: Sequence[SupportsIndex]) -> list[Sample]:
        """Read several rows as tensors, in the order of ``rows``."""
        return [self[row] for row in rows]

    @cached_property
    def factor_table(self) -> Float64[ndarray, "n k"]:
        """Factors of every row; the first use reads all metadata."""
        factors = self.set_info.factors
        table = np.empty((len(self), len(factors)))
        for row in range(len(self)):
            metadata = self.metadata(row)
            table[row] = [factor_number(factor, metadata) for factor in factors]
        return table
