"""Models of the causal evaluation, with the settings of CANDLE's authors where these used the model."""

import math
from dataclasses import dataclass
from typing import Literal

from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, did_you_mean

CausalModel = Literal[
    "beta-vae",
    "beta-tcvae",
    "dip-vae-i",
    "dip-vae-ii",
    "factor-vae",
    "ss-beta-vae",
    "ss-beta-tcvae",
    "ss-dip-vae-i",
    "ss-dip-vae-ii",
    "ss-factor-vae",
    "ada-gvae",
]
_SEMI_SUPERVISED = "ss-"
# Of the released configuration; of DIP-VAE-II and Ada-GVAE, which it lacks, of the papers of these models.
_WEIGHTS = {
    "beta-vae": {"beta": 10.0},
    "beta-tcvae": {"beta": 10.0},
    "dip-vae-i": {"lambda_od": 10.0, "lambda_d": 100.0},
    "dip-vae-ii": {"lambda_od": 10.0, "lambda_d": 10.0},
    "factor-vae": {"gamma": 4.0},
    "ada-gvae": {"beta": 1.0},
}
_LABELLED = 100
SUPERVISION = 256.0  # 4 for each image of a batch of 64: the released code adds the images, ours averages


@dataclass(frozen=True)
class CausalSettings:
    """A model and how it is trained; `causal_settings` makes it.

    Attributes:
        model: name of the model.
        codes: number of codes.
        steps: number of steps.
        batch_size: images of a step, drawn with replacement; pairs of images for "ada-gvae".
        rate: learning rate of Adam, constant.
        labelled: number of labelled images of a semi-supervised model; 0 for other models.
        foreground: additional weight of the foreground in the reconstruction, if masks or boxes are given.
        weights: weights of the terms of the loss, by the symbol of their paper.
    """

    model: CausalModel
    codes: int
    steps: int
    batch_size: int
    rate: float
    labelled: int
    foreground: float
    weights: dict[str, float]

    @property
    def unsupervised(self) -> str:
        """Name of the model without its labels."""
        return self.model.removeprefix(_SEMI_SUPERVISED)

    @property
    def needs_factors(self) -> bool:
        """Whether the training reads factors, to label images or to draw pairs."""
        return self.labelled > 0 or self.model == "ada-gvae"

    def term_weights(self) -> dict[str, float]:
        """Return the weight of each term of the loss, by name.

        Example:
            >>> causal_settings("beta-tcvae").term_weights()
            {'reconstruction': 1.0, 'kl': 1.0, 'total correlation': 9.0}
        """
        weights, model = self.weights, self.unsupervised
        found = {"reconstruction": 1.0, "kl": weights["beta"] if model in ("beta-vae", "ada-gvae") else 1.0}
        if model == "beta-tcvae":
            found["total correlation"] = weights["beta"] - 1
        if model == "factor-vae":
            found["total correlation"] = weights["gamma"]
        if model.startswith("dip-vae"):
            found["covariance"] = 1.0  # whose parts have weights of their own
        if "supervision" in weights:
            found["supervision"] = weights["supervision"]
        return found


def causal_settings(
    model: CausalModel,
    *,
    codes: int = 64,
    steps: int = 30_000,
    batch_size: int = 64,
    rate: float = 1e-4,
    labelled: int | None = None,
    foreground: float = 2.0,
    **weights: float,
) -> CausalSettings:
    """Take the settings of CANDLE's authors for a model, some of them replaced.

    Models: "beta-vae" (`gaussian_kl`), "beta-tcvae" (`total_correlation`), "dip-vae-i" and "dip-vae-ii"
    (`dip_penalty`), "factor-vae" (`density_ratio`), each also with a few labels as "ss-..."
    (`supervised_codes_loss`), and "ada-gvae" (`share_posterior`), which learns from pairs of images.

    Args:
        model: name of the model.
        codes: number of codes.
        steps: number of steps.
        batch_size: images of a step, at least 2.
        rate: learning rate of Adam.
        labelled: number of labelled images of a semi-supervised model; None for 100.
        foreground: additional weight of the foreground, if masks or boxes are given.
        weights: weights of the loss: ``beta``, ``gamma``, ``lambda_od``, ``lambda_d``, ``supervision``, if
            the model has them.

    Raises:
        InputError: there is no such model, the model has no such weight or no labels, or a number is out of
            range.

    Example:
        >>> causal_settings("dip-vae-i", steps=1000, lambda_od=5).weights
        {'lambda_od': 5, 'lambda_d': 100.0}
        >>> causal_settings("ss-factor-vae").weights
        {'gamma': 4.0, 'supervision': 256.0}
        >>> causal_settings("beta-vae", gamma=4)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `gamma`: beta-vae has no such weight; expected beta
    """
    check_choice("model", model, CausalModel)
    supervised = model.startswith(_SEMI_SUPERVISED)
    if labelled is not None and not supervised:
        raise InputError(f"`labelled`: {model} has no labels; the models {_SEMI_SUPERVISED} have some")
    labels = _LABELLED if labelled is None else labelled
    for name, count, least in (
        ("codes", codes, 1),
        ("steps", steps, 1),
        ("batch_size", batch_size, 2),
        ("labelled", labels, 1),
    ):
        if count < least:
            raise InputError(f"`{name}` must be at least {least}, got {count}")
    if not 0 < rate < math.inf:
        raise InputError(f"`rate` must be above 0 and finite, got {rate}")
    known = dict(_WEIGHTS[model.removeprefix(_SEMI_SUPERVISED)])
    known |= {"supervision": SUPERVISION} if supervised else {}
    for name, value in {"foreground": foreground, **weights}.items():
        if name not in (*known, "foreground"):
            names = ", ".join(known)
            raise InputError(
                f"`{name}`: {model} has no such weight; expected {names}{did_you_mean(name, known)}"
            )
        if not 0 <= value < math.inf:
            raise InputError(f"`{name}` must be at least 0 and finite, got {value}")
    return CausalSettings(
        model, codes, steps, batch_size, rate, labels if supervised else 0, foreground, known | weights
    )
