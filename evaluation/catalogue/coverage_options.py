"""Options of the evaluations of explanations; the docstring of each class is the help of its command."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, get_args

from candlelight.evaluation.catalogue.record import At, Files, Help
from candlelight.loaders.errors import InputError, argument, did_you_mean

HEATMAPS = Files(
    "heatmaps",
    "Folder of files with the heatmaps of each image",
    "candlelight.evaluation.run.predictions:open_heatmaps",
)
MethodName = Literal["vebi", "topics", "prototypes", "grad-cam"]
_LEARNING = ("vebi", "topics", "prototypes")
_METHODS = (*get_args(MethodName), "rise", "occlusion")
_CAPTUM, _FUNCTION = "captum:CLASS", "file.py:function"
Rank = Literal["sum", "score"]
Pooling = Literal["set", "image"]
BinariseCompat = Literal["exact", "waiou2023"]
Aggregate = Literal["mean", "sum"]
EffectScale = Literal["probability", "logit"]
ChangedPixels = Literal["all", "region"]
Importance = Literal["sum", "positive", "mean"]
PROPORTIONS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1)
# Options, and the methods that read them; () for all methods.
_READ_BY: dict[str, tuple[str, ...]] = {
    "fit": (),
    "fit_limit": (),
    "label": (),
    "explained_layer": (),
    "bound": ("vebi",),
    "topics": ("topics",),
    "prototypes": ("prototypes",),
    "epochs": ("prototypes",),
    "seed": ("topics", "prototypes", "rise", _CAPTUM, _FUNCTION),
}
_TRIED: dict[str, tuple[Any, ...]] = {
    "k": (1, 3, 5),
    "rank": ("sum", "score"),
    "choose": ("others", "same"),
    "pooling": ("set", "image"),
    "threshold_at": ("mask", "map"),
    "compat": ("exact", "waiou2023"),
    "iou_threshold": (0.0, 0.05),
}


def split_explainer(text: str) -> tuple[str, dict[str, str]]:
    """Split the text of an explanation method, ``NAME[,OPTION=VALUE...]``.

    Args:
        text: vebi, topics, prototypes, grad-cam, rise, occlusion, ``captum:CLASS`` or ``file.py:function``.

    Returns:
        The name, and the texts of the options.

    Raises:
        InputError: there is no such method, an option is given twice, or the options of vebi, topics and
            prototypes, which are those of the command, stand in the text.

    Example:
        >>> split_explainer("captum:IntegratedGradients,n_steps=20")
        ('captum:IntegratedGradients', {'n_steps': '20'})
        >>> split_explainer("riise")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: `method` riise: expected all, vebi, topics, prototypes, \
grad-cam, rise, occlusion, captum:CLASS or file.py:function; did you mean `rise`?
    """
    name, *pairs = re.split(r",(?=\w+=)", text)
    options = dict((pair.partition("=")[0], pair.partition("=")[2]) for pair in pairs)
    if _kind(name) not in (*_METHODS, _CAPTUM, _FUNCTION) or not text.isprintable():
        known = ", ".join(("all", *_METHODS))
        raise InputError(
            f"{argument('method')} {text}: expected {known}, {_CAPTUM} or {_FUNCTION}"
            f"{did_you_mean(name, ('all', *_METHODS))}"
        )
    if len(options) < len(pairs):
        raise InputError(f"{argument('method')} {text}: an option is given twice")
    if options and name in get_args(MethodName):
        first = next(iter(options))
        cure = f"give {argument(first)} beside it" if name in _READ_BY.get(first, ()) else "omit it"
        raise InputError(f"{argument('method')} {text}: `{name}` takes no option `{first}`; {cure}")
    return name, options


def _kind(name: str) -> str:
    """Return the name of a method, or the form of its name."""
    forms = {_CAPTUM: name.startswith("captum:"), _FUNCTION: ".py:" in name}
    return next((form for form, fits in forms.items() if fits), name)


def chosen_methods(methods: Sequence[str]) -> tuple[str, ...]:
    """List the chosen methods, each once; "all" are the four methods of the WAIoU paper's comparison.

    Example:
        >>> chosen_methods(["all", "rise", "vebi"])
        ('vebi', 'topics', 'prototypes', 'grad-cam', 'rise')
    """
    every = get_args(MethodName)
    return tuple(dict.fromkeys(one for name in methods for one in (every if name == "all" else (name,))))


def learning_methods(methods: Sequence[str]) -> tuple[str, ...]:
    """List the chosen methods that learn from images of known classes; the others explain any classifier.

    Example:
        >>> learning_methods(["all", "rise"]), learning_methods(["grad-cam", "occlusion"])
        (('vebi', 'topics', 'prototypes'), ())
    """
    return tuple(name for name in chosen_methods(methods) if name in _LEARNING)


Merged = Annotated[int, At(least=1), Help("Number of maps that are merged.")]


@dataclass(frozen=True)
class ExplanationOptions:
    """Explanation methods, the images on which they learn the concepts of a classifier, and their settings.

    Raises:
        InputError: an option that no chosen method reads.
    """

    method: Annotated[
        tuple[str, ...],
        Help(
            "Explain each --model, a classifier, by this method: vebi, topics, prototypes, grad-cam (all: "
            "these four), rise, occlusion, captum:CLASS or file.py:function, the last four with "
            ",OPTION=VALUE...; repeatable.",
            metavar="METHOD",
        ),
    ] = ()
    fit: Annotated[
        str | None,
        Help(
            "Images on which vebi, topics and prototypes learn concepts: SET (of DATA), PATH[:SET[:SPLIT]] "
            "or LAYOUT:PATH[:SPLIT]; of these, the ones that the classifier was trained on, if any.",
            metavar="SOURCE",
            default="of coverage: DATA",
        ),
    ] = None
    fit_limit: Annotated[
        int | None, At(least=2), Help("Learn concepts on N of the images, evenly spaced.", metavar="N")
    ] = None
    label: Annotated[
        str | None,
        Help(
            "Factor whose value is the class; a network that names no classes has them in the order of the "
            "factor's values.",
            default="that of the classifier's file",
        ),
    ] = None
    explained_layer: Annotated[
        str | None,
        Help(
            "Layer whose maps the methods explain.",
            default="the last convolution, of classifiers of `candlelight train classifier`",
        ),
    ] = None
    bound: Annotated[float, At(above=0), Help("VEBI: bound of the sum of the weights of a class.")] = 10.0
    topics: Annotated[int, At(least=1), Help("Topics: their number.")] = 10
    prototypes: Annotated[int, At(least=1), Help("Prototypes: their number for each class.")] = 10
    epochs: Annotated[int, At(least=1), Help("Prototypes: epochs of training.")] = 30
    seed: Annotated[int, Help("Seed of methods that draw random numbers.")] = 0
    size: Annotated[
        tuple[int, int] | None,
        At(least=1),
        Help(
            "Size in pixels to which all images are resized; needed if they have several sizes.",
            metavar="HEIGHT WIDTH",
        ),
    ] = None

    def __post_init__(self) -> None:
        defaults = {one.name: one.default for one in fields(self)}
        chosen = {_kind(split_explainer(one)[0]) for one in chosen_methods(self.method)}
        for name, methods in _READ_BY.items():
            given = getattr(self, name)
            if given == defaults[name] or (chosen and chosen & {*(methods or chosen)}):
                continue
            needed = f"{argument('method')} {_or(methods)}" if methods else f"a {argument('method')}"
            raise InputError(f"{argument(name)} {given}: needs {needed}")


def _or(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


@dataclass(frozen=True)
class CoverageOptions(ExplanationOptions):
    """Measure how well heatmaps cover objects or their parts: WAIoU.

    The heatmaps are explanations of a classifier (--method), the channels of hidden layers (--layer), or
    files of another program: <id>.npy, .npz or .png. What the paper leaves open is an option, and the scores
    are computed with other values of these options too.

    \b
    candlelight train classifier parts --label kind --validation 0.25 --out kinds.pt
    candlelight evaluate coverage parts --model kinds.pt --method all --out waiou.json --report waiou.html
    candlelight evaluate coverage demo/frames --set candle --model demo/study/network.pt \\
        --layer encoder.1 --layer encoder.2
    candlelight evaluate coverage celebamask:CelebAMask-HQ --split test --size 224 224 --heatmaps cam=maps
    """

    files: ClassVar[Files] = HEATMAPS
    layer: Annotated[tuple[str, ...], Help("Hidden layer whose channels are the heatmaps; repeatable.")] = ()
    by: Annotated[
        Literal["type", "part"] | None,
        Help(
            "Compare the heatmaps with masks of objects by type, or with masks of named parts.",
            default="type for rendered data, part for public data sets and with --method",
        ),
    ] = None
    part: Annotated[tuple[str, ...], Help("Part to score; repeatable.", default="all parts")] = ()
    k: Merged = 1
    rank: Annotated[Rank, Help("Strength of a map: its sum, as in the paper, or the method's own score.")] = (
        "sum"
    )
    proportions: Annotated[
        tuple[float, ...],
        At(above=0, below=1),
        Help("Shares of the points to mark, separated by commas: the paper's Table 2."),
    ] = PROPORTIONS
    choose: Annotated[
        Literal["others", "same"],
        Help("Choose the best share on other images than those it scores, or as in the paper on the same."),
    ] = "others"
    pooling: Annotated[
        Pooling,
        Help("Thresholds over all heatmaps of the same concepts (SetHM), or of each heatmap (IndivHM)."),
    ] = "set"
    iou_threshold: Annotated[
        float, At(least=0, below=1), Help("Only IoUs above this count in WAIoU.", flag="threshold")
    ] = 0.0
    threshold_at: Annotated[
        Literal["mask", "map"], Help("Compute thresholds after or before heatmaps are resized to the masks.")
    ] = "mask"
    compat: Annotated[
        BinariseCompat,
        Help("Leave points at the minimum of a heatmap unmarked, or follow the paper's rule."),
    ] = "exact"
    reduce: Annotated[Aggregate, Help("WAIoU of all parts: their mean or sum.")] = "mean"
    quick: Annotated[
        bool,
        Help("Omit controls, Network Dissection, and the scores with other values of these options."),
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.proportions:
            raise InputError(f"{argument('proportions')}: expected at least one share of points, got none")

    def alternatives(self) -> dict[str, "CoverageOptions"]:
        """Change one option at a time, to see how the order of methods depends on it.

        The aggregation of the parts is left out: sum and mean give one order.

        Example:
            >>> list(CoverageOptions().alternatives())[:3]
            ['k = 3', 'k = 5', 'rank = score']
        """
        found = {
            f"{name} = {value}": replace(self, **{name: value})
            for name, values in _TRIED.items()
            for value in values
            if value != getattr(self, name)
        }
        percent = tuple(share / 100 for share in self.proportions)
        return found | {"proportions / 100": replace(self, proportions=percent)}


@dataclass(frozen=True)
class CausalCheckOptions(ExplanationOptions):
    """Compare explanation methods by whether they point at the regions on which predictions depend.

    DATA are frames with counterfactuals in which one part, or the background, was changed: recipe
    parts-recoloured. vebi, topics and prototypes learn concepts on the images of --fit. Heatmaps of another
    program are files as in `evaluate coverage`; they explain each --model.

    \b
    candlelight render parts-recoloured --out recoloured
    candlelight evaluate causal-check recoloured --model kinds.pt --method all --fit parts --out check.json
    candlelight evaluate causal-check recoloured --model kinds.pt --method rise --method captum:DeepLift
    """

    files: ClassVar[Files] = HEATMAPS
    scale: Annotated[
        EffectScale, Help("Effects are changes of the predicted class's probability or logit.")
    ] = "probability"
    pixels: Annotated[
        ChangedPixels,
        Help("Show the classifier whole counterfactuals, or only the changed region of them."),
    ] = "all"
    k: Merged = 1
    proportion: Annotated[
        float,
        At(above=0, below=1),
        Help("Share of the points that are marked, for the shares of the regions."),
    ] = 0.05


@dataclass(frozen=True)
class RemovalOptions(ExplanationOptions):
    """Compare explanation methods with what parts do to the prediction, by images rendered without them.

    DATA are frames with counterfactuals in which parts are absent: recipe parts-removed. The explained class
    is the predicted one; the effect of a part is the drop of its logit. Scores are those of FunnyBirds, and
    Shapley values, infidelity, curves, small changes of the light, and usual scores without counterfactuals;
    each beside controls.

    \b
    candlelight render parts-removed --out creatures
    candlelight train classifier creatures --set train --label class --out trained.pt
    candlelight evaluate removal creatures --set original --model trained.pt --method grad-cam \\
        --out removal.json --report removal.html
    """

    files: ClassVar[Files] = HEATMAPS

    importance: Annotated[
        Importance,
        Help("Importance of a part: sum of the map over its pixels, sum of the positive values, or mean."),
    ] = "sum"
    widen: Annotated[
        int,
        At(least=0),
        Help(
            "Pixels added around the mask of a part, for its importance and where it is gray or blurred; "
            "FunnyBirds adds 2 in images of 256 pixels."
        ),
    ] = 0
    nearby: Annotated[
        str,
        Help(
            "Factor with interventions so small that a map should not change (max_sensitivity), such as the "
            "light by 5 degrees."
        ),
    ] = "light"
