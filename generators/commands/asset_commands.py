"""The commands of ``candlelight assets``: import, list and scan the assets that recipes name."""

from pathlib import Path
from typing import Any

import click

from candlelight.blender_assets import ASSET_SUFFIXES
from candlelight.loaders.commands.command_line import POSITIVE
from candlelight.loaders.errors import InputError
from candlelight.loaders.foreign_text import printable


def _stated(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty licence or source, which a card would print as a gap, and one of several lines."""
    if value is not None and (not value.strip() or not value.isprintable()):
        raise click.BadParameter(f"expected a line of text; leave {parameter.opts[0]} out if unknown")
    return value


@click.group()
def assets() -> None:
    """Import assets of your own, and list assets.

    \b
    candlelight assets list
    candlelight assets add scans/*.obj --out objects
    candlelight assets scan my-assets
    candlelight render mine.yaml --assets objects=objects --out frames
    """


@assets.command()
@click.argument("meshes", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of objects to write to.")
@click.option("--name", help="Label of the object, if there is one mesh.  [default: the name of its file]")
@click.option(
    "--up",
    type=click.Choice(["x", "y", "z", "-x", "-y", "-z"]),
    help="Axis of the mesh that points up.  [default: y for obj and glb, z for ply and stl]",
)
@click.option("--replace", is_flag=True, help="Replace an object that has the same label.")
@click.option(
    "--licence",
    callback=_stated,
    metavar="NAME",
    help="Licence of the meshes, such as CC-BY-4.0, for the manifest and the cards of data sets.",
)
@click.option("--source", callback=_stated, metavar="TEXT", help="Author or URL of the meshes.")
@click.option(
    "--time-limit",
    type=POSITIVE,
    default=300.0,
    metavar="SECONDS",
    help="Time limit of one mesh.",
)
def add(meshes: tuple[Path, ...], out: Path, name: str | None, **how: Any) -> None:
    """Import MESHES (obj, ply, stl, glb) as objects that recipes can name.

    Each mesh becomes one object without materials, with its origin in the middle of its base, a longest side
    of 1 m and normals that point outwards. Broken meshes are refused.

    \b
    candlelight assets add spot.obj teapot.obj --out objects
    candlelight assets add nefertiti.obj --up z --name queen --out objects
    candlelight assets add spot.obj --licence CC0-1.0 --source "Keenan Crane" --out objects
    """
    from candlelight.generators.user_assets.import_meshes import add_mesh

    if name is not None and len(meshes) > 1:
        raise InputError(f"--name: expected one mesh to name, got {len(meshes)}; add them one by one")
    for mesh in meshes:
        click.echo(str(add_mesh(mesh, out, label=name, **how)))


@assets.command(name="list")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option("--kind", type=click.Choice(list(ASSET_SUFFIXES)), help="List only this kind of assets.")
def list_(folder: Path | None, kind: str | None) -> None:
    """List the shipped assets, or those in FOLDER.

    FOLDER holds a folder for each kind, or is the folder of one kind. Shown are label, facts, licence and
    source of each asset. Manifests record the facts, such as
    the dimensions of an object at size 1.

    \b
    candlelight assets list
    candlelight assets list --kind scenes
    candlelight assets list my-assets
    """
    from candlelight.generators.user_assets.asset_folders import list_assets

    for line in list_assets(folder, kind):
        click.echo(printable(line))


@assets.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(list(ASSET_SUFFIXES)),
    help="Kind of the files in FOLDER, if neither its manifest nor its name tells it.",
)
@click.option(
    "--licence", callback=_stated, metavar="NAME", help="Licence of the assets that have no known one yet."
)
@click.option(
    "--source", callback=_stated, metavar="TEXT", help="Author or URL of the assets that have none yet."
)
def scan(folder: Path, kind: str | None, **stated: Any) -> None:
    """Check the assets in FOLDER in Blender, and write manifests.

    FOLDER has folders objects, materials, textures, lights or scenes, as CANDLE's own, or is the folder of
    one kind. Files that `render` would refuse are refused here. A manifest records the facts that plans need,
    such as sizes of objects and powers of lights, and licence and source. The files are not changed.

    \b
    candlelight assets scan my-assets
    candlelight assets scan colours --kind materials --licence CC0-1.0 --source "my own"
    """
    from candlelight.generators.user_assets.asset_folders import scan_assets

    for scanned in scan_assets(folder, kind, **stated):
        names = ", ".join(entry["name"] for entry in scanned.entries)
        click.echo(printable(f"{scanned.manifest}: {names}"))
        for note in scanned.notes:
            click.echo(printable(f"  {note}"))
