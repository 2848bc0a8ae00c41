"""A page of counterfactual questions: each sample, and what it would have been."""

from collections.abc import Sequence
from pathlib import Path

from evaluation.report.blocks import Block, Picture, PicturesBlock, Section, TextBlock, png_picture
from evaluation.report.page import write_page
from evaluation.report.tiles import scale_for_page, values_text
from loaders.errors import InputError
from loaders.frames import FrameFolder
from loaders.looking.sheet import value_text
from loaders.schema import Metadata

_HOW = (
    "Left of each row: a sample as it was made. Then what it would have been, had some of its factors been "
    "otherwise: every other draw of the unit is kept, and what follows from the changed factors is worked "
    "out anew."
)


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
    blocks: list[Block] = [TextBlock(_HOW)]
    for base_name, twin_name in pairs:
        base, twins = FrameFolder(frames, base_name, ["image"]), FrameFolder(frames, twin_name, ["image"])
        row_of = {base.metadata(row).id: row for row in range(len(base))}
        asked: dict[str, list[int]] = {}
        for row in range(len(twins)):
            asked.setdefault(str(twins.metadata(row).counterfactual_of), []).append(row)
        for sample, members in asked.items():
            if sample not in row_of:
                raise InputError(
                    f"{frames}: sample {sample} is missing; render it beside its counterfactuals"
                )
            blocks.append(PicturesBlock(tuple(_row(base, row_of[sample], twins, members)), sample))
    section = Section("counterfactuals", "Samples and their counterfactuals", tuple(blocks))
    write_page(path, "What would it have looked like?", [section])
    return path


def _row(base: FrameFolder, row: int, twins: FrameFolder, members: Sequence[int]) -> list[Picture]:
    factual = base.frame(row)
    image = factual.layers["image"]
    pictures = [
        png_picture(scale_for_page(image), factual.metadata.id, values_text(factual.metadata.factors))
    ]
    for member in members:
        twin = twins.frame(member)
        changed = (twin.layers["image"] != image).any(axis=-1).mean()
        detail = f"{_followed(factual.metadata, twin.metadata)}{100 * changed:.0f} % of the pixels differ"
        question = _question(factual.metadata, twin.metadata)
        pictures.append(png_picture(scale_for_page(twin.layers["image"]), question, f"{question} {detail}"))
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
