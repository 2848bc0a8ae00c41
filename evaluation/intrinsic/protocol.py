"""Score a model's decompositions against the ground truth of rendered frames."""

import json
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from evaluation.hidden import evaluating
from evaluation.intrinsic.lmse import gray, lmse
from evaluation.intrinsic.mse import mse
from evaluation.intrinsic.si_mse import si_mse
from evaluation.models.baselines import BASELINES
from evaluation.models.ground_truth import GroundTruth, check_rows, ground_truth
from evaluation.models.protocols import IntrinsicFrames, IntrinsicModel, Rows
from evaluation.plain import to_plain
from loaders.errors import InputError


@dataclass(frozen=True, eq=False)
class IntrinsicScores:
    """Errors of each sample; lower is better in all of them, nan where one is not defined.

    Attributes:
        ids: sample ids, in the order of the errors.
        lmse_reflectance: `lmse` of the gray reflectance, in [0, 1].
        lmse_shading: `lmse` of the gray shading, in [0, 1].
        si_mse_reflectance: `si_mse` of the reflectance, squared albedo.
        si_mse_shading: `si_mse` of the shading, squared shading times exposure.
        mse_reflectance: `mse` of the reflectance; only for models that claim its scale.
        mse_shading: `mse` of the shading; only for models that claim its scale.
    """

    ids: tuple[str, ...]
    lmse_reflectance: Float[Tensor, " samples"]
    lmse_shading: Float[Tensor, " samples"]
    si_mse_reflectance: Float[Tensor, " samples"]
    si_mse_shading: Float[Tensor, " samples"]
    mse_reflectance: Float[Tensor, " samples"]
    mse_shading: Float[Tensor, " samples"]

    @property
    def lmse(self) -> Float[Tensor, " samples"]:
        """Score of each sample in the MIT benchmark, see `lmse_score`."""
        return 0.5 * self.lmse_shading + 0.5 * self.lmse_reflectance

    @property
    def score(self) -> float:
        """Mean of `lmse` over the samples where it is defined; nan where it is nowhere."""
        return self.lmse.nanmean().item()

    def to_json(self) -> str:
        """Describe the scores as JSON text: means over the defined samples, then every sample.

        What is not defined is null.
        """
        errors = {"lmse": self.lmse} | {name: getattr(self, name) for name in _ERRORS}
        result = {
            "metric": "lmse",
            "meaning": "mean LMSE of reflectance and shading (Grosse et al. 2009, eq. 9); 1 is all zeros",
            "better": "lower",
            "score": self.score,
            "samples_scored": int(self.lmse.isfinite().sum()),
            "means": {name: values.nanmean() for name, values in errors.items()},
            "samples": [
                {"id": name, **{error: values[row] for error, values in errors.items()}}
                for row, name in enumerate(self.ids)
            ],
        }
        return json.dumps(to_plain(result), indent=2, allow_nan=False) + "\n"


_ERRORS = tuple(field.name for field in fields(IntrinsicScores) if field.name != "ids")


def score_intrinsic(
    model: IntrinsicModel,
    frames: IntrinsicFrames,
    rows: Rows | None = None,
    device: str | torch.device = "cpu",
    batch_size: int = 16,
) -> IntrinsicScores:
    """Run a model on frames and compare its reflectance and shading with `albedo` and `shading`.

    The model sees the decoded `image`. Shading is compared with `shading` times the set's exposure, and only
    pixels with albedo above 0 count: elsewhere no shading is defined.

    Args:
        model: the model, on ``device``; a `torch.nn.Module` is run in evaluation mode.
        frames: frames of one set with `image`, `albedo` and `shading`, at least 20x20 pixels.
        rows: row numbers to score; all by default.
        device: where the images are put for the model.
        batch_size: images per call of the model.

    Returns:
        The errors of each row, on the CPU.

    Raises:
        InputError: a row that does not exist, missing ground truth, frames smaller than a window of `lmse`,
            a ``batch_size`` below 1, or a model that returns anything but two images like its input.

    Example:
        >>> from evaluation.models.baselines import constant_shading
        >>> from loaders.schema import SetInfo
        >>> class Flat(list):
        ...     set_info = SetInfo(count=1, width=20, height=20, layers=("image",), factors=())
        >>> albedo, white = torch.rand(3, 20, 20).half(), torch.ones(3, 20, 20).half()
        >>> image = (255 * albedo).byte()
        >>> frames = Flat([{"id": "a", "image": image, "albedo": albedo, "shading": white}])
        >>> score_intrinsic(constant_shading, frames).lmse_shading
        tensor([0.])
    """
    if batch_size < 1:
        raise InputError(f"`batch_size` must be at least 1, got {batch_size}")
    chosen = check_rows(len(frames), rows)
    ids: list[str] = []
    errors: list[dict[str, Tensor]] = []
    for start in tqdm(range(0, len(chosen), batch_size), desc="score", unit="batch", disable=None):
        samples = [frames[row] for row in chosen[start : start + batch_size]]
        truth = ground_truth(samples, frames.set_info.exposure)
        ids += [sample["id"] for sample in samples]
        errors.append(_errors(*_predict(model, truth.image.to(device)), truth))
    return IntrinsicScores(
        tuple(ids), **{name: torch.cat([some[name] for some in errors]) for name in _ERRORS}
    )


def score_baselines(frames: IntrinsicFrames, rows: Rows | None = None) -> dict[str, IntrinsicScores]:
    """Score the two trivial decompositions on the same frames, to compare a model with.

    Args:
        frames: see `score_intrinsic`.
        rows: see `score_intrinsic`.

    Returns:
        Scores under the names in `evaluation.models.BASELINES`.

    Raises:
        InputError: see `score_intrinsic`.

    Example:
        >>> from loaders.schema import SetInfo
        >>> class Flat(list):
        ...     set_info = SetInfo(count=1, width=20, height=20, layers=("image",), factors=())
        >>> white = torch.ones(3, 20, 20).half()
        >>> frames = Flat([{"id": "a", "image": (255 * white).byte(), "albedo": white, "shading": white}])
        >>> {name: scores.score for name, scores in score_baselines(frames).items()}
        {'constant reflectance': 0.0, 'constant shading': 0.0}
    """
    return {name: score_intrinsic(model, frames, rows) for name, model in BASELINES.items()}


@torch.no_grad()
def _predict(model: IntrinsicModel, image: Float[Tensor, "batch 3 height width"]) -> tuple[Tensor, Tensor]:
    with evaluating(model):
        output = model(image)
    parts = output if isinstance(output, tuple | list) else (output,)
    shapes = [list(part.shape) if isinstance(part, Tensor) else type(part).__name__ for part in parts]
    if shapes != [list(image.shape)] * 2:
        raise InputError(
            f"the model must return reflectance and shading of shape {list(image.shape)}, got {shapes}; "
            "wrap it so that it does"
        )
    reflectance, shading = parts
    return reflectance.cpu(), shading.cpu()


def _errors(reflectance: Tensor, shading: Tensor, truth: GroundTruth) -> dict[str, Tensor]:
    pairs = {"reflectance": (reflectance, truth.albedo), "shading": (shading, truth.shading)}
    errors = {}
    for name, (prediction, target) in pairs.items():
        errors[f"lmse_{name}"] = lmse(gray(prediction), gray(target), truth.mask)
        errors[f"si_mse_{name}"] = si_mse(prediction, target, truth.mask)
        errors[f"mse_{name}"] = mse(prediction, target, truth.mask)
    return errors
