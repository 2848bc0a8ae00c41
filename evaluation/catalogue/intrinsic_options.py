"""Options of the evaluations of intrinsic images; the docstring of each class is the help of its command."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from candlelight.evaluation.catalogue.record import At, Files, Help

PREDICTIONS = Files(
    "predictions",
    "Folder of files with the layers of each image, such as reflectance and shading",
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
LeaveEdges = Annotated[
    int,
    At(least=0),
    Help("Of rendered data, leave out pixels as near as this to an edge between objects."),
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
    pictures: ClassVar[bool] = True
    leave_edges: LeaveEdges = 0
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

    DATA has every paint of a scene under every light, as the recipe paints-and-lights renders them: a grid of
    images, which --rows and --limit count. The controls are made of the truth, with leaks and noise of known
    size (docs/leaks.md).

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
    pictures: ClassVar[bool] = True
    methods: Annotated[
        str,
        Help("`all`, or some of BAS, GR-RET, COL-RET, W, W+RET, TAP-05, TAP-06, comma-separated."),
    ] = "all"
    l1: Annotated[bool, Help("Integrate gradients with p = 1 too.")] = False
    leave_edges: LeaveEdges = 0
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


ScoredLayer = Literal[
    "albedo", "shading", "residual", "reconstruction", "normal", "depth", "roughness", "metallic"
]
PartKind = Literal["object", "material"]
Alignment = Literal["none", "scale", "per-channel", "scale-shift", "median"]
Space = Literal["linear", "srgb", "gamma2.2"]
Filter = Literal["bilinear", "area"]
Aligned = Annotated[
    Alignment,
    Help(
        "Alignment with the truth: one scale, a scale for each channel, or scale and shift, of "
        "least squares; or the ratio of medians."
    ),
]


@dataclass(frozen=True)
class _Compared:
    """Options of the scores of one layer."""

    files: ClassVar[Files] = PREDICTIONS
    pictures: ClassVar[bool] = True
    resize: Annotated[
        str,
        Help(
            "Size in which both are compared: N pixels on the longer side, or that of the truth, to which a "
            "prediction of another size is resized (prediction), or without which it is refused (none).",
            metavar="none|prediction|N",
        ),
    ] = "prediction"
    filter: Annotated[Filter, Help("Filter of resizing.")] = "bilinear"
    leave_edges: LeaveEdges = 0
    by: Annotated[
        PartKind | None, Help("Of rendered data, score each type of object, or each material, too.")
    ] = None


@dataclass(frozen=True)
class OneLayerOptions(_Compared):
    """Measure the errors of one layer: MAE, RMSE, PSNR, SSIM and, with weights, LPIPS.

    A model gives the layer by its name in a dictionary, or a folder of predictions has it as <layer>/<id>.EXT
    or as an array of <id>.npz. `reconstruction` is albedo x shading + residual, against the image.

    \b
    candlelight evaluate layer demo/frames --set tabletop_test --model retinex --align scale --space srgb
    candlelight evaluate layer demo/frames --set tabletop_test --layer reconstruction --model retinex
    candlelight evaluate layer rooms --layer roughness --predictions mine=results --by material
    """

    layer: Annotated[ScoredLayer, Help("Layer that is scored.")] = "albedo"
    align: Aligned = "none"
    space: Annotated[Space, Help("Space in which colours are compared, after alignment in linear light.")] = (
        "linear"
    )
    peak: Annotated[float, At(above=0), Help("Range of the values, for PSNR and SSIM.")] = 1.0
    lpips: Annotated[
        str | None,
        Help("Folder with the weights of LPIPS, which is scored then.", metavar="[NETWORK:]FOLDER"),
    ] = None


@dataclass(frozen=True)
class NormalsOptions(_Compared):
    """Measure the angles of normals: mean, median, and shares below 11.25, 22.5 and 30 degrees.

    A model gives `normal` in a dictionary, or a folder of predictions has it; PNG files hold (n + 1) / 2.

    \b
    candlelight evaluate normals demo/frames --set tabletop_test --predictions mine=results
    candlelight evaluate normals rooms --model net.py:Net --axes opengl --by object
    """

    layer: ClassVar[ScoredLayer] = "normal"
    axes: Annotated[
        Literal["opencv", "opengl"],
        Help("Axes of predictions: x right, y down, z forward, or x right, y up, z backward."),
    ] = "opencv"


@dataclass(frozen=True)
class DepthOptions(_Compared):
    """Measure the errors of depth: AbsRel, share within a factor of 1.25, and SI-log.

    `--align scale-shift` makes the scores blind to an affine change, by least squares for each image.

    \b
    candlelight evaluate depth demo/frames --set tabletop_test --predictions mine=results
    candlelight evaluate depth rooms --model net.py:Net --align scale-shift
    """

    layer: ClassVar[ScoredLayer] = "depth"
    align: Aligned = "none"
