"""The commands of ``candlelight assets``: bringing in and listing what recipes can name."""

from pathlib import Path

import click

from loaders.errors import InputError

_POSITIVE = click.FloatRange(0, min_open=True)


@click.group()
def assets() -> None:
    """Bring in assets of your own, and list them.

    \b
    candlelight assets add scans/*.obj --out objects
    candlelight assets list --folder objects
    candlelight assets scan my-assets
    candlelight render mine.yaml --assets objects=objects --out frames
    """


@assets.command()
@click.argument("meshes", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of objects to add to.")
@click.option("--name", help="Label of the object, for a single mesh.  [default: the file's name]")
@click.option(
    "--up",
    type=click.Choice(["x", "y", "z", "-x", "-y", "-z"]),
    help="Axis that points up in the file.  [default: y for obj and glb, z for ply and stl]",
)
@click.option("--replace", is_flag=True, help="Replace objects of the same label.")
@click.option("--time-limit", type=_POSITIVE, default=300.0, show_default=True, help="Seconds for one mesh.")
def add(
    meshes: tuple[Path, ...],
    out: Path,
    name: str | None,
    up: str | None,
    replace: bool,
    time_limit: float,
) -> None:
    """Import MESHES (obj, ply, stl, glb) as objects that recipes can name by their labels.

    Each becomes one object, without materials: origin in the middle of the base, longest side one unit,
    normals outwards. Broken meshes are refused.

    \b
    candlelight assets add spot.obj teapot.obj --out objects
    candlelight assets add nefertiti.obj --up z --name queen --out objects
    """
    from generators.user_assets.import_meshes import add_mesh

    if name is not None and len(meshes) > 1:
        raise InputError(f"--name: expected one mesh to name, got {len(meshes)}; add them one by one")
    for mesh in meshes:
        path = add_mesh(
            mesh,
            out,
            label=name,
            up=up,
            replace=replace,
            time_limit=time_limit,
        )
        click.echo(str(path))


@assets.command(name="list")
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of objects.  [default: shipped]")
def list_(folder: Path | None) -> None:
    """List objects with their dimensions at size 1, licence and source.

    \b
    candlelight assets list
    candlelight assets list --folder objects
    """
    from generators.user_assets.import_meshes import list_objects

    for line in list_objects(folder):
        click.echo(line)


@assets.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--kind",
    type=click.Choice(["objects", "materials", "lights", "scenes"]),
    help="What FOLDER itself holds, where its name does not say it.",
)
def scan(folder: Path, kind: str | None) -> None:
    """Note what a plan must know of the .blend files in FOLDER/{objects,materials,lights,scenes}.

    This is the layout of CANDLE's own asset folders. A manifest.json is written beside the files of each
    kind; the files stay as they are.

    \b
    candlelight assets scan my-assets
    candlelight assets scan colours --kind materials
    """
    from generators.user_assets.scan_assets import scan_assets

    for scanned in scan_assets(folder, kind):
        click.echo(f"{scanned.manifest}: {', '.join(entry['name'] for entry in scanned.entries)}")
        for note in scanned.notes:
            click.echo(f"  {note}")
