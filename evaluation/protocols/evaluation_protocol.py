"""The record of an evaluation protocol: every choice that decides the numbers of a table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from candlelight.evaluation.inputs.ground_truth import GroundTruth
from candlelight.evaluation.results.result import Better, Result
from candlelight.loaders.views import DecomposedImage

Reads = Literal["decompositions", "comparisons", "labels", "regions"]
Average = Literal["arithmetic", "geometric", "groups"]

NEVER_COMPARE = (
    "Numbers of two protocols are never comparable, even if both are called LMSE, PSNR or WHDR: the same "
    "prediction gets other numbers, and two models may change places.",
    "Numbers of one protocol are not comparable either if they are of other files (another split, or pairs "
    "that were not complete), another size of the images, or another version of the protocol; nor are "
    "numbers on rendered frames with those of a paper's photographs.",
    "A published number is comparable with a number of a protocol only if its paper states the same choices, "
    "above all colour space, scale, mask and file list. Most papers do not.",
)


@dataclass(frozen=True)
class DecompositionRule:
    """Arithmetic of a protocol with true reflectance and shading.

    Attributes:
        values: computes the columns of a batch, [columns, rows], from predicted reflectance and shading,
            float64, scene-linear, and the truth; nan where the truth leaves a column undefined.
        prepare: makes the image that a model is shown, and the truth that it is compared with; None for the
            rows as they are.
        prepared: layouts whose reader has prepared the rows already.
        average: mean over rows: "arithmetic"; "geometric"; or "groups", the arithmetic mean of the means of
            the groups.
    """

    values: Callable[[Tensor, Tensor, GroundTruth], Tensor]
    prepare: Callable[[DecomposedImage], DecomposedImage] | None = None
    prepared: tuple[str, ...] = ()
    average: Average = "arithmetic"


@dataclass(frozen=True)
class PublishedTable:
    """Published numbers, in the unit of the publication.

    Attributes:
        reading: how the numbers were read.
        columns: titles of the columns, the first of which holds methods.
        rows: a row for each method.
        remark: reasons for which the numbers are not comparable with each other or with the protocol.
    """

    reading: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remark: str = ""


@dataclass(frozen=True)
class EvaluationProtocol:
    """A named protocol; the texts are the columns and sections of docs/protocols.md.

    Attributes:
        name: name on the command line.
        version: raised when the same predictions get other numbers.
        reads: content of the data that is scored.
        better: direction of all columns.
        columns: columns of a result, the main one first.
        rule: the arithmetic: a rule, or a function of `candlelight.evaluation.intrinsic` that takes models
            and a view.
        files: data set, and file list or split.
        colour_space: colour space of the compared values.
        scale: alignment of the prediction with the truth.
        mask: pixels that count.
        resize: sizes of the image that is shown and of the values that are compared.
        window: windows, thresholds or regions.
        mean: mean over images.
        source: publication and program.
        trial: whether the protocol was ever run on the real files.
        left_out: columns of the publication that are left out, and further differences, with reasons.
        published: published numbers.
    """

    name: str
    version: int
    reads: Reads
    better: Better
    columns: tuple[str, ...]
    rule: DecompositionRule | Callable[..., dict[str, Any]]
    files: str
    colour_space: str
    scale: str
    mask: str
    resize: str
    window: str
    mean: str
    source: str
    trial: str = "never run on the real files"
    left_out: str = ""
    published: tuple[PublishedTable, ...] = ()


def main_score(result: Result, protocol: EvaluationProtocol) -> float:
    """Return the main score of a result of a protocol.

    Args:
        result: from `candlelight.evaluation.protocols.score_protocol`.
        protocol: its protocol.
    """
    return result.scores[protocol.columns[0]].value
