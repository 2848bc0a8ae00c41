"""The commands ``candlelight pack``, ``push`` and ``export``."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import click

from candlelight.loaders.commands.command_line import Folder, given_options, progress, split_names
from candlelight.loaders.errors import InputError


def _size(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    if not (found := re.fullmatch(r"(\d{1,6})x(\d{1,6})", value, re.ASCII)):
        raise click.BadParameter(f"expected width x height in pixels as in 64x48, got {value}")
    return int(found[1]), int(found[2])


def _refuse_options_of_others(kind: str, owners: Mapping[str, str]) -> None:
    """Refuse options of the running command that belong to another value of ``--to`` than ``kind``."""
    for option in given_options(click.get_current_context()):
        if (owner := owners.get(option, kind)) != kind:
            raise InputError(f"{option} is for --to {owner}, not {kind}; leave it out")


@click.command()
@click.argument("frames", type=Folder())
@click.option("--to", "kind", type=click.Choice(["hub", "hdf5"]), required=True, help="Format to write.")
@click.option("--out", type=Folder(), required=True, help="Folder to write.")
@click.option("--sets", callback=split_names, metavar="NAME,...", help="Image sets to pack.  [default: all]")
@click.option("--layers", callback=split_names, metavar="NAME,...", help="Layers to pack.  [default: all]")
@click.option(
    "--size",
    callback=_size,
    metavar="WxH",
    help="Average images down to this size, which must divide theirs.",
)
@click.option(
    "--split",
    multiple=True,
    metavar="NAME=SHARE,...",
    help="Shares of random splits; with --split-by NAME=VALUE,... and repeatable.  "
    "[default: all rows are train]",
)
@click.option("--split-seed", type=int, default=0, metavar="N", help="Seed of the random splits.")
@click.option("--split-by", metavar="FACTOR", help="Split by the values of this factor, not at random.")
@click.option(
    "--hold-out",
    multiple=True,
    metavar="FACTOR=VALUE,...",
    help="Put samples with this combination into a split test_ood; repeatable.",
)
@click.option(
    "--compression",
    type=click.Choice(["gzip", "none", "zstd", "blosc"]),
    default="gzip",
    help="HDF5: compression of layers; zstd and blosc need the package hdf5plugin.",
)
def pack(
    frames: Path,
    kind: str,
    out: Path,
    compression: Literal["gzip", "none", "zstd", "blosc"],
    split: tuple[str, ...],
    split_seed: int,
    split_by: str | None,
    hold_out: tuple[str, ...],
    **what: Any,
) -> None:
    """Pack a folder of frames for Hugging Face datasets or HDF5.

    A pack holds Parquet files (hub) or HDF5 files, one or more for each image set and split.
    An interrupted run is begun anew. Read a pack with datasets.load_dataset("pack", "candle") or
    candlelight.loaders.open_frames("h5", "candle", split="train").

    \b
    candlelight pack frames --to hub --out pack
    candlelight pack frames --to hdf5 --out h5
    candlelight pack frames --to hub --out small --layers image,albedo --size 64x48
    candlelight pack frames --sets candle --to hub --out pack --split train=0.8,val=0.1,test=0.1
    candlelight pack frames --sets candle --to hub --out pack --split-by color --split test=blue,red
    candlelight pack frames --sets candle --to hub --out pack --hold-out object_type=torus,color=red
    """
    from candlelight.loaders import pack_hdf5, pack_hub
    from candlelight.loaders.packs.split_plan import read_split_plan

    _refuse_options_of_others(kind, {"--compression": "hdf5"})
    plan = read_split_plan(split, split_seed, split_by, hold_out)
    if kind == "hub":
        click.echo(str(pack_hub(frames, out, plan=plan, **what)))
    else:
        for path in pack_hdf5(frames, out, compression=compression, plan=plan, **what):
            click.echo(str(path))


@click.command()
@click.argument("folder", type=Folder())
@click.argument("repo", metavar="ORG/NAME")
@click.option("--private", is_flag=True, help="Make a new repository private.")
@click.option("--revision", metavar="NAME", help="Branch to write to; it is made if it does not exist.")
@click.option("--message", help="Message of the commit.")
@click.option(
    "--dry-run", is_flag=True, help="Check the pack, and list what would be sent, without a network."
)
@click.option("--yes", is_flag=True, help="Send a pack without a licence without asking.")
def push(folder: Path, repo: str, dry_run: bool, yes: bool, **how: Any) -> None:
    """Upload FOLDER, a pack, to the Hugging Face Hub.

    FOLDER was written by `candlelight pack --to hub`; every byte of it is checked before the upload.
    The token is that of `hf auth login`, or HF_TOKEN. The same command continues an interrupted upload.

    \b
    candlelight push pack me/candle --dry-run
    candlelight push pack me/candle --private
    """
    from candlelight.loaders.frames import read_dataset_info
    from candlelight.loaders.hub.push import push_hub

    silent = (
        f"{folder} states no licence, so nobody may use it; add `licence:` to the recipe, then run "
        "`render` and `pack` again, which render no sample again"
    )
    unlicensed = not yes and not read_dataset_info(folder).licence
    if unlicensed and not dry_run:
        click.confirm(f"{silent}. Push it without a licence?", abort=True)
    with progress(None, "verify") as advance:
        sent = push_hub(folder, repo, dry_run=dry_run, advance=advance, **how)
    if unlicensed and dry_run:
        click.echo(silent)
    what = "would be sent" if dry_run else "are there"
    click.echo(f"{sent.url}: {len(sent.files)} files, {sent.bytes / 1e6:.1f} MB, {what}")


@click.command()
@click.argument("frames", type=Folder())
@click.option(
    "--to",
    "kind",
    type=click.Choice(["candle", "concepts", "mit", "webdataset"]),
    required=True,
    help="Layout to write.",
)
@click.option("--out", type=Folder(), required=True, help="Folder to write or continue.")
@click.option("--set", "set_name", metavar="NAME", help="Image set; may be left out if only one fits.")
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
    "--shard-size",
    type=click.IntRange(1),
    default=1000,
    metavar="N",
    help="WebDataset: number of samples in each tar file.",
)
def export(
    frames: Path,
    kind: Literal["candle", "concepts", "mit", "webdataset"],
    out: Path,
    set_name: str | None,
    layout: Literal["flat", "nested"],
    bounds: Literal["exact", "faithful"],
    by: Literal["paper", "passes"],
    shard_size: int,
) -> None:
    """Write frames in the layout of a published data set.

    The layouts are those of CANDLE, of concept sets (CSM), of MIT Intrinsic Images, and WebDataset.

    \b
    candlelight export frames --to candle --out candle
    candlelight export frames --to candle --bounds faithful --layout nested --out candle
    candlelight export frames --to concepts --out csm
    candlelight export frames --to mit --by passes --out mit
    candlelight export frames --to webdataset --shard-size 500 --out tar
    """
    from candlelight.loaders.exports import export_candle, export_concepts, export_mit, export_webdataset

    owners = {"--layout": "candle", "--bounds": "candle", "--by": "mit", "--shard-size": "webdataset"}
    _refuse_options_of_others(kind, owners)
    if kind == "concepts":
        counts = export_concepts(frames, out, set_name)
        click.echo(f"{out}: {sum(counts.values())} images in {len(counts)} concept sets")
        return
    if kind == "mit":
        names = export_mit(frames, out, by, set_name)
        click.echo(f"{out}: {len(names)} objects written")
        return
    if kind == "webdataset":
        done = export_webdataset(frames, out, set_name, shard_size)
    else:
        done = export_candle(frames, out, layout, bounds, set_name)
    click.echo(f"{out}: {done.written} samples written, {done.found} were there")
