"""The command ``candlelight blend``."""

from pathlib import Path
from typing import Any

import click

from candlelight.generators.commands.plan_commands import (
    assets_option,
    code_folder,
    load_any_plan,
    run_code_option,
)
from candlelight.loaders.commands.command_line import Folder


@click.command()
@click.argument("frames", type=Folder())
@click.argument("id")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE.blend",
    help="File to write.",
)
@click.option("--replace", is_flag=True, help="Replace the file if it exists.")
@assets_option
@run_code_option
def blend(frames: Path, id: str, assets: dict[str, Path], run_code: bool, **how: Any) -> None:
    """Save the scene of sample ID as a .blend file, to open it in Blender.

    FRAMES is a folder of frames, a plan file (.parquet), or the name or file of a recipe. The file needs no
    other file. Rendered in Blender (F12), it gives the sample's image within noise.

    \b
    candlelight blend frames candle-000412 --out scene.blend
    candlelight blend candle candle-000412 --out scene.blend
    candlelight blend mine.parquet mine-000003 --assets materials=colours --out scene.blend
    """
    from candlelight.generators import save_blend

    is_recipe = not frames.is_dir() and frames.suffix != ".parquet"
    if is_recipe:
        source = load_any_plan(str(frames), ids=(id,), assets=assets, run_code=run_code)
    else:
        source = frames
        assets = {**assets, **code_folder(frames if frames.is_dir() else frames.parent, run_code)}
    click.echo(str(save_blend(source, id, assets=assets, **how)))
