"""Finished steps of an evaluation.

Kept in a folder so that it resumes, and the loop over batches that uses them.
"""

import hashlib
import io
import json
import os
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

import candlelight
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Batch, read_batches
from candlelight.evaluation.run.fingerprints import Fingerprint, weights_sha256
from candlelight.evaluation.run.json_values import to_json_values
from candlelight.evaluation.run.model_outputs import MissingLayer
from candlelight.evaluation.run.result import package_versions
from candlelight.evaluation.views import View
from candlelight.loaders.errors import InputError, blame
from candlelight.loaders.files.safe_writing import replacing
from candlelight.loaders.verification.checksums import file_sha256
from candlelight.version import RELEASE

RECORD = "candlelight-steps.txt"
_TEXT = "Finished steps of an evaluation; the same command resumes with them after an interruption.\n"
_INSTALLED = sysconfig.get_path("stdlib") + os.sep
_PACKAGES = {"site-packages", "dist-packages"}
_OWN = str(Path(candlelight.__file__).parent) + os.sep
_CURE = "delete it, or give another --out"


class FinishedSteps:
    """Results of finished steps; the name of each file is the hash of everything that the step depends on.

    A step of another model, other data or other settings has another hash, so it is never reused. A step
    whose file is damaged is computed again.

    Args:
        folder: folder of the files, created with the first file. None keeps nothing.

    Raises:
        InputError: ``folder`` is a link, a file, or a folder with other content.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     for _ in range(2):
        ...         steps = FinishedSteps(Path(folder) / "lmse.json.partial")
        ...         read = steps.get_or_compute({"rows": ["a"]}, lambda: {"errors": torch.ones(2)})
        >>> read["errors"], steps.reused, steps.computed
        (tensor([1., 1.]), 1, 0)
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder, self.reused, self.computed = folder, 0, 0
        self._used: set[Path] = set()
        if folder is not None and not _is_free(folder) and not _is_ours(folder):
            raise InputError(f"{folder}: must not exist, or hold the steps of an earlier run; {_CURE}")

    def get_or_compute(
        self, key: Mapping[str, Any] | None, compute: Callable[[], Mapping[str, Tensor]], place: str = "cpu"
    ) -> dict[str, Tensor]:
        """Read a finished step, or compute it and keep it.

        Args:
            key: names and values of everything that the step depends on; None computes it each time.
            compute: computes the step: tensors by name, of dtypes that numpy has.
            place: device of the returned tensors. A step that is not kept does not leave its device for it.

        Raises:
            InputError: a file cannot be written.
        """
        if self.folder is None or key is None:
            return {name: values.to(place) for name, values in compute().items()}
        name = hashlib.sha256(json.dumps(to_json_values(key), sort_keys=True).encode()).hexdigest()
        path = self.folder / f"{name}.npz"
        again = path in self._used  # in this run, such as the score of a second model with equal codes
        self._used.add(path)
        if (kept := _read(path)) is not None:
            self.reused += not again
            return {name: values.to(place) for name, values in kept.items()}
        # Contiguous, as read from a file.
        step = {name: values.contiguous() for name, values in compute().items()}
        self.computed += 1
        self._write(path, step)
        return {name: values.to(place) for name, values in step.items()}

    def count(self) -> int:
        """Count the steps in the folder."""
        return len(list(self.folder.glob("*.npz"))) if self.folder is not None else 0

    def describe(self) -> str:
        """Describe in one line how many steps were reused; empty if none was."""
        if not self.reused:
            return ""
        return f"{self.folder}: {self.reused} of {self.reused + self.computed} steps were already finished"

    def remove(self) -> None:
        """Delete the steps that this run has used, and the folder if nothing else is in it."""
        if self.folder is None or not _is_ours(self.folder):
            return
        for path in self._used:
            if not path.is_dir():
                path.unlink(missing_ok=True)
        if [path.name for path in self.folder.iterdir()] == [RECORD]:
            with suppress(OSError):  # another run has just written a step
                (self.folder / RECORD).unlink()
                self.folder.rmdir()

    def _write(self, path: Path, step: Mapping[str, Tensor]) -> None:
        arrays: dict[str, Any] = {name: values.cpu().numpy() for name, values in step.items()}
        try:
            path.parent.mkdir(exist_ok=True)
            if not (record := path.parent / RECORD).exists():
                record.write_text(_TEXT, encoding="utf-8")
            packed = io.BytesIO()  # np.savez on a full disk would raise a second error on closing the file
            np.savez(packed, **arrays)
            with replacing(path) as partial:
                partial.write_bytes(packed.getbuffer())
        except OSError as error:
            raise blame(f"{path.parent}: cannot be written", error, "give another --out") from None


def model_key(named: NamedModel, device: str, **settings: object) -> dict[str, Any] | None:
    """Collect everything except the images that the output of a model depends on.

    The key includes hashes of the model's file, of its weights, of the imported files of candlelight, and of
    all imported Python files outside installed packages, such as the model's own file and its modules. Files
    that a model reads when it is called are not included.

    Args:
        named: the model, or results of another program.
        device: torch device of the model.
        settings: further settings that the step depends on, such as the metric and its version.

    Returns:
        A key for `FinishedSteps.get_or_compute`; None for a caller's own object or function, whose content
        cannot be hashed.
    """
    identity, weights = named.identity, weights_sha256(named.model)
    if identity.sha256 is None and identity.source != "shipped":
        return None
    if identity.source == "callable" and weights is None:  # a function may use weights that are not hashed
        return None
    return {
        "settings": settings,
        "model": asdict(identity),
        "weights": weights,
        "colour_space": named.colour_space,
        "png": getattr(named.model, "png", None),
        "device": device,
        "packages": {**package_versions(), "candlelight": RELEASE},  # its code is hashed, a commit is not
        "code": _code_sha256(),
    }


def batch_key(
    key: Mapping[str, Any] | None, batch: Batch[Any], fingerprint: Fingerprint
) -> dict[str, Any] | None:
    """Extend the key of a model to the key of its step on one batch.

    Args:
        key: from `model_key`.
        batch: the rows.
        fingerprint: hash of the rows of this batch and of all batches before it.
    """
    read = fingerprint.hexdigest(), fingerprint.lights_hexdigest()
    return None if key is None else {**key, "rows": batch.ids, "read": read}


def _is_ours(folder: Path) -> bool:
    """Tell whether a folder holds finished steps, by the record file in it."""
    record = folder / RECORD
    return not folder.is_symlink() and record.is_file() and not record.is_symlink()


def _is_free(folder: Path) -> bool:
    """Tell whether the path does not exist or is an empty folder, which an interrupted run may leave."""
    if folder.is_symlink():
        return False
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _read(path: Path) -> dict[str, Tensor] | None:
    """Read a step; None if its file is missing or damaged."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # checksums first, because a damaged header may claim any size
                return None
        with np.load(path, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile):
        return None


def _code_sha256() -> str:
    """Hash all imported Python files outside the standard library and other installed packages."""
    named = [getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values())]
    whole = hashlib.sha256()
    for file in sorted({name for name in named if isinstance(name, str) and _is_own_code(name)}):
        with suppress(OSError):  # removed since, or within an archive
            state = Path(file).stat()
            whole.update(f"{file}\0{_sha256_of(file, state.st_mtime_ns, state.st_size)}\0".encode())
    return whole.hexdigest()


def _is_own_code(file: str) -> bool:
    # Comparisons of texts: paths would take a half second for all imported files.
    other = file.startswith(_INSTALLED) or any(f"{os.sep}{name}{os.sep}" in file for name in _PACKAGES)
    return file.endswith(".py") and (not other or file.startswith(_OWN))


@cache
def _sha256_of(file: str, changed: int, size: int) -> str:
    """Hash a file once for each time it is written."""
    return file_sha256(Path(file))


_Item = TypeVar("_Item")
_Prepared = TypeVar("_Prepared")
Step = dict[str, Tensor]


def run_batches(
    named_models: Mapping[str, NamedModel],
    view: View[_Item],
    prepare: Callable[[Batch[_Item]], _Prepared],
    compute: Callable[[NamedModel, Sequence[str], _Prepared, str], Step],
    *,
    fingerprint: Fingerprint,
    settings: Mapping[str, object],
    device: str,
    batch_size: int,
    steps: FinishedSteps | None,
    place: str = "cpu",
    lacking: Callable[[str, MissingLayer], None] | None = None,
) -> Iterator[tuple[_Prepared, dict[str, Step]]]:
    """Compute a step of each model for each batch, or take it from finished steps.

    Args:
        named_models: the models, on ``device``.
        view: the rows; their items have an ``image``.
        prepare: makes the input of ``compute`` of a batch, once for all models.
        compute: computes the step of a model from the ids of the rows, the prepared batch and the device:
            tensors by name.
        fingerprint: is extended by every row.
        settings: all arguments that ``compute`` depends on, with the metric and its version.
        device: torch device of the models.
        batch_size: maximal number of rows in a batch, whose images have one size.
        steps: keeps finished steps; None keeps nothing.
        place: device of the returned tensors.
        lacking: is told the name of a model that lacks a scored layer, at the first batch; the model is then
            left out, unless it raises the error. None refuses such a model.

    Returns:
        An iterator over batches: the prepared batch, and the step of each model.

    Raises:
        InputError: there is no row, the batch size is below 1, or a step cannot be written.
    """
    kept = steps or FinishedSteps()
    keys = {name: model_key(named, device, **settings) for name, named in named_models.items()}
    for batch in read_batches(view, batch_size, attrgetter("image"), fingerprint, "score"):
        prepared = prepare(batch)
        made = {}
        for name, key in tuple(keys.items()):
            step = partial(compute, named_models[name], batch.ids, prepared, device)
            try:
                made[name] = kept.get_or_compute(batch_key(key, batch, fingerprint), step, place)
            except MissingLayer as error:
                if lacking is None or 0 not in batch.rows:
                    raise
                lacking(name, error)
                del keys[name]
        yield prepared, made


def join_steps(steps: Iterable[Mapping[str, Step]]) -> dict[str, Step]:
    """Join the steps of all batches: for each model, its tensors by name, along their first axis.

    Example:
        >>> step = {"net": {"failed": torch.tensor([True])}}
        >>> join_steps([step, step])
        {'net': {'failed': tensor([True, True])}}
    """
    parts: dict[str, list[Step]] = {}
    for made in steps:
        for name, step in made.items():
            parts.setdefault(name, []).append(step)
    return {
        name: {key: torch.cat([step[key] for step in some]) for key in some[0]}
        for name, some in parts.items()
    }
