"""Read RAID: human judgements of affine distortions (Dauden-Oliver et al., Scientific Data 2026)."""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from candlelight.loaders.errors import InputError
from candlelight.loaders.public.public_files import PublicSource

SOURCE = PublicSource("https://github.com/paudauo/BBDD_Affine_Transformations")
# Prefix of the image names, to the word in the list of trials.
_TRANSFORMATIONS = {"rot": "rotation", "trans": "translation", "scale": "scale", "gn": "gaussian_noise"}
_IMAGES, _LEVELS = range(1, 25), range(1, 11)
_TRIALS = (
    *("gender", "age_group", "transformation", "image_id_01"),
    *("distortion_level_11", "distortion_level_12", "distortion_level_21", "distortion_level_22"),
    *("reaction_time_ms", "answer"),
)
_CURVES = ("Reference", "Distorted", "Curve_Value", "Sigmas", "Response", "Estimated_MOS")


def read_raid_trials(path: Path | str) -> dict[str, ndarray]:
    """Read all answers of all observers to the question: which of two pairs of images differs more?

    Args:
        path: ``answers.csv``, 40320 trials.

    Returns:
        Arrays by name, one entry per trial: ``gender``, ``age_group``, ``transformation`` (text), ``image``
        (1 to 24), ``levels`` (int64 [n, 2, 2], pair by member, from 1, undistorted, to 10), ``reaction`` (ms)
        and ``answer`` (1 or 2, the pair with the larger difference).

    Raises:
        InputError: the file is missing or damaged.

    Example:
        >>> read_raid_trials("nowhere/answers.csv")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: nowhere/answers.csv is missing; get it from
            https://github.com/paudauo/BBDD_Affine_Transformations
    """
    rows = _read(Path(path), _TRIALS, _trial)
    numbers: Int64[ndarray, "n 7"] = np.array([row[3:] for row in rows], np.int64).reshape(-1, 7)
    words = {name: np.array([row[i] for row in rows]) for i, name in enumerate(_TRIALS[:3])}
    return {
        **words,
        "image": numbers[:, 0],
        "levels": numbers[:, 1:5].reshape(-1, 2, 2),
        "reaction": numbers[:, 5],
        "answer": numbers[:, 6],
    }


def read_raid_responses(path: Path | str) -> dict[str, ndarray]:
    """Read the curves fitted to the answers: the perceived difference of each distorted image.

    Args:
        path: ``responses.csv``, 960 images; level 1 is undistorted.

    Returns:
        Arrays by name, one entry per distorted image: ``reference`` and ``distorted`` (file names),
        ``transformation`` (as in the trials), ``image`` (1 to 24), ``level`` (1 to 10), ``curve``,
        ``sigma``, ``response`` (curve over sigma) and ``mos`` (estimated opinion, higher is better).

    Raises:
        InputError: the file is missing or damaged.
    """
    rows = _read(Path(path), _CURVES, _curve)
    numbers: Float64[ndarray, "n 4"] = np.array([row[5:] for row in rows], np.float64).reshape(-1, 4)
    names = ("reference", "distorted", "transformation", "image", "level")
    columns = {name: np.array([row[i] for row in rows]) for i, name in enumerate(names)}
    fitted = zip(("curve", "sigma", "response", "mos"), numbers.T, strict=True)
    return {**columns, **{name: column.copy() for name, column in fitted}}


def _read(
    path: Path, header: tuple[str, ...], parse: Callable[[list[str]], tuple[Any, ...] | None]
) -> list[tuple[Any, ...]]:
    """Parse each line below the header."""
    columns = ",".join(header)
    if next(SOURCE.lines(path), "").strip() != columns:
        raise InputError(f"{path}: expected the columns {columns}; get it from {SOURCE}")

    def cells(line: str) -> tuple[Any, ...] | None:
        try:
            found = next(csv.reader([line]))
        except csv.Error:
            return None
        return parse(found) if len(found) == len(header) else None

    return list(SOURCE.parse(path, cells, columns, skip=1))


def _trial(cells: list[str]) -> tuple[Any, ...] | None:
    image, *levels, reaction, answer = map(int, cells[3:])
    known = cells[2] in _TRANSFORMATIONS.values() and image in _IMAGES and set(levels) <= set(_LEVELS)
    return (
        (*cells[:3], image, *levels, reaction, answer)
        if known and 0 <= reaction < 2**31 and answer in (1, 2)
        else None
    )


def _curve(cells: list[str]) -> tuple[Any, ...] | None:
    """Parse a line with a name such as rot_img_01_level_02.png."""
    prefix, _, image, _, level = cells[1].removesuffix(".png").split("_")
    numbers = [float(cell) for cell in cells[2:]]
    known = prefix in _TRANSFORMATIONS and int(image) in _IMAGES and int(level) in _LEVELS
    if not known or not np.isfinite(numbers).all():
        return None
    return (*cells[:2], _TRANSFORMATIONS[prefix], int(image), int(level), *numbers)
