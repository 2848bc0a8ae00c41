"""Options of the trainings, without torch.

Each class has the options of a function of `candlelight.evaluation.training`. The classes whose names end
with Command add those of ``candlelight train``, and their docstrings are its help.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from candlelight.evaluation.catalogue.record import At, Help
from candlelight.loaders.errors import InputError

Regime = Literal["supervised", "multi-illumination", "unsupervised"]
BackboneName = Literal[
    "vgg19", "vgg19_bn", "densenet121", "resnet50", "vgg_small", "densenet_small", "resnet_small"
]
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
CAUSAL_MODELS: tuple[CausalModel, ...] = get_args(CausalModel)
CodeCount = Annotated[int, At(least=1, most=1024), Help("Number of codes.")]
TrainingSteps = Annotated[int, At(least=1), Help("Steps of a training.")]
LabelCount = Annotated[
    int | None, At(least=1), Help("Number of labelled images of a model ss-.", default="100")
]
SquareSide = Annotated[
    Literal["32", "64"] | None, Help("Side in pixels of the squares to which images are resized.")
]

ConceptMode = Literal["desensitise", "sensitise", "one-sided"]

Epochs = Annotated[int, At(least=1), Help("Passes over the images.")]
Rate = Annotated[float, At(above=0), Help("Largest learning rate.")]
HeldOut = Annotated[float, At(least=0, most=0.9)]


@dataclass(frozen=True, kw_only=True)
class RegimeTraining:
    """Options of every training of an intrinsic image network.

    Attributes:
        regime: "supervised"; "multi-illumination", which reads only images, of scenes under several lights;
            or "unsupervised", which reads the images, and reflectance and shading of other scenes.
        epochs: passes over the training rows.
        batch_size: images per step.
        lights: most images of one scene in a step.
        rate: largest learning rate; with twice the default the output may become constant.
    """

    regime: Annotated[
        Regime,
        Help(
            "Supervision: the truth of each image; nothing but scenes under several lights; or reflectances "
            "and shadings of other scenes."
        ),
    ] = "supervised"
    epochs: Epochs = 20
    batch_size: Annotated[int, At(least=1), Help("Images in a step.")] = 6
    lights: Annotated[int, At(least=1), Help("Most images of a scene in a step.")] = 2
    rate: Rate = 3e-3


@dataclass(frozen=True, kw_only=True)
class IntrinsicTraining(RegimeTraining):
    """Options of `candlelight.evaluation.training.train_intrinsic`, beside those of `RegimeTraining`.

    Attributes:
        width: channels of the network at full resolution, see `IntrinsicNet`.
    """

    width: Annotated[int, At(least=1, most=256), Help("Channels of the network at full resolution.")] = 10


@dataclass(frozen=True, kw_only=True)
class ConceptTuning(RegimeTraining):
    """Options of `candlelight.evaluation.training.fine_tune`, beside those of `RegimeTraining`.

    Attributes:
        epochs: passes over the data.
        rate: learning rate, constant.
        mode: "desensitise", "sensitise" or "one-sided", see `concept_loss`.
        weight: weight of the concept loss; 0 trains with the original loss alone, as a control.
        probed: "pixels" or "prototypes", see `fine_tune`; "pixels" reads the ground truth under every regime.
        refit: epochs between two fits of the vectors and prototypes.
        runs: classifiers for each vector.
        prototypes: number of prototypes; unused by "pixels".
    """

    epochs: Epochs = 4
    rate: Rate = 3e-4
    mode: ConceptMode = "desensitise"
    weight: Annotated[float, At(least=0)] = 1.0
    probed: Literal["pixels", "prototypes"] = "pixels"
    refit: Annotated[int, At(least=1)] = 1
    runs: Annotated[int, At(least=1)] = 10
    prototypes: Annotated[int, At(least=1)] = 7


@dataclass(frozen=True, kw_only=True)
class IntrinsicCommand(IntrinsicTraining):
    """Train a small network to decompose images into reflectance and shading.

    A scene is a group of rows of DATA: a unit of frames, an object of mit, a scene of arap or hypersim.

    \b
    candlelight render relit --out relit
    candlelight train intrinsic relit --set train --regime multi-illumination --out net.pt --report net.html
    candlelight evaluate lmse relit --set test --model net.pt --model retinex
    """

    size: Annotated[
        int | None,
        At(least=8),
        Help("Longer side in pixels to which larger images are scaled down; on a CPU choose 64 to 128."),
    ] = None
    validation: Annotated[
        HeldOut, Help("Share of the scenes that are held out and scored after each epoch.")
    ] = 0.1
    half: Annotated[bool, Help("Store the weights with 16 bits.")] = False
    page: Annotated[
        Path | None,
        Help(
            "HTML file for a page of learning curves, scores and pictures of the held-out images.",
            flag="report",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LabelTraining:
    """Options of `candlelight.evaluation.training.train_factor_heads`.

    Attributes:
        epochs: passes over the training rows.
        batch_size: most images of a step, at least 2.
        rate: largest learning rate.
    """

    epochs: Epochs = 20
    batch_size: Annotated[int, At(least=2), Help("Images in a step.")] = 32
    rate: Annotated[float, At(above=0), Help("Largest learning rate; with --weights about 1e-4.")] = 3e-3


@dataclass(frozen=True, kw_only=True)
class ClassifierTraining(LabelTraining):
    """Options of `candlelight.evaluation.training.train_classifier`.

    Attributes:
        epochs: passes over the training rows.
        batch_size: most images of a step, at least 2.
        rate: largest learning rate. For public weights, and for VGG19 without batch normalisation, take about
            1e-4.
        required: least accuracy of the held-out images after the last epoch, in [0, 1]; None for any.
    """

    required: Annotated[
        float | None,
        At(least=0, most=1),
        Help(
            "Least accuracy of the held-out images; below it the command fails and writes no weights.",
            flag="require",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ClassifierCommand(ClassifierTraining):
    """Train a network to predict a factor of images, such as the kind of the object.

    The trained network is a classifier whose predictions can be explained. DATA needs factors: frames, packs,
    cub70:PATH (label species), celebamask:PATH (40 attributes, such as Male), dsprites:PATH, mpi3d:PATH,
    shapes3d:PATH or candle:PATH.

    \b
    candlelight render parts --out parts
    candlelight train classifier parts --label kind --size 64 --require 0.9 --out kinds.pt
    candlelight train classifier cub70:CUB --split train --label species --backbone resnet50 --size 224 \\
        --weights resnet50.pth --rate 1e-4 --out birds.pt
    """

    label: Annotated[str, Help("Categorical factor of the images whose value is the class.")]
    backbone: Annotated[
        BackboneName,
        Help("Network; the small ones are for images of 64 to 96 pixels, the others for 224 pixels."),
    ] = "resnet_small"
    weights: Annotated[
        Path | None,
        Help(
            "File of public weights to start from; its last layer is replaced if the number of classes "
            "differs."
        ),
    ] = None
    size: Annotated[
        int | None,
        At(least=32),
        Help(
            "Side in pixels of the squares to which all images are resized, as by evaluate coverage --size "
            "SIDE SIDE; for small networks choose 64 to 96. Needed if images have several sizes."
        ),
    ] = None
    validation: Annotated[
        HeldOut,
        Help("Share of the groups of images that are held out, to measure the accuracy after each epoch."),
    ] = 0.1


# Of the released configuration; of DIP-VAE-II and Ada-GVAE, which it lacks, of the papers of these models.
_WEIGHTS = {
    "beta-vae": {"beta": 10.0},
    "beta-tcvae": {"beta": 10.0},
    "dip-vae-i": {"lambda_od": 10.0, "lambda_d": 100.0},
    "dip-vae-ii": {"lambda_od": 10.0, "lambda_d": 10.0},
    "factor-vae": {"gamma": 4.0},
    "ada-gvae": {"beta": 1.0},
}
_LABELS, _FOREGROUND = 100, 2.0
SUPERVISION = 256.0  # 4 for each image of a batch of 64: the released code adds the images, ours averages
_SEMI_SUPERVISED = "ss-"


@dataclass(frozen=True, kw_only=True)
class CausalTraining:
    """Options of `candlelight.evaluation.training.train_causal`; the defaults are those of CANDLE's authors.

    Models: "beta-vae" (`gaussian_kl`), "beta-tcvae" (`total_correlation`), "dip-vae-i" and "dip-vae-ii"
    (`dip_penalty`), "factor-vae" (`density_ratio`), each also with a few labels as "ss-..."
    (`supervised_codes_loss`), and "ada-gvae" (`share_posterior`), which learns from pairs of images.

    Attributes:
        model: name of the model.
        codes: number of codes.
        steps: number of steps.
        batch_size: images of a step, drawn with replacement; pairs of images for "ada-gvae".
        rate: learning rate of Adam, constant.
        labelled: number of labelled images of a semi-supervised model; None for 100.
        foreground_weight: additional weight of the foreground in the reconstruction, if masks or boxes are
            given; None for 2.
        beta: weight of the divergence, or of the total correlation in "beta-tcvae". None for the default of
            the model, as for the other weights.
        gamma: weight of the total correlation.
        lambda_od: weight of the covariances.
        lambda_d: weight of the variances.
        supervision: weight of the labels.

    Raises:
        InputError: the model has no such weight, or no labels.

    Example:
        >>> CausalTraining(model="dip-vae-i", steps=1000, lambda_od=5).weights
        {'lambda_od': 5, 'lambda_d': 100.0}
        >>> CausalTraining(model="ss-factor-vae").weights
        {'gamma': 4.0, 'supervision': 256.0}
        >>> CausalTraining(model="beta-vae", gamma=4)
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `gamma`: beta-vae has no such weight; expected beta
    """

    model: Annotated[CausalModel, Help("Model; ss- learns from a few labels.")]
    codes: CodeCount = 64
    steps: TrainingSteps = 30_000
    batch_size: Annotated[int, At(least=2), Help("Images in a step.")] = 64
    rate: Annotated[float, At(above=0), Help("Learning rate.")] = 1e-4
    labelled: LabelCount = None
    foreground_weight: Annotated[
        float | None,
        At(least=0),
        Help(
            "Additional weight of --foreground; the paper's unsupervised model has 100.",
            default="2",
        ),
    ] = None
    beta: Annotated[
        float | None,
        At(least=0),
        Help(
            "Weight of the divergence (beta-vae, ada-gvae), or of the total correlation (beta-tcvae).",
            default="10; ada-gvae 1",
        ),
    ] = None
    gamma: Annotated[
        float | None, At(least=0), Help("Weight of the total correlation (factor-vae).", default="4")
    ] = None
    lambda_od: Annotated[
        float | None, At(least=0), Help("Weight of the covariances (dip-vae).", default="10")
    ] = None
    lambda_d: Annotated[
        float | None, At(least=0), Help("Weight of the variances (dip-vae).", default="100; dip-vae-ii 10")
    ] = None
    supervision: Annotated[
        float | None,
        At(least=0),
        Help("Weight of the labels, of which the mean over images counts (ss-).", default="256"),
    ] = None

    def __post_init__(self) -> None:
        """Refuse weights and labels that the model does not have."""
        if self.labelled is not None and not self.supervised:
            raise InputError(
                f"`labelled`: {self.model} has no labels; the models {_SEMI_SUPERVISED} have some"
            )
        known = self.weights
        for name in ("beta", "gamma", "lambda_od", "lambda_d", "supervision"):
            if getattr(self, name) is not None and name not in known:
                raise InputError(f"`{name}`: {self.model} has no such weight; expected {', '.join(known)}")

    @property
    def unsupervised(self) -> str:
        """Name of the model without its labels."""
        return self.model.removeprefix(_SEMI_SUPERVISED)

    @property
    def supervised(self) -> bool:
        """Whether the model learns from labels."""
        return self.model.startswith(_SEMI_SUPERVISED)

    @property
    def labels(self) -> int:
        """Number of labelled images; 0 for a model without labels."""
        return (self.labelled or _LABELS) if self.supervised else 0

    @property
    def extra(self) -> float:
        """Additional weight of the foreground."""
        return _FOREGROUND if self.foreground_weight is None else self.foreground_weight

    @property
    def needs_factors(self) -> bool:
        """Whether the training reads factors, to label images or to draw pairs."""
        return self.supervised or self.model == "ada-gvae"

    @property
    def weights(self) -> dict[str, float]:
        """Weights of the loss, by the symbol of their paper."""
        known = _WEIGHTS[self.unsupervised] | ({"supervision": SUPERVISION} if self.supervised else {})
        given = {name: getattr(self, name) for name in known}
        return {name: known[name] if value is None else value for name, value in given.items()}

    def settings(self) -> dict[str, object]:
        """Return all numbers that the weights of the network depend on, with the defaults of the model."""
        used = {name: getattr(self, name) for name in ("model", "codes", "steps", "batch_size", "rate")}
        return used | {
            "labelled": self.labels,
            "foreground": self.extra,
            "weights": self.weights,
        }

    def term_weights(self) -> dict[str, float]:
        """Return the weight of each term of the loss, by name.

        Example:
            >>> CausalTraining(model="beta-tcvae").term_weights()
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
        if self.supervised:
            found["supervision"] = weights["supervision"]
        return found


@dataclass(frozen=True, kw_only=True)
class CausalCommand(CausalTraining):
    """Train an autoencoder, whose codes the causal metrics score.

    Defaults are those of CANDLE's authors; of dip-vae-ii and ada-gvae those of the papers of these models.

    DATA needs factors and images of 32 or 64 pixels (--size): frames, packs, candle:PATH, dsprites:PATH,
    mpi3d:PATH or shapes3d:PATH. The models ss- learn the factors of a few images; ada-gvae learns from pairs
    of images that share some factors; the others use none, but the codes are scored by them.

    \b
    candlelight render candle --set image.width=64 --set image.height=64 --out candle
    candlelight train causal candle --model beta-vae --codes 10 --steps 1000 --out beta.pt
    candlelight train causal candle --model ss-factor-vae --foreground mask --out factor.pt
    candlelight evaluate codes candle --model beta.pt --model factor.pt
    """

    size: SquareSide = None
    kind: Annotated[
        Literal["none", "box", "mask"],
        Help(
            "Region whose reconstruction weighs more: the bounding box or the mask of the objects.",
            flag="foreground",
        ),
    ] = "none"
    validation: Annotated[
        HeldOut, Help("Share of the groups of images that are held out, to measure the reconstruction.")
    ] = 0.1
    workers: Annotated[
        int,
        At(least=0),
        Help("Processes that read images ahead; useful if the images do not fit into 2 GiB."),
    ] = 0
    page: Annotated[
        Path | None,
        Help("HTML file for a page of learning curves and reconstructed images.", flag="report"),
    ] = None

    def __post_init__(self) -> None:
        """Refuse a weight of no region."""
        super().__post_init__()
        if self.kind == "none" and self.foreground_weight is not None:
            raise InputError("--foreground-weight: give the region, too (--foreground box or mask)")
