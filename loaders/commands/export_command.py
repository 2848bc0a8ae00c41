"""The command ``candlelight export``."""

from pathlib import Path
from typing import Any

import click

from candlelight.loaders.commands.command_line import Folder, refuse_options_of_others, split_names

# The layouts that an option belongs to.
_LAYOUTS = {
    "layout": ("candle",),
    "bounds": ("candle",),
    "by": ("mit",),
    "layers": ("exr", "png", "webdataset"),
    "shard_size": ("webdataset",),
    "points": ("colmap", "nerfstudio"),
}


@click.command()
@click.argument("frames", type=Folder())
@click.option(
    "--to",
    "kind",
    type=click.Choice(
        ["candle", "coco", "colmap", "concepts", "exr", "mit", "nerfstudio", "png", "webdataset"]
    ),
    required=True,
    help="Layout to write.",
)
@click.option("--out", type=Folder(), required=True, help="Folder to write or continue.")
@click.option(
    "--set",
    "set_name",
    metavar="NAME",
    help="Image set.  [default: all that fit; for candle and mit the only one]",
)
@click.option(
    "--layout",
    type=click.Choice(["flat", "nested"]),
    default="flat",
    help="CANDLE: flat metadata as in its second release, or nested under the id as in its first.",
)
@click.option(
    "--bounds",
    type=click.Choice(["exact", "faithful"]),
    default="exact",
    help="CANDLE: bounding boxes of the image, or as published, before the camera's small turns.",
)
@click.option(
    "--by",
    type=click.Choice(["paper", "passes"]),
    default="paper",
    help="MIT: by the paper's equations from captures in two materials, or from the layers of one frame.",
)
@click.option(
    "--layers",
    callback=split_names,
    metavar="NAME,...",
    help="EXR, PNG, WebDataset: layers to write.  [default: all]",
)
@click.option(
    "--shard-size",
    type=click.IntRange(1),
    default=1000,
    metavar="N",
    help="WebDataset: number of samples in each tar file.",
)
@click.option(
    "--points",
    type=click.IntRange(1),
    default=10_000,
    metavar="N",
    help="COLMAP and nerfstudio: largest number of points of a scene.",
)
def export(frames: Path, kind: str, out: Path, set_name: str | None, **options: Any) -> None:
    """Write frames as files that other tools read.

    The layouts are those of COCO, WebDataset, CANDLE, concept sets (CSM), MIT Intrinsic Images, OpenEXR and
    PNG files of the layers, and for several views of a scene those of COLMAP and nerfstudio.

    \b
    candlelight export frames --to coco --out coco
    candlelight export frames --to exr --out exr
    candlelight export frames --to png --layers image,depth --out png
    candlelight export frames --to candle --out candle
    candlelight export frames --to candle --bounds faithful --layout nested --out candle
    candlelight export frames --to concepts --out csm
    candlelight export frames --to mit --by passes --out mit
    candlelight export frames --to webdataset --shard-size 500 --out tar
    candlelight export ring --to colmap --points 20000 --out scenes
    candlelight export ring --to nerfstudio --out scenes
    """
    from candlelight.loaders import exports

    refuse_options_of_others(kind, {f"--{name.replace('_', '-')}": _LAYOUTS[name] for name in options})
    own = {name: value for name, value in options.items() if kind in _LAYOUTS[name]}
    done = getattr(exports, f"export_{kind}")(frames, out, set_name=set_name, **own)
    click.echo(f"{out}: {done.written} {done.unit}s written, {done.found} were there")
