"""Open the image sets that a pack is written from, and read their verified frames."""

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float64, Int
from numpy import ndarray

from candlelight.loaders.captions import caption
from candlelight.loaders.causal_columns import CausalColumns, CausalRow
from candlelight.loaders.choices import choose_layers
from candlelight.loaders.downscale import downscale, downscaled_set
from candlelight.loaders.errors import InputError
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import read_dataset_info
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST
from candlelight.loaders.packs.split_plan import SplitPlan
from candlelight.loaders.packs.splits import PackSplit, SetRows, split_rows
from candlelight.loaders.progress_bars import progress_bar
from candlelight.loaders.samples import Frame, factor_number
from candlelight.loaders.schema import DatasetInfo, SetInfo

_Prepared = TypeVar("_Prepared")


@dataclass(frozen=True, eq=False)
class PackSource:
    """One image set to be packed.

    Attributes:
        frames: samples on disk, with the layers that must be read.
        set_info: description of the packed set, with its layers and size.
        factor: divisor of width and height.
        rows: factors and links of every row, from its metadata.
        causal: id, unit, step, factual sample and interventions of every row.
        propensities: propensity of each row's value, by the names of the columns that a pack has of them.
        captions: caption of every row.
        splits: splits, in order.
    """

    frames: FrameFolder
    set_info: SetInfo
    factor: int
    rows: SetRows
    causal: CausalColumns
    propensities: Mapping[str, Float64[ndarray, " n"]]
    captions: list[str]
    splits: list[PackSplit]

    @property
    def set_name(self) -> str:
        """Name of the image set."""
        return self.frames.set_name

    def frame(self, row: int) -> Frame:
        """Read one row in the form of the pack, and compare each layer with its hash.

        Raises:
            InputError: the frame is damaged, has other layers than its set, or lies in the folder of another
                sample.
        """
        frame = self.frames.frame(row, verify=True)
        metadata, path = frame.metadata, self.frames.path(row)
        if (metadata.set, metadata.index) != (self.set_name, self.frames.indices[row]):
            raise InputError(f"{path} holds sample {metadata.index} of set `{metadata.set}`; delete it")
        expected = self.frames.set_info
        if metadata.layers.keys() != set(expected.layers):
            raise InputError(
                f"{path}: expected the layers of its set ({', '.join(expected.layers)}), got "
                f"{', '.join(metadata.layers)}; delete its folder and render again"
            )
        if self.factor > 1:
            frame = downscale(frame, expected, self.factor)
        return _with_layers(frame, self.set_info.layers)


def open_sources(
    root: Path,
    sets: Collection[str] | None = None,
    layers: Collection[str] | None = None,
    size: tuple[int, int] | None = None,
    plan: SplitPlan | None = None,
) -> list[PackSource]:
    """Open the image sets to pack, and read all their metadata once.

    Args:
        root: folder of frames.
        sets: names of the sets; None for all.
        layers: names of the layers; None for all.
        size: width and height to average down to, in pixels; None for the size of the frames.
        plan: splits of each set; None for `train` alone.

    Raises:
        InputError: there is no such data set, set or layer, ``root`` is a pack itself, a set has no complete
            sample, a frame is of another Blender than its data set, ``size`` does not divide the size of its
            frames, or it does not fit ``plan``.
    """
    if (root / PACK_MANIFEST).is_file():
        raise InputError(f"{root} is a pack already; name the folder of frames that it was made from")
    info = read_dataset_info(root)
    names = list(info.sets if sets is None else dict.fromkeys(sets))
    if not names:
        raise InputError(f"{root}: expected at least one set to pack, got none")
    chosen = [choose_layers(info.set(name).layers, layers) for name in names]
    if layers is not None and not layers:
        raise InputError("layers: expected at least one to pack, got none")
    factors = [_factor(info, name, size) for name in names]
    # Listed once, so that samples rendered meanwhile change nothing. Averaged layers depend on each other: to
    # average, read all layers and drop the others afterwards.
    folders = [
        FrameFolder(root, name, None if factor > 1 else kept)
        for name, kept, factor in zip(names, chosen, factors, strict=True)
    ]
    surveys = [_survey(folder) for folder in folders]
    splits = split_rows([survey.rows for survey in surveys], plan or SplitPlan())
    sources = []
    for folder, kept, factor, survey in zip(folders, chosen, factors, surveys, strict=True):
        smaller = downscaled_set(folder.set_info, factor) if factor > 1 else folder.set_info
        set_info = smaller.model_copy(update={"layers": tuple(n for n in smaller.layers if n in kept)})
        sources.append(PackSource(folder, set_info, factor, *survey, splits[folder.set_name]))
    return sources


def packed_info(sources: Collection[PackSource], only: bool = False) -> DatasetInfo:
    """Describe the packed data set; with ``only``, leave out the image sets that are not packed."""
    info = next(iter(sources)).frames.info
    packed = {source.set_name: source.set_info for source in sources}
    return info.model_copy(update={"sets": packed if only else {**info.sets, **packed}})


def prepare_rows(
    rows: Int[ndarray, " n"],
    prepare: Callable[[int], _Prepared],
    desc: str,
    threads: int | None = None,
) -> Iterator[_Prepared]:
    """Prepare rows in threads, with a progress bar, and yield the results in order.

    zlib, zstd, PNG and SHA-256 release Python's lock, so threads can use all processors. At most about twice
    as many results as threads are in memory.

    Args:
        rows: numbers of the rows to prepare.
        prepare: function of one row number.
        desc: text of the progress bar.
        threads: number of threads; None for one per processor that this process may use.
    """
    count = threads or _processors()
    ahead: deque[Future[_Prepared]] = deque()
    pool = ThreadPoolExecutor(count, "pack")
    with progress_bar(total=len(rows), desc=desc, unit="frame") as bar:
        try:
            for row in rows.tolist():
                ahead.append(pool.submit(prepare, row))
                if len(ahead) > 2 * count:
                    yield ahead.popleft().result()
                    bar.update()
            while ahead:
                yield ahead.popleft().result()
                bar.update()
        finally:
            pool.shutdown(cancel_futures=True)


def _processors() -> int:
    # The processors that this process may use; only Linux reports them.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _factor(info: DatasetInfo, set_name: str, size: tuple[int, int] | None) -> int:
    width, height = info.set(set_name).width, info.set(set_name).height
    wide, high = size or (width, height)
    if wide < 1 or high < 1 or width % wide or height % high or width // wide != height // high:
        raise InputError(
            f"size {wide}x{high}: expected the {width}x{height} of set `{set_name}` divided by a whole number"
        )
    return width // wide


class _Survey(NamedTuple):
    """Columns of all rows of an image set, as in `PackSource`."""

    rows: SetRows
    causal: CausalColumns
    propensities: dict[str, Float64[ndarray, " n"]]
    captions: list[str]


def _survey(folder: FrameFolder) -> _Survey:
    factors = folder.set_info.factors
    table = np.empty((len(folder), len(factors)))
    propensities = {name: np.empty(len(folder)) for name in folder.set_info.propensity_names}
    causal, links, captions = [], [], []
    for row in range(len(folder)):
        metadata = folder.metadata(row)
        blender = metadata.renderer.blender if metadata.renderer else None
        if folder.info.blender is not None and blender not in (None, folder.info.blender):
            raise InputError(
                f"{folder.path(row)}: was traced by Blender {blender}; the data set has Blender "
                f"{folder.info.blender}; render it again with `candlelight render --repair`"
            )
        table[row] = [factor_number(factor, metadata) for factor in factors]
        for name, column in propensities.items():
            if name not in metadata.propensity:
                raise InputError(
                    f"{folder.path(row)}: has no propensity of `{name}`, a node of its set's graph"
                )
            column[row] = metadata.propensity[name]
        causal.append(CausalRow.of(metadata))
        captions.append(caption(metadata, folder.set_info))
        # Each sample is linked by its own id too, because it may have counterfactuals.
        origins = (metadata.id, *([metadata.counterfactual_of] if metadata.counterfactual_of else []))
        samples = (f"sample {name}" for name in origins)
        links.append((f"unit {metadata.unit}", f"group {metadata.group}", *samples))
    columns = CausalColumns.of_rows(causal, [factor.name for factor in factors])
    has_steps = columns.steps is not None
    rows = SetRows(folder.set_name, folder.set_info, table, links, has_steps)
    return _Survey(rows, columns, propensities, captions)


def _with_layers(frame: Frame, names: Collection[str]) -> Frame:
    hashes = {name: value for name, value in frame.metadata.layers.items() if name in names}
    metadata = frame.metadata.model_copy(update={"layers": hashes})
    return Frame(metadata, {name: frame.layers[name] for name in names})
