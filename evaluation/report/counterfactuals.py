"""A page of counterfactual questions: each sample, and what it would have been."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import jinja2
import numpy as np
from numpy import ndarray

from loaders.codecs import encode_png
from loaders.errors import InputError
from loaders.frames import FrameFolder
from loaders.looking.sheet import value_text, write_file
from loaders.schema import Metadata

SMALLEST = 240  # pixels that a picture is shown at, at least


@dataclass(frozen=True)
class Picture:
    """One image of a row, its caption, and what else to say of it."""

    uri: str
    caption: str
    detail: str


def write_counterfactual_page(path: Path, frames: Path, pairs: Sequence[tuple[str, str]]) -> Path:
    """Write a page that shows each sample beside its counterfactuals.

    Args:
        path: the HTML file; replaced in one step.
        frames: folder of frames that holds both.
        pairs: name of a set, and of the set of its counterfactuals.

    Returns:
        ``path``.

    Raises:
        InputError: a set is not there, or a counterfactual whose sample is not.

    Example:
        >>> pairs = [("candle", "candle_counterfactual")]
        >>> write_counterfactual_page(Path("page.html"), Path("frames"), pairs)  # doctest: +SKIP
    """
    rows: list[list[Picture]] = []
    width = SMALLEST
    for base_name, twin_name in pairs:
        base, twins = FrameFolder(frames, base_name, ["image"]), FrameFolder(frames, twin_name, ["image"])
        width = max(width, base.set_info.width)
        row_of = {base.metadata(row).id: row for row in range(len(base))}
        asked: dict[str, list[int]] = {}
        for row in range(len(twins)):
            asked.setdefault(str(twins.metadata(row).counterfactual_of), []).append(row)
        for sample, members in asked.items():
            if sample not in row_of:
                raise InputError(
                    f"{frames}: sample {sample} is missing; render it beside its counterfactuals"
                )
            rows.append(_row(base, row_of[sample], twins, members))
    source = (files("evaluation.report") / "counterfactuals.html").read_text(encoding="utf-8")
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
    title = "What would it have looked like?"
    rendering = "auto" if width > SMALLEST else "pixelated"
    write_file(path, template.render(title=title, rows=rows, width=width, rendering=rendering).encode())
    return path


def _row(base: FrameFolder, row: int, twins: FrameFolder, members: Sequence[int]) -> list[Picture]:
    factual = base.frame(row)
    image = factual.layers["image"]
    pictures = [Picture(_uri(image), factual.metadata.id, _values(factual.metadata))]
    for member in members:
        twin = twins.frame(member)
        changed = (twin.layers["image"] != image).any(axis=-1).mean()
        detail = f"{_followed(factual.metadata, twin.metadata)}{100 * changed:.0f} % of the pixels differ"
        question = _question(factual.metadata, twin.metadata)
        pictures.append(Picture(_uri(twin.layers["image"]), question, detail))
    return pictures


def _question(factual: Metadata, twin: Metadata) -> str:
    # What the whole population was set to is not asked, unless it was changed once more.
    asked = {k: v for k, v in twin.intervention.items() if factual.intervention.get(k) != v}
    changes = " and ".join(f"{name} been {value_text(value)}" for name, value in asked.items())
    return f"had {changes}?"


def _followed(factual: Metadata, twin: Metadata) -> str:
    """Say which other factors have changed because they depend on those that were set."""
    before = {**factual.factors, **factual.exogenous}
    after = {**twin.factors, **twin.exogenous}
    moved = [name for name in after if after[name] != before[name] and name not in twin.intervention]
    return "".join(f"{name} follows: {value_text(after[name])}; " for name in moved)


def _values(metadata: Metadata) -> str:
    return ", ".join(f"{name} {value_text(value)}" for name, value in metadata.factors.items())


def _uri(image: ndarray) -> str:
    return "data:image/png;base64," + base64.b64encode(encode_png(np.asarray(image))).decode()
