"""Options of the evaluations of intrinsic images; the docstring of each class is the help of its command."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from candlelight.evaluation.catalogue.record import At, Files, Help

PREDICTIONS = Files(
    "predictions",
    "Folder of files with the reflectance and shading of each image",
    "candlelight.evaluation.run.predictions:open_predictions",
    ("png",),
)
Longest = Annotated[
    int, At(least=1), Help("Longer side in pixels to which larger photographs are scaled down.")
]
Power = Annotated[
    float,
    At(above=0),
    Help("Power to which predictions are raised first; 1 is scene-linear, 0.4545 is gamma 2.2."),
]
InputImage = Annotated[
    Literal["diffuse", "original"],
    Help("Image of MIT Intrinsic Images that is decomposed: without or with highlights.", flag="input"),
]


DARKER_BY = 0.10  # relative difference of reflectance that counts as darker, as in Bell et al. 2014


@dataclass(frozen=True)
class LMSEOptions:
    """Measure the errors of reflectance and shading against the truth: LMSE, si-MSE and MSE.

    A folder of predictions holds <id>.npz with the arrays reflectance and shading, or reflectance/<id>.EXT
    and shading/<id>.EXT, where EXT is npy, exr or png.

    \b
    candlelight evaluate lmse demo/frames --set tabletop_test --model retinex
    candlelight evaluate lmse mit:MIT-intrinsic --split grosse --model retinex --model constant-shading
    candlelight evaluate lmse demo/hub --set tabletop_test --split train --predictions mine=results
    """

    files: ClassVar[Files] = PREDICTIONS
    leave_edges: Annotated[
        int,
        At(least=0),
        Help("Of rendered data, leave out pixels as near as this to an edge between objects."),
    ] = 0
    image: InputImage = "diffuse"


@dataclass(frozen=True)
class WHDROptions:
    """Measure how often reflectance contradicts comparisons of two points (WHDR, Bell et al. 2014).

    The comparisons are those of people (iiw:PATH), or made of the truth of rendered data.

    \b
    candlelight evaluate whdr iiw:iiw-dataset --split test --model retinex --out whdr.json
    candlelight evaluate whdr demo/frames --set tabletop_test --model retinex
    """

    files: ClassVar[Files] = PREDICTIONS
    threshold: Annotated[float, At(least=0), Help("Smallest relative difference that counts as darker.")] = (
        DARKER_BY
    )
    power: Power = 1.0


@dataclass(frozen=True)
class SAWOptions:
    """Measure how well gradients of shading find smooth pixels (average precision, Kovacs et al. 2017).

    The labels are those of people (saw:PATH), or made of the truth of rendered data.

    \b
    candlelight evaluate saw saw:SAW --split test --model retinex --out saw.json
    candlelight evaluate saw demo/frames --set tabletop_test --model retinex
    """

    files: ClassVar[Files] = PREDICTIONS
    variant: Annotated[
        Literal["kovacs2017", "cgintrinsics2018", "challenge2018"],
        Help("Published variant; numbers of two are not comparable."),
    ] = "challenge2018"
    power: Power = 1.0


@dataclass(frozen=True)
class MAWOptions:
    """Measure reflectance on regions of known albedo (Measured Albedo in the Wild, Wu et al. 2023).

    \b
    candlelight evaluate maw maw:MAW --model retinex --out maw.json
    candlelight evaluate maw demo/frames --set tabletop_test --model retinex
    """

    files: ClassVar[Files] = PREDICTIONS
    longest: Longest = 1024


@dataclass(frozen=True)
class ConstancyOptions:
    """Measure how much the predicted reflectance of the same materials changes with the light.

    The controls `gray` and `constant` stand beside the models: a good model is low in all columns.

    \b
    candlelight evaluate constancy multi-illumination:MIW --split all --model retinex
    candlelight evaluate constancy relit --set test --model retinex --report constancy.html
    """

    files: ClassVar[Files] = PREDICTIONS
    longest: Longest = 1024


@dataclass(frozen=True)
class LeaksOptions:
    """Measure how much light leaks into reflectance and how much paint into shading, over grids of both.

    DATA has every paint of a scene under every light, as the recipe paints-and-lights renders them. The
    controls are made of the truth, with leaks and noise of known size (docs/leaks.md).

    \b
    candlelight evaluate leaks paints-and-lights --model retinex --model weiss --report leaks.html
    """

    files: ClassVar[Files] = PREDICTIONS
    leave_edges: Annotated[
        int, At(least=0), Help("Leave out pixels as near as this to an edge between objects.")
    ] = 2
    floor: Annotated[
        float,
        At(above=0, below=1),
        Help("Smallest value whose logarithm is taken, as a share of the mean of its image."),
    ] = 1e-3


@dataclass(frozen=True)
class MethodsOptions:
    """Run the benchmark of Grosse et al. 2009: its methods on DATA, ranked, beside models.

    W and W+RET need images under several lights.

    \b
    candlelight evaluate methods mit:MIT-intrinsic --split grosse --report benchmark.html
    candlelight evaluate methods mit:MIT-intrinsic --split grosse --methods BAS,COL-RET --model retinex
    """

    files: ClassVar[Files] = PREDICTIONS
    methods: Annotated[
        str,
        Help("`all`, or some of BAS, GR-RET, COL-RET, W, W+RET, TAP-05, TAP-06, comma-separated."),
    ] = "all"
    l1: Annotated[bool, Help("Integrate gradients with p = 1 too.")] = False
    leave_edges: Annotated[
        int,
        At(least=0),
        Help("Of rendered data, leave out pixels as near as this to an edge between objects."),
    ] = 0
    image: InputImage = "diffuse"


@dataclass(frozen=True)
class ProtocolsOptions:
    """Score models by named protocols of publications, and compare the orders that they give.

    A protocol sets all choices: colour space, scale, mask, size, window and mean (docs/protocols.md).

    \b
    candlelight evaluate protocols demo/frames --set tabletop_test --model retinex
    candlelight evaluate protocols mit:MIT-intrinsic --split grosse --model retinex --protocol mit-grosse
    """

    files: ClassVar[Files] = PREDICTIONS
    protocol: Annotated[
        tuple[str, ...],
        Help(
            "Name of a protocol, such as mit-grosse or iiw-whdr; repeatable or comma-separated.",
            metavar="NAME",
            default="all that fit DATA",
        ),
    ] = ()
    longest: Longest = 1024
