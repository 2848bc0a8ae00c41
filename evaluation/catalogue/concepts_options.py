"""Options of the evaluations of concepts; the docstring of each class is the help of its command."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from candlelight.evaluation.catalogue.intrinsic_options import PREDICTIONS
from candlelight.evaluation.catalogue.record import At, Files, Help

SECONDARY = "SET (of DATA), PATH[:SET[:SPLIT]] or LAYOUT:PATH[:SPLIT]"
Classifier = Literal["svm", "logistic", "ridge", "mean", "sgd"]
SetTest = Literal["t-test", "permutation"]
Level = Annotated[float, At(above=0, below=1), Help("Level of the tests.")]


@dataclass(frozen=True, kw_only=True)
class ConceptOptions:
    """Options of all evaluations by concept activation vectors."""

    negatives: Annotated[
        str | None,
        Help(
            f"Unrelated images: {SECONDARY}, a folder of images, or hf:NAME.",
            default="the set negatives of DATA",
        ),
    ] = None
    negatives_limit: Annotated[int, At(least=4), Help("Use only the first N negatives.")] = 500
    size: Annotated[
        tuple[int, int] | None,
        At(least=1),
        Help(
            "Size in pixels to which all images are resized; needed if they have several sizes.",
            metavar="HEIGHT WIDTH",
        ),
    ] = None
    runs: Annotated[int, At(least=2), Help("Concept activation vectors of each set of images.")] = 100
    classifier: Annotated[
        Classifier, Help("Classifier whose normal is the vector (docs/concepts.md); random vectors too.")
    ] = "svm"
    regularisation: Annotated[
        float,
        At(above=0),
        Help("Penalty of the vector, relative to the mean squared distance of activations from their mean."),
    ] = 0.01
    permutations: Annotated[
        int,
        At(least=2),
        Help("Exchanges of images in the permutation test; the smallest p-value is 1 / (N + 1)."),
    ] = 999
    seed: Annotated[int, Help("Seed of all random draws.")] = 0
    memory: Annotated[
        int | None,
        At(least=0),
        Help(
            "MiB of activations of one layer that stay in memory; more go to a temporary file (TMPDIR).",
            default="128, or 1/16 of the free memory of a GPU",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class CSMOptions(ConceptOptions):
    """Measure whether reflectance follows albedo and shading follows illumination: CSM_S and CSM_R.

    --set names the test frames; the gradients of the loss are computed on them. Their ground truth is needed.

    \b
    candlelight evaluate csm demo/frames --set tabletop_test --model retinex
    candlelight evaluate csm demo/frames --set tabletop_test --model retinex --classifier mean --runs 50
    candlelight evaluate csm demo/frames --set tabletop_test --model retinex \\
        --significance permutation --control albedo=controls:albedo_pose \\
        --control illumination=controls:illumination_pose
    candlelight evaluate csm demo/frames --set tabletop_test --model demo/study/network.pt \\
        --layer reflectance.blocks.1,shading.blocks.1 --layer "encoder.?"
    """

    files: ClassVar[Files] = replace(PREDICTIONS, may_fail=False)
    albedo: Annotated[
        str, Help(f"Concept sets in which only albedo varies: {SECONDARY}; `none` skips CSM_S.")
    ] = "albedo"
    illumination: Annotated[
        str, Help(f"Concept sets in which only illumination varies: {SECONDARY}; `none` skips CSM_R.")
    ] = "illumination"
    control: Annotated[
        tuple[str, ...],
        Help(
            "Sets of the same scenes in which neither concept varies, for CONCEPT albedo or illumination: "
            f"{SECONDARY}. Scores against them stand beside those against the negatives.",
            metavar="CONCEPT=SOURCE",
        ),
    ] = ()
    planted: Annotated[
        bool,
        Help("Score decompositions with known faults beside the models, made of the truth of all images."),
    ] = False
    layer: Annotated[
        tuple[str, ...],
        Help(
            "Hidden layer to read, a pattern such as encoder.?, or REFLECTANCE,SHADING for one of each "
            "branch; several are scored one after the other.",
            metavar="NAME",
            default="the output",
        ),
    ] = ()
    max_sets: Annotated[
        int | None,
        At(least=1),
        Help("Largest number of concept sets of each kind, drawn at random.", default="all"),
    ] = None
    significance: Annotated[
        SetTest,
        Help(
            "Test that decides whether a set is significant: the paper's, which finds far too much, or "
            "exchanges of images (docs/concepts.md). The result has the p-values of both."
        ),
    ] = "t-test"
    p: Level = 0.01


@dataclass(frozen=True, kw_only=True)
class TCAVOptions(ConceptOptions):
    """Measure how concepts of your own move the output of any network: TCAV (Kim et al. 2018).

    The target is differentiated at the images of DATA, which need no ground truth.

    \b
    candlelight evaluate tcav demo/frames --set candle --model colours.py:trained --target logit:0 \\
        --layer "features.?" --concept red=pictures/red --concept blue=pictures/blue
    candlelight evaluate tcav photographs --model colours.py:trained --target norm --layer features.3 \\
        --concept red=pictures/red --control red=pictures/gray --negatives others
    """

    target: Annotated[
        object,
        Help(
            "Number of a network's output that concepts may move: logit:K, norm or FILE.py:FUNCTION; with "
            "loss: before it, lower is better.",
            metavar="TARGET",
        ),
    ]
    layer: Annotated[
        tuple[str, ...],
        Help(
            "Hidden layer whose activations represent the concepts, or a pattern such as features.?; "
            "repeatable.",
            metavar="NAME",
        ),
    ]
    concept: Annotated[
        tuple[str, ...],
        Help(
            f"Images of one concept: {SECONDARY}, or a folder of images; repeatable.", metavar="NAME=SOURCE"
        ),
    ] = ()
    control: Annotated[
        tuple[str, ...],
        Help(
            "Images without CONCEPT, of the same scenes, for its permutation test: sources as of --concept.",
            metavar="CONCEPT=SOURCE",
        ),
    ] = ()
    groups: Annotated[
        Path | None,
        Help(
            "Table with the columns picture,group, the scene or object that each picture in a folder of a "
            "--control or of its concept shows; paths are relative to FILE.csv. The permutation test "
            "exchanges groups as a whole, and pictures within groups of both.",
            metavar="FILE.csv",
            default="pictures are independent",
        ),
    ] = None
    p: Level = 0.05
