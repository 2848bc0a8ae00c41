"""The one loop of all exports: choose the sets, open the folder, continue, and write units of files.

An export is a module that makes a list of `ExportUnit`. All else stands here.
"""

import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from candlelight.loaders.choices import choose_name
from candlelight.loaders.errors import InputError
from candlelight.loaders.files.safe_writing import is_partial, lock_file, replacing
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.frames import read_dataset_info
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST
from candlelight.loaders.progress_bars import progress_bar
from candlelight.loaders.schema import SetInfo

_log = logging.getLogger("candlelight")
# Hidden, so that readers of the published layout, which list *.json, do not see it.
_MARKER = ".candlelight-export"
_WRITERS = 8  # threads
_HASHES = {"recipe": "another recipe", "samples": "other samples"}  # settings without values to read

ExportFiles = Mapping[str, bytes | Callable[[Path], object]]


@dataclass(frozen=True)
class ExportUnit:
    """Files that an export makes together.

    Attributes:
        last: name of the file that is written last, below the export's folder; it tells complete units.
        make: makes the files by name, ``last`` at the end: the bytes of each, or a function that writes it at
            the path that it is given. All but the last are written at the same time.
        samples: number of samples in the files; 0 for a file about samples of other units.
    """

    last: str
    make: Callable[[], ExportFiles]
    samples: int = 1


@dataclass(frozen=True)
class ExportCounts:
    """Number of samples that an export wrote now, and number that it found from an earlier call.

    ``unit`` is "sample", or the name of what is counted instead.
    """

    written: int
    found: int
    unit: str = "sample"


def fitting_sets(
    frames: Path,
    set_name: str | None,
    fits: Callable[[SetInfo], bool] = lambda _: True,
    wanted: str = "",
    layers: Collection[str] | None = None,
) -> dict[str, SetInfo]:
    """Choose the image sets of an export: the named set, or all that fit the layout and have the layers.

    Args:
        frames: folder of frames.
        set_name: name of the image set; None for all that fit.
        fits: whether the layout can hold a set.
        wanted: what a set needs, for the message after "expected a set with".
        layers: the layers to write; None for all. If no set has them, all fitting sets are returned.

    Raises:
        InputError: the folder is a pack, or there is no such set or none that fits.

    Example:
        >>> fitting_sets(Path("nowhere"), None)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/dataset.json is missing; name a folder of rendered \
frames
    """
    sets = read_dataset_info(frames).sets
    if (frames / PACK_MANIFEST).is_file():
        raise InputError(f"{frames}: expected frames, got a pack; `candlelight render` makes its frames anew")
    names = list(sets) if set_name is None else [choose_name(frames, "set", list(sets), set_name)]
    if fitting := {name: sets[name] for name in names if fits(sets[name])}:
        return {name: one for name, one in fitting.items() if {*(layers or ())} <= {*one.layers}} or fitting
    raise InputError(f"{frames}: expected a set with {wanted}, got {', '.join(names) or 'none'}")


def samples_sha256(sets: Iterable[FrameFolder]) -> str:
    """Hash which samples are complete, for layouts whose files depend on all of them.

    Args:
        sets: image sets.

    Returns:
        A setting of `write_export`: samples rendered since then need another folder.
    """
    return hashlib.sha256(b"".join(one.indices.tobytes() for one in sets)).hexdigest()


def plain_name(name: str) -> str:
    """Put ``_`` in place of all characters but letters, digits, ``_`` and ``-``; a name then has no dots.

    Example:
        >>> plain_name("candle-000012"), plain_name("light/a.b")
        ('candle-000012', 'light_a_b')
    """
    return re.sub(r"[^\w-]", "_", name, flags=re.ASCII)


def layer_names(layers: Iterable[str]) -> dict[str, str]:
    """Name layers without dots, slashes and capitals, which some readers and file systems change.

    Raises:
        InputError: two layers would have one name.

    Example:
        >>> layer_names(["depth", "light/Left"])
        {'depth': 'depth', 'light/Left': 'light_left'}
    """
    owners: dict[str, str] = {}
    for layer in layers:
        name = plain_name(layer).lower()
        if name in owners:
            raise InputError(f"layers `{owners[name]}` and `{layer}` would both be {name}; rename a light")
        owners[name] = layer
    return {layer: name for name, layer in owners.items()}


def write_export(
    out: Path, units: Collection[ExportUnit], unit: str = "sample", **settings: str
) -> ExportCounts:
    """Write the units of an export that its folder lacks, each file atomically.

    Unfinished files of killed exports are removed, unless another export is writing to the folder. Two
    exports may write to one folder: each skips what the other has completed.

    Args:
        out: the folder; made if needed.
        units: all units of the export, in the order of writing.
        unit: name of what a unit's ``samples`` count.
        settings: the layout, the recipe of the frames, and every option that changes the files.

    Returns:
        How many samples were written now, and how many were found.

    Raises:
        InputError: the folder holds something else, or cannot be written. Errors of ``make`` are passed on.
    """
    written = found = 0
    total = sum(one.samples for one in units)
    with _open_folder(out, settings), progress_bar(desc="export", unit=unit, total=total) as bar:
        for one in units:
            if (out / one.last).is_file():
                found += one.samples
            else:
                _write_files(out, one.make())
                written += one.samples
            bar.update(one.samples)
    return ExportCounts(written, found, unit)


def _write_files(out: Path, files: ExportFiles) -> None:
    def write(name: str) -> None:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        content = files[name]
        with replacing(out / name) as partial:
            if isinstance(content, bytes):
                partial.write_bytes(content)
            else:
                content(partial)

    *others, last = files
    with ThreadPoolExecutor(_WRITERS) as pool:
        list(pool.map(write, others))  # syncing to disk takes most of the time
    write(last)


def _open_folder(out: Path, settings: dict[str, str]) -> BinaryIO:
    """Open a new folder for an export, or continue in a folder that the same export started."""
    marker = out / _MARKER
    try:
        out.mkdir(parents=True, exist_ok=True)
        # Listed before the look for a marker, which an export that starts now makes before all other files.
        foreign = [path for path in out.iterdir() if path != marker and not is_partial(path)]
        if foreign and not marker.is_file():
            raise InputError(f"{out}: expected an empty folder or the folder of an export; name another")
        marker.touch()
        held = marker.open("r+b")
        try:
            _claim(out, held, _text(settings))
        except BaseException:
            held.close()
            raise
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {error.strerror}; name another folder") from None
    return held


def _claim(out: Path, marker: BinaryIO, text: str) -> None:
    """Lock the folder as one of several exports with these settings; the first writes them.

    An export that is alone removes unfinished files.
    """
    import fcntl  # not at module level: reading works on systems without fcntl

    alone = False
    with suppress(BlockingIOError):
        alone = lock_file(marker.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    if not alone:
        lock_file(marker.fileno(), fcntl.LOCK_SH)  # waits until the first has written them
    if not (there := marker.read().decode()):
        marker.write(text.encode())
        marker.flush()
        os.fsync(marker.fileno())
    elif there != text:
        raise InputError(f"{out}: holds another export ({_differences(there, text)}); name another folder")
    if alone:
        _clean(out)
        lock_file(marker.fileno(), fcntl.LOCK_SH)


def _differences(there: str, here: str) -> str:
    """Name the settings that differ, of those that both exports have."""
    try:
        old, new = dict(json.loads(there)), dict(json.loads(here))
    except (TypeError, ValueError):
        return "its settings are damaged"
    told = [
        _HASHES.get(name, f"{name} is {old[name]} there and {new[name]} here")
        for name in sorted(old.keys() & new.keys())
        if old[name] != new[name]
    ]
    return ", ".join(told) or "other settings"


def _clean(out: Path) -> None:
    left = [path for path in out.rglob(".*") if is_partial(path)]
    for path in left:
        path.unlink()
    if left:
        _log.warning("%s: unfinished files of a killed export were removed", out)


def _text(settings: dict[str, str]) -> str:
    return json.dumps(settings, indent=1, sort_keys=True) + "\n"
