"""Score an encoder of images by how its codes answer for the factors of an image set."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from tqdm import tqdm

from evaluation.causal.irs import IRS, irs
from evaluation.causal.unconfoundedness import unconfoundedness
from evaluation.hidden import evaluating
from evaluation.plain import to_plain
from loaders.errors import InputError
from loaders.samples import Frames

Encoder = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch codes"]]


@dataclass(frozen=True)
class CausalScores:
    """Interventional robustness and unconfoundedness of one encoder on one image set.

    Attributes:
        irs: the robustness score with its matrix, columns in order of ``factors``.
        unconfoundedness: by ``rho``; nan where fewer than ``rho`` codes vary.
        unconfoundedness_candle2021: the same with the selection of the authors' program, to compare with
            published numbers.
        factors: names of the factors that vary among the frames.
        frames: how many frames were encoded.
    """

    irs: IRS
    unconfoundedness: dict[int, float]
    unconfoundedness_candle2021: dict[int, float]
    factors: tuple[str, ...]
    frames: int

    @property
    def score(self) -> float:
        """Unconfoundedness with the smallest ``rho`` asked for; higher is better."""
        return self.unconfoundedness[min(self.unconfoundedness)]

    def to_json(self) -> str:
        """Strict JSON of all fields; nan becomes null."""
        result = {"metric": "causal", "better": "higher", "score": self.score, **asdict(self)}
        return json.dumps(to_plain(result), indent=2, allow_nan=False) + "\n"


def score_causal(
    encode: Encoder,
    frames: Frames,
    rho: Sequence[int] = (1, 2),
    *,
    rows: Sequence[int] | None = None,
    quantile: float = 0.99,
    bins: int = 20,
    batch_size: int = 64,
    device: str = "cpu",
) -> CausalScores:
    """Encode frames and compute IRS and unconfoundedness.

    Continuous factors are cut into ``bins`` of equal width between their extremes, as in
    disentanglement_lib. Factors with one value among the frames are left out: any code is robust there.

    Blind to: what `irs` and `unconfoundedness` are blind to, and to how the frames were chosen: with
    confounded frames the codes are judged by the confounded joint distribution.

    Args:
        encode: images to codes. It is given display pixels, that is `image` / 255 (sRGB-encoded, not
            linear), as encoders are trained on; a `torch.nn.Module` runs in evaluation mode and has to be
            on ``device``.
        frames: image set with at least two factors that vary.
        rho: codes per factor, one unconfoundedness for each.
        rows: rows to encode; all if None.
        quantile: see `irs`.
        bins: classes of a continuous factor.
        batch_size: images per pass.
        device: torch device of the computation.

    Returns:
        The scores; higher is better.

    Raises:
        InputError: no frames, fewer than two factors that vary, or codes that are not finite.
    """
    chosen = list(range(len(frames)) if rows is None else rows)
    if not chosen:
        raise InputError("no frames to encode; expected at least one row")
    if not rho:
        raise InputError("`rho` needs at least one number of codes per factor, got none")
    table = torch.from_numpy(frames.factor_table[chosen])
    varying = (table != table[0]).any(0).nonzero().flatten().tolist()
    info = [frames.set_info.factors[column] for column in varying]
    if len(info) < 2:
        raise InputError(f"at least two factors must vary among the frames, got {[f.name for f in info]}")
    classes = [
        table[:, column].long() if factor.kind == "categorical" else _binned(table[:, column], bins)
        for column, factor in zip(varying, info, strict=True)
    ]
    codes = _encode(encode, frames, chosen, batch_size, device)
    result = irs(codes, torch.stack(classes, dim=1).to(codes.device), quantile)

    def scores(compat: Literal["exact", "candle2021"]) -> dict[int, float]:
        enough = len(result.codes)
        return {r: float(unconfoundedness(result, r, compat)) if r <= enough else math.nan for r in rho}

    names = tuple(factor.name for factor in info)
    return CausalScores(result, scores("exact"), scores("candle2021"), names, len(chosen))


def _encode(
    encode: Encoder, frames: Frames, rows: Sequence[int], batch_size: int, device: str
) -> Float[Tensor, "samples codes"]:
    """Codes of all rows."""
    parts = []
    with evaluating(encode), torch.no_grad():
        for start in tqdm(range(0, len(rows), batch_size), desc="encode", unit="batch", disable=None):
            images = [frames[row]["image"] for row in rows[start : start + batch_size]]
            parts.append(encode(torch.stack(images).to(device).float() / 255))
    return torch.cat(parts)


def _binned(values: Float[Tensor, " samples"], bins: int) -> Int[Tensor, " samples"]:
    """Class indices of a continuous factor, cut into bins of equal width."""
    low, high = values.min(), values.max()
    return ((values - low) / (high - low) * bins).long().clamp(max=bins - 1)
