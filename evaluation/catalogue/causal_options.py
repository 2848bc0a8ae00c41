"""Options of the causal evaluations; the docstring of each class is the help of its command."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from candlelight.evaluation.catalogue.record import MODELS, At, Files, Help, Models
from candlelight.evaluation.catalogue.training_options import (
    CausalModel,
    CodeCount,
    LabelCount,
    SquareSide,
    TrainingSteps,
)

CODES_FILES = Files(
    "codes",
    "File (.npz, .parquet or .npy) with the codes of all images",
    "candlelight.evaluation.run.predictions:open_codes",
    may_fail=False,
)
ESTIMATES = Models(
    "estimates",
    "CSV file with the columns effect,low,high, estimates of another program, a row a replicate; repeatable.",
    "candlelight.evaluation.causal.score_effects:open_estimates",
)
CodeMetricName = Literal[
    "irs",
    "unconfoundedness",
    "mig",
    "modularity",
    "infomec",
    "minimality",
    "sap",
    "explicitness",
    "mcc",
    "r2",
    "t_mex",
    "dci_es",
    "dci_fast",
    "dci",
    "blocks",
    "all",
]
Baseline = Literal["farthest", "mean", "zero"]
DiscoveryName = Literal["pc", "ges"]
_Compare = Literal["auto", "dag", "cpdag"]
_Hidden = Literal["refuse", "bidirected"]
_Match = Literal["pearson", "spearman"]
_Test = Literal["auto", "fisher-z", "ranks", "chi2", "kci"]
_Factors = Annotated[
    tuple[str, ...], Help("Factor by its name; repeatable.  [default: all that vary]", "NAME", "factor")
]
_Sizes = Annotated[
    str | None,
    Help(
        "Of MPI3D, number of values of each factor in a file with only the first ones, such as "
        "6,6,2,3,3,40,40.",
        "N,N,...",
    ),
]
_Layers = Annotated[
    tuple[str, ...], Help("Hidden layer whose channel means are the codes; repeatable.", flag="layer")
]
_Metrics = tuple[CodeMetricName, ...]
_Classifiers = Annotated[
    tuple[Path, ...],
    Help(
        "Weights of a classifier of one factor; repeatable.  [default: a network trained here]",
        "FILE",
        "classifier",
    ),
]
_Counterfactuals = Annotated[
    str | None,
    Help(
        "Images among which counterfactuals of DATA are found: a set of DATA, a path, or PATH:SET.  "
        "[default: DATA before --selection]",
        "SOURCE",
    ),
]


@dataclass(frozen=True, kw_only=True)
class FactorDataOptions:
    """Options of the images and factors that all causal evaluations share."""

    factors: _Factors = ()
    selection: Annotated[
        str | None,
        Help(
            "Of a full grid, keep the images of a paper's confounded set: candle-published, candle-color, "
            "candle-size, dsprites or mpi3d; a STRENGTH below 1 keeps more.",
            "NAME[:STRENGTH]",
        ),
    ] = None
    size: Annotated[
        int | None,
        At(least=1),
        Help("Side in pixels of the squares to which images are resized, such as 64 for a model of 64."),
    ] = None
    sizes: _Sizes = None
    bins: Annotated[int, At(least=2), Help("Classes of a continuous factor.")] = 20
    seed: Annotated[int, At(least=0, most=2**63 - 1), Help("Seed of all draws.")] = 0


@dataclass(frozen=True, kw_only=True)
class CodesOptions(FactorDataOptions):
    """Measure how codes represent the factors of images, with random and supervised codes beside.

    DATA are images with factors, or for --codes alone a table of factors, .csv, .parquet or .npz: a column
    for each factor, and id and group. Names NAME#1, NAME#2 are seeds of one method, whose mean and interval
    over seeds are printed too.

    \b
    candlelight evaluate codes demo/frames --set candle --model demo/study/network.pt --layer encoder.3
    candlelight evaluate codes demo/frames --set candle --factor color --factor lights --codes codes.npz
    candlelight evaluate codes frames --set candle --selection candle-color:0.9 --model vae.pt --metric irs
    candlelight evaluate codes factors.csv --codes vae#0=a.npz --codes vae#1=b.npz
    candlelight evaluate codes toys --model vae.pt --metric blocks --block color=0,1 --block object_type=2
    candlelight evaluate codes toys --model vae.pt --metric irs --counterfactuals what-if:toys_counterfactual
    """

    files: ClassVar[Files] = CODES_FILES
    layers: _Layers = ()
    metrics: Annotated[
        _Metrics,
        Help(
            "Metric; repeatable. `dci`, scikit-learn's gradient boosting of at most 10 codes, takes minutes. "
            "Explicitness, infomec, dci_es, blocks and the classes of sap fit on the CPU.  [default: all but "
            "dci and blocks]",
            flag="metric",
        ),
    ] = ()
    blocks: Annotated[
        tuple[str, ...],
        Help(
            "Of the metric blocks, the codes that are meant for a factor, such as color=0,1,2; repeatable. "
            "Other codes belong to no factor.  [default: found for each model on the images to fit on]",
            "FACTOR=CODE,...",
            "block",
        ),
    ] = ()
    counterfactuals: Annotated[
        str | None,
        Help(
            "Counterfactuals of DATA, for the score irs_do: a set of DATA, a path, PATH:SET, or for --codes "
            "a table of factors.  [default: none, and no irs_do]",
            "SOURCE",
        ),
    ] = None
    controls: Annotated[
        bool,
        Help("Leave out random codes, the factors themselves, and codes of a network that is trained here."),
    ] = True
    splits: Annotated[
        int, At(least=2), Help("Random halves of the images for metrics that fit something.")
    ] = 5


@dataclass(frozen=True, kw_only=True)
class GraphOptions(FactorDataOptions):
    """Compare causal graphs, of other programs or found on codes, with the graph that DATA were made by.

    FILE is an adjacency, .npy or .npz, or .json with nodes and edges; nodes are factors, or codes, which are
    matched with the factors one to one. --discover finds graphs by causal-learn on the codes of each --model
    and --codes, and on the true factors. Empty, full, reversed and random graphs are the controls.

    \b
    candlelight evaluate graph identifiable --set causal --graph notears=weights.npy --threshold 0.3
    candlelight evaluate graph identifiable --set causal --model vae.pt --discover pc --discover ges
    candlelight evaluate graph factors.csv --truth graph.json --graph mine#0=a.json --graph mine#1=b.json
    """

    files: ClassVar[Files] = CODES_FILES
    layers: _Layers = ()
    graphs: Annotated[tuple[str, ...], Help("Estimated graph; repeatable.", "[NAME=]FILE", "graph")] = ()
    truth: Annotated[object, Help("True graph, a file as of --graph.", "FILE", default="that of DATA")] = None
    discover: Annotated[tuple[DiscoveryName, ...], Help("Find graphs by causal-learn; repeatable.")] = ()
    compare: Annotated[_Compare, Help("Graphs to compare; auto: CPDAGs if an edge is undirected.")] = "auto"
    hidden: Annotated[_Hidden, Help("Hidden common causes: refuse, or make edges of them.")] = "refuse"
    threshold: Annotated[float | None, At(least=0), Help("Size above which a weight is an edge.")] = None
    match: Annotated[_Match, Help("Correlation that matches codes with factors.")] = "pearson"
    test: Annotated[_Test, Help("Test; auto: fisher-z, of classes chi2, of both ranks.")] = "auto"
    alpha: Annotated[float, At(above=0, below=1), Help("Level of the tests of PC.")] = 0.05
    resamples: Annotated[int, At(least=20), Help("Subsamples for intervals of --discover.")] = 50


@dataclass(frozen=True, kw_only=True)
class GenerativenessOptions(FactorDataOptions):
    """Measure whether the codes of a factor, and no others, change it in decoded images (CG).

    Counterfactual generativeness of Reddy et al. 2022, for models with a method `decode`. As many codes
    chosen at random are the control. Factors that no classifier tells are left out: a small network is
    trained here on half of the images, or `train classifier` has made one for each --classifier.

    \b
    candlelight evaluate generativeness candle --model beta.pt --model factor.pt --report cg.html
    candlelight evaluate generativeness candle --model beta.pt --classifier color.pt --classifier scene.pt
    """

    baseline: Annotated[Baseline, Help("Value that interventions give to codes.")] = "farthest"
    classifiers: _Classifiers = ()


@dataclass(frozen=True, kw_only=True)
class CounterfactualsOptions(FactorDataOptions):
    """Compare decoded with rendered counterfactuals, for models with a method `decode`.

    The codes of one factor take their values for an image with another value of the factor; the decoded
    image is compared with the rendered one, which differs in this factor alone. Other codes at random, the
    image given back, the mean image and the nearest other frame are the controls.

    \b
    candlelight evaluate counterfactuals candle --model beta.pt --model factor.pt --report decoded.html
    candlelight evaluate counterfactuals toys --model beta.pt --counterfactuals what-if:toys_counterfactual
    """

    counterfactuals: _Counterfactuals = None


@dataclass(frozen=True, kw_only=True)
class AxiomsOptions(FactorDataOptions):
    """Measure models of counterfactual images by effectiveness, composition and reversibility.

    The axioms of Monteiro et al. 2023: does a classifier see the new class of a factor and the old ones of
    others, does an intervention that changes nothing leave the image as it is, and does the way back lead to
    it? A model takes images [batch, 3, height, width], their factors [batch, factors] and the new ones, as
    numbers of classes from 0, and returns images; of a model with a method `decode` one code takes its value
    for another image. The rendered counterfactual, the image given back, the mean image and the nearest other
    frame are the controls.

    \b
    candlelight evaluate axioms candle --model mine.py:counterfactual --model beta.pt --report axioms.html
    candlelight evaluate axioms toys --model beta.pt --counterfactuals what-if:toys_counterfactual --cycles 3
    """

    models: ClassVar[Models] = Models(
        "model",
        "Model of counterfactual images, file.py:callable or package.module:callable, or weights of an "
        "autoencoder; repeatable.",
        MODELS.opens,
    )
    counterfactuals: _Counterfactuals = None
    classifiers: _Classifiers = ()
    cycles: Annotated[int, At(least=1), Help("Cycles of the repeated composition and reversibility.")] = 10


@dataclass(frozen=True, kw_only=True)
class EffectsOptions:
    """Score estimates of the effect of do(X = B) against do(X = A) on Y by rendered interventions.

    DATA are frames, a pack or a plan (.parquet) with an observed set and a set under each intervention. Y is
    a factor, a hidden variable or a number of the image. Replicate k of R has the rows k, k + R, k + 2 R, ...
    of the observed set. Naive, ipw and doubly robust estimates are scored beside; controls are the difference
    of means in rows of both interventions (oracle), and the effect 0.

    \b
    candlelight evaluate effects toys --set observed --treatment color --values blue,red --outcome size
    candlelight evaluate effects rooms --set observed --treatment lamp --values dim,bright \\
        --outcome luminance --adjust floor --estimates mine=estimates.csv
    """

    models: ClassVar[Models] = ESTIMATES
    treatment: Annotated[str, Help("Categorical factor or variable X that is intervened on.", "X")]
    values: Annotated[str, Help("Its two values; the effect is that of B against A.", "A,B")]
    outcome: Annotated[
        str,
        Help("Factor or variable Y; or luminance, or file.py:callable from images to numbers [batch].", "Y"),
    ]
    adjust: Annotated[tuple[str, ...], Help("Factor or variable to adjust for; repeatable.", "NAME")] = ()
    interventions: Annotated[str | None, Help("Sets of A and B.", "SET,SET", default="found by do(X)")] = None
    truth: Annotated[str | None, Help("Plan with more draws of both sets, for the truth.", "PLAN")] = None
    replicates: Annotated[int, At(least=2), Help("Equal parts of the observed rows.")] = 20
    estimate_propensities: Annotated[bool, Help("Estimate propensities even where they are recorded.")] = (
        False
    )

    @property
    def compared(self) -> tuple[str, ...]:
        """The two values, A first."""
        return tuple(text.strip() for text in self.values.split(","))


@dataclass(frozen=True, kw_only=True)
class CausalTableOptions:
    """Train, score and print a table of the CANDLE supplement, with the published values beside.

    Tables 2 (toys), 3 and 11 (MPI3D), 4, 5 and 7 (CANDLE), 9 (dSprites). Values are means over seeds with
    95 % intervals; random codes, the factors as codes, and supervised codes are controls. All scores are in
    OUT/table-NUMBER.json. Models are trained on the images that are scored.

    \b
    candlelight render candle --set image.width=64 --set image.height=64 --out candle
    candlelight evaluate causal-table candle --table 5 --seeds 3 --steps 1000 --codes 10 --out results
    candlelight evaluate causal-table mpi3d:mpi3d --table 11 --images 10000 --out mpi3d-results
    """

    table: Annotated[Literal["2", "3", "4", "5", "7", "9", "11"], Help("Table of the supplement.")]
    models: Annotated[
        tuple[CausalModel, ...],
        Help("Model to train; repeatable.  [default: those of the table, and ada-gvae]", flag="model"),
    ] = ()
    seeds: Annotated[int, At(least=1), Help("Trainings of each model.")] = 3
    steps: TrainingSteps = 30_000
    codes: CodeCount = 64
    labelled: LabelCount = None
    size: SquareSide = None
    sizes: _Sizes = None
    images: Annotated[int | None, At(least=2), Help("Most images, evenly spaced.", default="all")] = None
    factors: Annotated[
        tuple[str, ...],
        Help("Factor to score; repeatable.  [default: those of the table]", "NAME", "factor"),
    ] = ()
    metrics: Annotated[
        _Metrics,
        Help(
            "Metric beside irs and unconfoundedness; repeatable.  [default: all but dci and blocks]",
            flag="metric",
        ),
    ] = ()
    counterfactuals: _Counterfactuals = None
