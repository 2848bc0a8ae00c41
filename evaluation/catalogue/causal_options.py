"""Options of the causal evaluations; the docstring of each class is the help of its command."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from candlelight.evaluation.catalogue.record import At, Files, Help
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
    """

    files: ClassVar[Files] = CODES_FILES
    layers: _Layers = ()
    metrics: Annotated[
        _Metrics,
        Help(
            "Metric; repeatable. `dci`, scikit-learn's gradient boosting of at most 10 codes, takes minutes. "
            "Explicitness, infomec, dci_es and the classes of sap fit on the CPU.  [default: all but dci]",
            flag="metric",
        ),
    ] = ()
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
    classifiers: Annotated[
        tuple[Path, ...],
        Help(
            "Weights of a classifier of one factor; repeatable.  [default: a network trained here]",
            "FILE",
            "classifier",
        ),
    ] = ()


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

    counterfactuals: Annotated[
        str | None,
        Help(
            "Images among which rendered counterfactuals are found: a set of DATA, a path, or PATH:SET.",
            "SOURCE",
            default="DATA, before --selection",
        ),
    ] = None


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
        Help("Metric beside irs and unconfoundedness; repeatable.  [default: all but dci]", flag="metric"),
    ] = ()
    counterfactuals: Annotated[
        str | None,
        Help(
            "Images among which rendered counterfactuals are found: a set of DATA, a path, or PATH:SET.",
            "SOURCE",
            default="all of DATA",
        ),
    ] = None
