"""``candlelight evaluate perception``: are distances of images as invariant to transforms as people are?"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evaluation.commands.evaluate_options import (
    check_outputs,
    choose_device,
    data_options,
    end_steps,
    open_steps,
    run_options,
    show_page,
    show_results,
    split_pairs,
)
from loaders.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from evaluation.models.model_spec import NamedModel
    from evaluation.perception import DetectionLevels, MoveSource, Transduction

_TRANSFORMS = ("translation", "rotation", "scale", "illuminant")
_ONLY_FOR_PICTURES = ("size", "canvas", "pixels_per_degree", "rows")


@click.command()
@data_options
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    required=True,
    metavar="[NAME=]SPEC",
    help="Distance of images: rmse, ssim, ms-ssim, lmse, dssim, lpips:FOLDER, lpips:NETWORK:FOLDER, "
    "pyiqa:NAME, package.module:callable or file.py:callable; repeatable.",
)
@click.option(
    "--rated",
    metavar="tid2013:PATH",
    help="Rated pairs, to which the transduction D = a d^b of each metric is fitted, as in the paper.  "
    "[default: published constants, where they hold]",
)
@click.option(
    "--preset",
    "presets",
    multiple=True,
    metavar="NAME=METRIC",
    help="The metric NAME is the paper's METRIC (RMSE, SSIM, LPIPS, DISTS, PerceptNet or PIM), its weights "
    "and images in [0, 1] included, so that its published constants hold; repeatable.  [default: rmse=RMSE]",
)
@click.option(
    "--moves",
    type=click.Choice(["physical", "image-plane", "both"]),
    help="Compare frames in which camera or light moved (physical), or transforms of each image, as the "
    "paper does (image-plane).  [default: physical for frames of the recipe invariance, else image-plane]",
)
@click.option(
    "--transform",
    "transforms",
    multiple=True,
    type=click.Choice([*_TRANSFORMS, "parallax"]),
    help="Kind of transform; repeatable. Parallax is of frames alone.  [default: all but parallax, as in the "
    "paper]",
)
@click.option(
    "--hues",
    type=click.Choice(["20", "10", "5"]),
    default="20",
    show_default=True,
    help="Number of hues of the illuminant, evenly spread; the paper has 20.",
)
@click.option(
    "--pixels-per-degree",
    type=click.FloatRange(0, min_open=True),
    help="Pixels in a degree of visual angle, for images; frames have that of their camera.  [default: 29.2, "
    "the paper's for ImageNet]",
)
@click.option(
    "--size",
    nargs=2,
    type=click.IntRange(1),
    metavar="HEIGHT WIDTH",
    help="Size to which pictures are scaled and cropped; the paper's is 256 256 for ImageNet.  [default: "
    "their own]",
)
@click.option(
    "--canvas",
    type=click.Choice(["mirror", "mnist"]),
    help="Surroundings of images that move: their mirror images, as the paper's photographs and CIFAR have, "
    "or a black canvas of 56 pixels for translations and 128 for scales, as its MNIST.  [default: mirror]",
)
@click.option(
    "--kernel",
    type=click.Choice(["linear", "cubic"]),
    help="Interpolation on the image plane; the paper's is linear.  [default: linear for images, cubic "
    "beside physical moves]",
)
@click.option(
    "--notebook-slip",
    is_flag=True,
    help="Multiply translations on the image plane by 1.1, as the paper's notebook does by mistake, to "
    "compare with its numbers.",
)
@click.option(
    "--answers",
    type=click.Path(path_type=Path),
    help="Log of `candlelight perception experiment` with rated pairs, to which D_T is fitted.  [default: "
    "the paper's D_T, 0.445 with quartiles 0.390 and 0.499]",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Seed of the resamples."
)
@run_options
def perception(
    data: str,
    metrics: tuple[str, ...],
    rated: str | None,
    presets: tuple[str, ...],
    moves: str | None,
    transforms: tuple[str, ...],
    hues: str,
    pixels_per_degree: float | None,
    size: tuple[int, int] | None,
    canvas: str | None,
    kernel: Any,
    notebook_slip: bool,
    answers: Path | None,
    seed: int,
    out: tuple[Path, ...],
    page: Path | None,
    device: str,
    **choice: Any,
) -> None:
    """Compare distances of images with people: thresholds of transforms, and the order of sensitivities.

    DATA are frames of the recipe invariance, in which the camera or the light moved; or any images, such as a
    folder of pictures, which are transformed here. A metric with a transduction to ratings has thresholds in
    degrees and verdicts; any other has curves and an order.

    \b
    candlelight evaluate perception invariance --metric rmse --metric ssim --moves both --report page.html
    candlelight evaluate perception photographs --size 256 256 --metric rmse --rated tid2013:tid2013
    candlelight evaluate perception photographs --metric dists=dists.py:DISTS --preset dists=DISTS --hues 10
    """
    from evaluation.perception import open_distance, score_perception
    from evaluation.report.perception_tables import perception_lines

    check_outputs(out, page)
    steps = open_steps(out)
    chosen = choose_device(device)
    detection = _detection(answers)
    named = _open_metrics(metrics, lambda text: open_distance(text, chosen))
    given = {"size": size, "canvas": canvas, "pixels_per_degree": pixels_per_degree, **choice}
    sources, settings = _open_sources(data, moves, transforms, int(hues), kernel, given)
    for option, value in (("--notebook-slip", notebook_slip), ("--kernel", kernel)):
        if value and "image plane" not in sources:
            raise InputError(f"{option}: only for transforms on the image plane (--moves)")
    known = _open_presets(presets, named)
    if rated is not None:
        if presets:
            raise InputError("--preset: not with --rated, which is fitted for every metric")
        known, settings["rated"] = _fit(rated, named, chosen, steps)
    found = score_perception(
        named,
        sources,
        known,
        detection=detection,
        settings=settings,
        notebook_slip=notebook_slip,
        seed=seed,
        device=chosen,
        steps=steps,
    )
    results = list(found.values())
    show_results(results, out, perception_lines(results))
    if page:
        show_page(page, results, ())
    end_steps(steps)


def _detection(answers: Path | None) -> "DetectionLevels":
    """Fit D_T to the answers for rated pairs; without answers it is the published one."""
    import torch

    from evaluation.perception import DetectionLevels, detection_levels
    from evaluation.perception.experiment import read_answers

    if answers is None:
        return DetectionLevels()
    found = read_answers(answers)
    rated = [kind == "rated" for kind in found.kind]
    if not any(rated):
        raise InputError(f"{answers}: expected answers for rated pairs, which D_T is fitted to, got none")
    shown = torch.from_numpy(found.magnitudes[rated])
    try:
        return detection_levels(shown, torch.from_numpy(found.correct[rated]))
    except InputError as error:
        raise InputError(f"{answers}: no D_T: {error}") from None


def _open_metrics(texts: Sequence[str], open_one: Any) -> "dict[str, NamedModel]":
    named: dict[str, NamedModel] = {}
    for text in texts:
        one = open_one(text)
        if one.identity.name in named:
            name = one.identity.name
            raise InputError(f"two metrics have the name `{name}`; give another name: NAME={text}")
        named[one.identity.name] = one
    return named


def _open_presets(presets: Sequence[str], named: "Mapping[str, NamedModel]") -> "dict[str, Transduction]":
    """Find the published constants of the metrics for which they hold."""
    from evaluation.perception import DISTANCES, published_transduction

    rmse, _ = DISTANCES["rmse"]
    names = {name: "RMSE" for name, one in named.items() if one.model is rmse}
    for name, metric in split_pairs(presets, "--preset").items():
        if name not in named:
            known = ", ".join(named)
            raise InputError(
                f"--preset {name}={metric}: no metric `{name}`; expected one of {known}"
                f"{did_you_mean(name, named)}"
            )
        names[name] = metric
    return {name: published_transduction(metric) for name, metric in names.items()}


def _fit(
    rated: str, named: "Mapping[str, NamedModel]", device: str, steps: Any
) -> "tuple[dict[str, Transduction], dict[str, Any]]":
    """Fit the transductions to rated pairs, and describe these."""
    from evaluation.perception import fit_rated_pairs
    from evaluation.running.batches import Fingerprint
    from loaders.views import open_pairs

    pairs, read = open_pairs(rated), Fingerprint()
    fitted = fit_rated_pairs(named, pairs, device=device, steps=steps, fingerprint=read)
    return fitted, read.describe(pairs)


def _open_sources(
    data: str,
    moves: str | None,
    transforms: Sequence[str],
    hues: int,
    kernel: Any,
    given: dict[str, Any],
) -> "tuple[dict[str, MoveSource], dict[str, Any]]":
    """Open the images, or the frames that moved, and describe the transforms."""
    from evaluation.perception import (
        PAPER_PIXELS_PER_DEGREE,
        MoveSource,
        image_plane_family,
        paper_families,
        spread_hues,
    )
    from loaders.views import has_moves, open_images, open_moved_images

    moved = has_moves(data, given["set_name"])
    kinds = tuple(transforms) or _TRANSFORMS
    if not moved:
        if moves in ("physical", "both"):
            raise InputError(
                f"--moves {moves}: {data} has no frames that moved; render the recipe invariance"
            )
        if "parallax" in kinds:
            raise InputError(f"--transform parallax: needs frames in which the camera moved, {data} has none")
        scale = given.pop("pixels_per_degree") or PAPER_PIXELS_PER_DEGREE
        canvas, kernel = given.pop("canvas"), kernel or "linear"
        families = paper_families(
            "mnist" if canvas == "mnist" else "photographs", pixels_per_degree=scale, hues=hues, kernel=kernel
        )
        families = tuple(one for one in families if one.name.startswith(kinds))
        settings = {"pixels_per_degree": scale, "canvas": canvas or "mirror"}
        view = open_images(data, **given)
        return {"image plane": MoveSource(view, families)}, {**settings, "kernel": kernel}
    for name in _ONLY_FOR_PICTURES:
        if given.pop(name) is not None:
            flag = name.replace("_", "-")
            raise InputError(
                f"--{flag}: not for frames that moved, which have a camera and scenes; leave it out"
            )
    names = [*(kind for kind in kinds if kind in ("rotation", "scale"))]
    names += ["translation x", "translation y"] if "translation" in kinds else []
    names += ["parallax x"] if "parallax" in kinds else []
    names += [f"illuminant {hue}" for hue in spread_hues(hues)] if "illuminant" in kinds else []
    frames = open_moved_images(data, transforms=names, **given)
    kernel = kernel or "cubic"
    missing = len(frames.incomplete)
    notes = (f"scenes left out because a frame of a transform is missing: {missing}",) * (missing > 0)
    sources = {
        "physical": MoveSource(frames, notes=notes),
        "image plane": MoveSource(frames, partial(image_plane_family, kernel=kernel), notes),
    }
    wanted = {"both": list(sources), "image-plane": ["image plane"]}.get(moves or "", ["physical"])
    kept = {name: sources[name] for name in wanted}
    return kept, {"kernel": kernel} if "image plane" in kept else {}
