"""Check a folder of frames for changed bytes and missing samples."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.frames import (
    DATASET,
    IMAGE,
    METADATA,
    NPZ,
    PLAN,
    frame_path,
    read_dataset_info,
    read_metadata,
)
from candlelight.loaders.schema import DatasetInfo, Metadata
from candlelight.loaders.unexplained_light import unexplained_light
from candlelight.loaders.verification.checksums import NEXT_SUMS, SUMS, find_changed_files

DESCRIPTION = (DATASET, PLAN)
CODE_FOLDER = "code"  # the Python code that made objects and materials
_SAMPLE_FILES = frozenset({IMAGE, NPZ, METADATA, SUMS})
_ROOT_FILES = frozenset({*DESCRIPTION, SUMS, CODE_FOLDER, "samples", "failed"})
_REPORT_FILES = ("preview-*", "counterfactuals.html")


@dataclass(frozen=True)
class Damage:
    """One damaged file or folder of a sample, with a reason of one line.

    ``folder`` is the folder of the sample or of the data set.
    """

    folder: Path
    path: Path
    reason: str

    def __str__(self) -> str:
        """Return path and reason in one line."""
        return " ".join(f"{self.path}: {self.reason}".splitlines())


@dataclass(frozen=True)
class Findings:
    """Result of `verify`.

    ``checked`` counts the checked samples. ``missing`` are ids of planned samples that do not exist.
    ``strangers`` are unknown files and folders, which do no harm. ``unexplained`` says of each frame with
    light without albedo what is wrong (`unexplained_light`), although its files are whole.
    """

    checked: int
    damaged: tuple[Damage, ...]
    missing: tuple[str, ...]
    strangers: tuple[Path, ...]
    unexplained: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether no file is damaged and no planned sample is missing."""
        return not self.damaged and not self.missing


@dataclass(frozen=True)
class _Planned:
    """The planned samples of one set, by rising index, and whether each was found."""

    ids: Any  # pyarrow arrays, which hold a million strings in little memory
    groups: Any
    indices: Int64[ndarray, " n"]
    seen: Bool[ndarray, " n"]

    def see(self, index: int) -> tuple[str, str] | None:
        """Mark a sample as found and return its id and trace group; None if it was not planned."""
        row = int(np.searchsorted(self.indices, index))
        if row == len(self.indices) or self.indices[row] != index:
            return None
        self.seen[row] = True
        return str(self.ids[row]), str(self.groups[row])

    def missing(self) -> list[str]:
        """List the ids of samples that were not found."""
        return [str(id) for id in self.ids.take(np.flatnonzero(~self.seen))]


@dataclass(frozen=True)
class SampleFolder:
    """The folder of a sample; ``id`` and ``group`` are "" if the plan cannot be read."""

    folder: Path
    set: str
    index: int
    id: str
    group: str


def verify(root: Path | str, advance: Callable[[int], object] | None = None) -> Findings:
    """Compare every file of a folder of frames with its hash, and the samples with the plan.

    The folder is read a thousand samples at a time; samples written meanwhile may be reported as missing.

    Args:
        root: folder of frames.
        advance: called with the number of checked samples, for a progress bar.

    Returns:
        Damaged files, missing samples and strangers, in the order of their paths.

    Raises:
        InputError: ``root`` is not a folder of frames.

    Example:
        >>> verify(Path("nowhere"))
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere: expected a folder of frames, with dataset.json
    """
    root = Path(root)
    if not (root / "samples").is_dir() and not (root / DATASET).is_file():
        raise InputError(f"{root}: expected a folder of frames, with {DATASET}")
    damaged, info, planned = check_description(root)
    strangers = [path for path in sorted(root.iterdir()) if not is_expected(path)]
    checked, unexplained = 0, list[str]()
    # Hashing and reading release Python's lock.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for places in sample_batches(root, planned, strangers):
            for wrong, extra, light in pool.map(lambda place: check_sample(place, info), places):
                damaged += wrong
                unexplained += filter(None, [light])
                strangers += extra
                checked += 1
                if advance:
                    advance(1)
    missing = [id for one in (planned or {}).values() for id in one.missing()]
    return Findings(checked, tuple(damaged), tuple(missing), tuple(strangers), tuple(unexplained))


def check_description(root: Path) -> tuple[list[Damage], DatasetInfo | None, dict[str, _Planned] | None]:
    """Check ``dataset.json`` and the plan; return the damage, the description and the planned samples.

    The last two are None if their files are damaged.
    """
    unlike = find_changed_files(root, DESCRIPTION)
    info = planned = None
    if DATASET not in unlike:
        try:
            info = read_dataset_info(root)
        except InputError:
            unlike[DATASET] = "does not describe a folder of frames"
    if PLAN not in unlike:
        planned = _read_planned(root / PLAN)
        if planned is None:
            unlike[PLAN] = "is no plan"
    if (root / NEXT_SUMS).exists():
        unlike[NEXT_SUMS] = "was left by a run that was killed while it described the folder"
    if info is not None:
        unlike |= _changed_code(root / CODE_FOLDER, info)
    return [Damage(root, root / name, reason) for name, reason in unlike.items()], info, planned


def _changed_code(folder: Path, info: DatasetInfo) -> dict[str, str]:
    """Compare the code that made objects and materials with its ``SHA256SUMS``."""
    needed = {one.label.partition(":")[0] for one in info.assets if one.kind == "code"}
    if not needed:
        return {}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}
    unlike = find_changed_files(folder, needed | there)
    return {f"{CODE_FOLDER}/{name}": reason for name, reason in unlike.items()}


def is_expected(path: Path) -> bool:
    """Tell whether a file or folder belongs directly in a folder of frames."""
    known = path.name in _ROOT_FILES or path.name.startswith(".")
    return known or any(path.match(pattern) for pattern in _REPORT_FILES)


def _read_planned(path: Path) -> dict[str, _Planned] | None:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file:  # pyarrow opens no path that is not UTF-8
            table = pq.read_table(file, columns=["id", "set", "index", "group"]).sort_by("index")
        planned = {}
        for name in table.column("set").unique().to_pylist():
            mine = table.filter(pc.equal(table.column("set"), name))
            indices = mine.column("index").to_numpy().astype(np.int64)
            ids, groups = (mine.column(column).combine_chunks() for column in ("id", "group"))
            planned[name] = _Planned(ids, groups, indices, np.zeros(len(indices), bool))
    except (OSError, pa.ArrowInvalid, KeyError):
        return None
    return planned


def sample_batches(
    root: Path, planned: dict[str, _Planned] | None, strangers: list[Path]
) -> Iterator[list[SampleFolder]]:
    """Yield the folders of samples, at most a thousand at once, and add all other paths to ``strangers``.

    Without a plan, every sample counts as planned, and its id is unknown.
    """
    for set_folder in _folders(root / "samples", strangers):
        ours = planned.get(set_folder.name) if planned is not None else None
        if planned is not None and ours is None:
            strangers.append(set_folder)
            continue
        for part in _folders(set_folder, strangers):
            places = []
            for path in sorted(part.iterdir()):
                index = _index(root, path)
                known = None if index is None else ours.see(index) if ours else ("", "")
                if index is None or known is None:
                    strangers.append(path)
                else:
                    places.append(SampleFolder(path, set_folder.name, index, *known))
            yield places


def _folders(parent: Path, strangers: list[Path]) -> list[Path]:
    paths = sorted(parent.iterdir()) if parent.is_dir() else []
    strangers += [path for path in paths if not path.is_dir()]
    return [path for path in paths if path.is_dir()]


def _index(root: Path, path: Path) -> int | None:
    """Return the number of the sample that belongs at a path; None if no sample does."""
    if not (path.name.isascii() and path.name.isdecimal()):
        return None
    try:
        return int(path.name) if path == frame_path(root, path.parents[1].name, int(path.name)) else None
    except InputError:
        return None


def check_sample(place: SampleFolder, info: DatasetInfo | None) -> tuple[list[Damage], list[Path], str]:
    """Compare the files of a sample with their hashes, and its metadata with path, data set and plan.

    Returns:
        Damage, unknown files, and `unexplained_light`.
    """
    folder = place.folder
    try:
        there = {entry.name: entry.is_file() for entry in os.scandir(folder)}
    except OSError as error:
        return [Damage(folder, folder, f"cannot be read: {error.strerror}")], [], ""
    strangers = [folder / name for name in sorted(there.keys() - _SAMPLE_FILES)]
    unlike = {name: "is not a file" for name in sorted(there.keys() & _SAMPLE_FILES) if not there[name]}
    metadata = None
    if not unlike:
        with suppress(InputError):
            metadata = read_metadata(folder)
        unlike = _check_files(place, metadata, NPZ in there, info)
    light = "" if metadata is None else unexplained_light(metadata)
    return [Damage(folder, folder / name, reason) for name, reason in unlike.items()], strangers, light


def _check_files(
    place: SampleFolder, metadata: Metadata | None, with_npz: bool, info: DatasetInfo | None
) -> dict[str, str]:
    with_npz = with_npz or metadata is None or len(metadata.layers) > 1
    unlike = find_changed_files(place.folder, {IMAGE, METADATA, *([NPZ] if with_npz else [])})
    if unlike:
        return unlike
    if metadata is None:
        return {METADATA: "is not the metadata of a frame"}
    if (metadata.set, metadata.index, metadata.id) != (place.set, place.index, place.id or metadata.id):
        return {METADATA: f"belongs to sample {metadata.id}, which has another folder"}
    if info and info.recipe.sha256 != metadata.recipe.sha256:
        return {METADATA: f"belongs to another recipe ({metadata.recipe.name})"}
    blender = metadata.renderer.blender if metadata.renderer else None
    if info and blender not in (None, info.blender):
        return {METADATA: f"was traced by Blender {blender}; the data set has Blender {info.blender}"}
    if metadata.group != (place.group or metadata.group):
        return {METADATA: "was made with other numbers or files than planned"}
    return {}
