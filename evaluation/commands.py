"""The commands of ``candlelight evaluate``; what is heavy is imported inside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from loaders.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group()
def evaluate() -> None:
    """Score models on rendered frames or packs; results are JSON, and a table is printed.

    \b
    candlelight evaluate intrinsic frames --set tabletop_test --model retinex --out lmse.json
    candlelight evaluate concepts frames --model network.pt --test tabletop_test --out csm.json
    """


def evaluation_options(command: _Command) -> _Command:
    """Add what every evaluation takes: data, model, device and the file of the result."""
    for option in (
        click.option("--out", type=click.Path(path_type=Path), help="JSON file for the result."),
        click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, ..."),
        click.option(
            "--model",
            required=True,
            help="retinex, 'constant shading', 'constant reflectance', or a file of weights.",
        ),
        click.argument("data", type=click.Path(path_type=Path)),
    ):
        command = option(command)
    return command


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"--device {name}: not usable here: {str(error).splitlines()[0]}") from None
    return name


def _network(model: str, device: str) -> Any:
    """Return a model that has hidden layers."""
    from torch import nn

    from evaluation.models.named import find_model

    found = find_model(model, device)
    if not isinstance(found, nn.Module):
        raise InputError(f"--model {model}: expected a file of weights, for this needs hidden layers")
    return found


def _write_result(text: str, out: Path | None) -> None:
    from loaders.disk import replacing

    if out is not None:
        with replacing(out) as partial:
            partial.write_text(text, encoding="utf-8")
        click.echo(str(out))


@evaluate.command()
@evaluation_options
@click.option("--set", "set_name", help="Image set; may be left out where there is only one.")
def intrinsic(data: Path, model: str, device: str, out: Path | None, set_name: str | None) -> None:
    """Compare a model's reflectance and shading with the ground truth: LMSE, MSE.

    \b
    candlelight evaluate intrinsic demo/frames --set tabletop_test --model retinex
    """
    from evaluation.intrinsic import score_intrinsic
    from evaluation.models.named import find_model
    from loaders.open_frames import open_frames

    chosen = _device(device)
    scores = score_intrinsic(find_model(model, chosen), open_frames(data, set_name), device=chosen)
    click.echo(f"LMSE {scores.score:.4f} over {len(scores.ids)} frames (lower is better)")
    _write_result(scores.to_json(), out)


@evaluate.command()
@evaluation_options
@click.option("--albedo", default="albedo", show_default=True, help="Set in which only albedo varies.")
@click.option(
    "--illumination", default="illumination", show_default=True, help="Set in which only light varies."
)
@click.option(
    "--negatives",
    default="negatives",
    show_default=True,
    help="Unrelated images: a set of DATA, other frames or a pack (PATH or PATH:SET), a folder of images, or "
    "hf:NAME[:SPLIT[:CONFIGURATION]].",
)
@click.option(
    "--negatives-limit",
    type=click.IntRange(4),
    default=500,
    show_default=True,
    help="Of a folder of images or a Hugging Face data set.",
)
@click.option("--test", "test_set", required=True, help="Set with ground truth to take gradients on.")
@click.option(
    "--size",
    nargs=2,
    type=click.IntRange(1),
    metavar="HEIGHT WIDTH",
    help="Resize all images to it; needed where frames of several sizes meet.",
)
@click.option(
    "--layer", multiple=True, help="Hidden layer; twice for reflectance and shading.  [default: the output]"
)
@click.option(
    "--runs", type=click.IntRange(2), default=100, show_default=True, help="Vectors per concept set."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of all draws.")
def concepts(
    data: Path,
    model: str,
    device: str,
    out: Path | None,
    albedo: str,
    illumination: str,
    negatives: str,
    negatives_limit: int,
    test_set: str,
    size: tuple[int, int] | None,
    layer: tuple[str, ...],
    runs: int,
    seed: int,
) -> None:
    """Measure how far reflectance follows albedo and shading follows light: CSM_S, CSM_R.

    \b
    candlelight evaluate concepts demo/frames --model retinex --test tabletop_test
    candlelight evaluate concepts demo/frames --model retinex --test tabletop_test --negatives ~/photographs
    """
    from evaluation.concepts import score_concepts
    from evaluation.models.named import find_model
    from loaders.open_frames import open_frames
    from loaders.pictures import open_negatives

    if len(layer) > 2:
        raise InputError("--layer: expected one name, or two (reflectance, then shading)")
    at: Any = "output" if not layer else layer[0] if len(layer) == 1 else layer
    chosen = _device(device)
    changing, lit, test = (open_frames(data, name) for name in (albedo, illumination, test_set))
    own = changing.set_info.height, changing.set_info.width
    unrelated = open_negatives(data, negatives, size or own, negatives_limit, seed)
    sets = (changing, lit, unrelated, test)
    options: Any = {"layer": at, "runs": runs, "seed": seed, "device": chosen, "size": size}
    scores = score_concepts(find_model(model, chosen), *sets, **options)
    for which, significant in (("significant", True), ("all", False)):
        ratio = scores.csm(significant_only=significant)
        click.echo(
            f"CSM_S {ratio.csm_s:.3f}  CSM_R {ratio.csm_r:.3f}  over {which} concept sets (higher is better)"
        )
    _write_result(scores.to_json(), out)


@evaluate.command()
@evaluation_options
@click.option(
    "--set", "set_name", help="Image set with object masks; of CelebAMask-HQ its split.  [default: test]"
)
@click.option("--layer", multiple=True, required=True, help="Hidden layer to compare; repeatable.")
@click.option(
    "--by",
    type=click.Choice(["type", "part"]),
    default="type",
    show_default=True,
    help="What is a part: the type of an object, or a named part of one.",
)
@click.option(
    "--size",
    nargs=2,
    type=click.IntRange(1),
    metavar="HEIGHT WIDTH",
    help="Resize all images and masks to it; needed where images have several sizes.",
)
def coverage(
    data: Path,
    model: str,
    device: str,
    out: Path | None,
    set_name: str | None,
    layer: tuple[str, ...],
    by: Any,
    size: tuple[int, int] | None,
) -> None:
    """Compare how hidden layers cover the objects of frames, or their parts: WAIoU.

    DATA is frames, a pack, or a public data set with masks of parts: the folder of CelebAMask-HQ, whose parts
    are then those of the paper, or one that holds both AnnotationMasksPerclass (CUB-70) and CUB_200_2011.

    \b
    candlelight evaluate coverage demo/frames --set candle --model demo/study/network.pt \\
        --layer encoder.1 --layer encoder.2
    candlelight evaluate coverage frames --set parts --by part --model network.pt --layer encoder.3
    candlelight evaluate coverage CelebAMask-HQ --by part --size 224 224 --model network.pt --layer encoder.3
    """
    from evaluation.coverage import layer_heatmaps, score_coverage
    from loaders.open_frames import open_frames
    from loaders.public import open_parts

    chosen = _device(device)
    network = _network(model, chosen)
    methods = {name: layer_heatmaps(network, name) for name in layer}
    images = open_parts(data, set_name) or open_frames(data, set_name, objects=True)
    scores = score_coverage(methods, images, by=by, size=size, device=chosen)
    for name, score in zip(scores.methods, scores.score.tolist(), strict=True):
        click.echo(f"WAIoU {score:.4f}  {name}  (higher is better)")
    _write_result(scores.to_json(), out)


@evaluate.command()
@evaluation_options
@click.option("--set", "set_name", help="Image set whose factors the codes answer for.")
@click.option("--layer", required=True, help="Hidden layer whose channel means are the codes.")
def causal(data: Path, model: str, device: str, out: Path | None, set_name: str | None, layer: str) -> None:
    """Measure how a network's codes answer for the factors: IRS, unconfoundedness.

    \b
    candlelight evaluate causal demo/frames --set candle --model demo/study/network.pt --layer encoder.3
    """
    from evaluation.causal import layer_codes, score_causal
    from loaders.open_frames import open_frames

    chosen = _device(device)
    scores = score_causal(
        layer_codes(_network(model, chosen), layer), open_frames(data, set_name), device=chosen
    )
    click.echo(f"IRS {float(scores.irs.score):.4f} (higher is better)")
    for rho, value in scores.unconfoundedness.items():
        click.echo(f"unconfoundedness {value:.4f} at rho = {rho} (higher is better)")
    _write_result(scores.to_json(), out)
