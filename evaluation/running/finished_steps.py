"""Finished steps of an evaluation in a folder, so that one that was killed goes on."""

import hashlib
import io
import json
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evaluation.models.model_spec import NamedModel
from evaluation.results.json_values import to_json_values
from evaluation.results.result import package_versions
from evaluation.running.batches import Batch, Fingerprint, weights_sha256
from loaders.errors import InputError, blame
from loaders.files.atomic_files import replacing
from loaders.verification.checksums import file_sha256

RECORD = "candlelight-steps.txt"
_TEXT = "Finished steps of an evaluation, with which the same command goes on after it was killed.\n"
_PACKAGES = {"site-packages", "dist-packages"}
_CURE = "delete it, or give another --out"


class FinishedSteps:
    """Results of finished steps, each in a file whose name is the hash of all that the step depends on.

    Steps of another model, other data or other settings have other names, so they are never used. A damaged
    file is computed again.

    Args:
        folder: where the files lie; made with the first one. None keeps nothing.

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
            raise InputError(f"{folder}: expected no such file, or steps of an earlier run; {_CURE}")

    def get_or_compute(
        self, key: Mapping[str, Any] | None, compute: Callable[[], Mapping[str, Tensor]]
    ) -> dict[str, Tensor]:
        """Read a step that is there, or compute it and keep it.

        Args:
            key: names and values of all that the step depends on; None computes it each time.
            compute: makes the step: CPU tensors of a dtype that numpy has, by name.

        Raises:
            InputError: a file cannot be written.
        """
        if self.folder is None or key is None:
            return dict(compute())
        name = hashlib.sha256(json.dumps(to_json_values(key), sort_keys=True).encode()).hexdigest()
        path = self.folder / f"{name}.npz"
        self._used.add(path)
        if (kept := _read(path)) is not None:
            self.reused += 1
            return kept
        step = {name: values.contiguous() for name, values in compute().items()}  # as they are read again
        self.computed += 1
        self._write(path, step)
        return step

    def count(self) -> int:
        """Count the steps that are there."""
        return len(list(self.folder.glob("*.npz"))) if self.folder is not None else 0

    def describe(self) -> str:
        """Say in one line how many steps were there; nothing where none was."""
        if not self.reused:
            return ""
        return f"{self.folder}: {self.reused} of {self.reused + self.computed} steps were there already"

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
        arrays: dict[str, Any] = {name: values.numpy() for name, values in step.items()}
        try:
            path.parent.mkdir(exist_ok=True)
            if not (record := path.parent / RECORD).exists():
                record.write_text(_TEXT, encoding="utf-8")
            packed = io.BytesIO()  # a file that cannot be written whole would be complained of twice
            np.savez(packed, **arrays)
            with replacing(path) as partial:
                partial.write_bytes(packed.getbuffer())
        except OSError as error:
            raise blame(f"{path.parent}: cannot be written", error, "give another --out") from None


def model_key(named: NamedModel, device: str, **settings: object) -> dict[str, Any] | None:
    """Name all that the output of a model depends on apart from the images, for `FinishedSteps.get_or_compute`.

    This includes the hash of the model's file and of its weights, and that of all imported files of Python
    that belong to no installed package: a model in a file and the modules that it imports. Files that a model
    reads when it is called are not seen.

    Args:
        named: the model, or results of another program.
        device: where it runs.
        settings: further ones that the step depends on, such as the metric and its version.

    Returns:
        The key; None of an object of the caller's own or a function, whose content no hash can tell.
    """
    identity, weights = named.identity, weights_sha256(named.model)
    if identity.sha256 is None and identity.source != "shipped":
        return None
    if identity.source == "callable" and weights is None:  # a function may hold weights out of sight
        return None
    return {
        "settings": settings,
        "model": asdict(identity),
        "weights": weights,
        "colour_space": named.colour_space,
        "png": getattr(named.model, "png", None),
        "device": device,
        "packages": package_versions(),
        "code": _code_sha256(),
    }


def batch_key(
    key: Mapping[str, Any] | None, batch: Batch[Any], fingerprint: Fingerprint
) -> dict[str, Any] | None:
    """Name what the step of one model and one batch depends on.

    Args:
        key: from `model_key`.
        batch: the rows.
        fingerprint: has taken in the rows of this batch, and those before.
    """
    return None if key is None else {**key, "rows": batch.ids, "read": fingerprint.hexdigest()}


def _is_ours(folder: Path) -> bool:
    """Tell whether a folder is one of steps, by the record in it."""
    record = folder / RECORD
    return not folder.is_symlink() and record.is_file() and not record.is_symlink()


def _is_free(folder: Path) -> bool:
    """Tell whether there is nothing, or an empty folder, as after a kill while it was made."""
    if folder.is_symlink():
        return False
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def _read(path: Path) -> dict[str, Tensor] | None:
    """Read a step; None if there is none, or a damaged one."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:  # before a header is believed
                return None
        with np.load(path, allow_pickle=False) as arrays:
            return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile):
        return None


def _code_sha256() -> str:
    """Hash the imported files of Python that belong to no installed package."""
    installed = Path(sysconfig.get_path("stdlib"))
    named = [getattr(module, "__dict__", {}).get("__file__") for module in list(sys.modules.values())]
    files = {Path(name) for name in named if isinstance(name, str) and name.endswith(".py")}
    whole = hashlib.sha256()
    for file in sorted(files):
        own = not file.is_relative_to(installed) and not _PACKAGES.intersection(file.parts)
        if own and file.is_file():
            whole.update(f"{file}\0{file_sha256(file)}\0".encode())
    return whole.hexdigest()
