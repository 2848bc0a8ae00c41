"""An HTML page that shows samples next to their counterfactuals."""

from collections.abc import Sequence
from pathlib import Path

from candlelight.evaluation.report.blocks import (
    Block,
    Picture,
    PicturesBlock,
    Section,
    TextBlock,
    png_picture,
)
from candlelight.evaluation.report.page import write_page
from candlelight.evaluation.report.tiles import scale_for_page, values_text
from candlelight.loaders.errors import InputError
from candlelight.loaders.frame_folder import FrameFolder
from candlelight.loaders.looking.sheet_rows import value_text
from candlelight.loaders.schema import Metadata

_HOW = (
    "The first picture of each row is a sample. The others are its counterfactuals: some factors were set to "
    "other values, all exogenous draws of the unit were kept, and the factors that depend on the changed "
    "ones were recomputed. Surfaces that the change does not touch, seen from the same camera, keep their "
    "masks, depth, normals and albedo. Their pixels of the image may differ all the same: the changed object "
    "reflects light onto them, and where paths of light differ, so does the renderer's noise. The share of "
    "the pixels that differ counts every difference, from 1 of 255."
)


def write_counterfactual_page(path: Path, frames: Path, pairs: Sequence[tuple[str, str]]) -> Path:
    """Write a page that shows each sample next to its counterfactuals.

    Args:
        path: the HTML file, which is replaced atomically.
        frames: folder of frames that holds samples and counterfactuals.
        pairs: name of a set, and name of the set of its counterfactuals.

    Returns:
        ``path``.

    Raises:
        InputError: a set does not exist, or the sample of a counterfactual is missing.

    Example:
        >>> pairs = [("candle", "candle_counterfactual")]
        >>> write_counterfactual_page(Path("page.html"), Path("frames"), pairs)  # doctest: +SKIP
    """
    blocks: list[Block] = [TextBlock(_HOW)]
    for names in pairs:
        base, changed = (FrameFolder(frames, name, ["image"]) for name in names)
        row_of = {base.metadata(row).id: row for row in range(len(base))}
        rows_by_sample: dict[str, list[int]] = {}
        for row in range(len(changed)):
            rows_by_sample.setdefault(str(changed.metadata(row).counterfactual_of), []).append(row)
        for sample, rows in rows_by_sample.items():
            if sample not in row_of:
                raise InputError(f"{frames}: sample {sample} is missing; render it with its counterfactuals")
            blocks.append(PicturesBlock(tuple(_pictures(base, row_of[sample], changed, rows)), sample))
    section = Section("counterfactuals", "Samples and their counterfactuals", tuple(blocks))
    write_page(path, "What would it have looked like?", [section])
    return path


def _pictures(base: FrameFolder, row: int, changed: FrameFolder, rows: Sequence[int]) -> list[Picture]:
    factual = base.frame(row)
    image = factual.layers["image"]
    pictures = [
        png_picture(scale_for_page(image), factual.metadata.id, values_text(factual.metadata.factors))
    ]
    for number in rows:
        counterfactual = changed.frame(number)
        pixels, metadata = counterfactual.layers["image"], counterfactual.metadata
        share = (pixels != image).any(axis=-1).mean()
        detail = f"{_followed(factual.metadata, metadata)}{100 * share:.0f} % of the pixels differ"
        question = _question(factual.metadata, metadata)
        pictures.append(png_picture(scale_for_page(pixels), question, f"{question} {detail}"))
    return pictures


def _question(factual: Metadata, counterfactual: Metadata) -> str:
    # An intervention on the whole set is not part of the question, unless its value was changed again.
    interventions = counterfactual.intervention.items()
    changes = {name: value for name, value in interventions if factual.intervention.get(name) != value}
    if not changes:  # at another step of a sequence
        return f"{counterfactual.id}: nothing is changed at this step"
    return f"had {' and '.join(f'{name} been {value_text(value)}' for name, value in changes.items())}?"


def _followed(factual: Metadata, counterfactual: Metadata) -> str:
    """List the other factors that changed because they depend on the factors that were set."""
    before = {**factual.factors, **factual.exogenous}
    after = {**counterfactual.factors, **counterfactual.exogenous}
    interventions = counterfactual.intervention
    moved = [name for name in after if after[name] != before[name] and name not in interventions]
    return "".join(f"{name} follows: {value_text(after[name])}; " for name in moved)
