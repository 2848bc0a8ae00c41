"""The commands ``candlelight plan`` and ``candlelight recipes``, and the options that name a recipe."""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from candlelight.blender_assets import ASSET_SUFFIXES
from candlelight.blender_assets.asset_kinds import CODE
from candlelight.loaders.commands.command_line import POSITIVE, options, progress, split_names
from candlelight.loaders.errors import InputError
from candlelight.loaders.foreign_text import printable


def _folders(__: click.Context, ___: click.Parameter, values: tuple[str, ...]) -> dict[str, Path]:
    """Read folders of assets such as ``materials=./colours``."""
    folders: dict[str, Path] = {}
    for value in values:
        kind, _, folder = value.partition("=")
        if kind == CODE:
            raise click.BadParameter("code runs from the folder of the recipe; allow it by --run-code")
        if kind not in ASSET_SUFFIXES or not folder:
            raise click.BadParameter(
                f"expected KIND=FOLDER with KIND one of {', '.join(ASSET_SUFFIXES)}, got {value}"
            )
        if kind in folders:
            raise click.BadParameter(f"expected one folder of {kind}, got {folders[kind]} and {folder}")
        if not Path(folder).is_dir():
            raise click.BadParameter(f"{kind}: there is no folder {folder}")
        folders[kind] = Path(folder).absolute()
    return folders


assets_option = click.option(
    "--assets",
    multiple=True,
    callback=_folders,
    metavar="KIND=FOLDER",
    help=f"Folder of your own assets of one kind ({', '.join(ASSET_SUFFIXES)}); repeatable.",
)
set_option = click.option(
    "--set", "overrides", multiple=True, metavar="FIELD=VALUE", help="Override a field; repeatable."
)
run_code_option = click.option(
    "--run-code",
    is_flag=True,
    help="Run the Python code that the recipe or plan names, from its folder. Only if you trust its author.",
)
# The argument RECIPE is declared by each command, because one of them may do without.
recipe_options = options(
    click.option(
        "--sets",
        callback=split_names,
        metavar="NAME,...",
        help="Take only the samples of these image sets.  [default: all]",
    ),
    click.option(
        "--limit",
        type=click.IntRange(1),
        metavar="N",
        help="Take only N samples of each set, always the same ones.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0),
        metavar="N",
        help="Seed of all random draws, in place of the recipe's.",
    ),
    click.option(
        "--preset",
        type=click.Choice(["draft", "standard", "reference"]),
        help="Render quality of all sets, in place of the recipe's; --set takes precedence.",
    ),
    assets_option,
    set_option,
    run_code_option,
)


def load_any_plan(
    recipe: str,
    overrides: tuple[str, ...] = (),
    limit: int | None = None,
    ids: tuple[str, ...] = (),
    preset: str | None = None,
    assets: Mapping[str, Path] | None = None,
    seed: int | None = None,
    sets: Sequence[str] | None = None,
    run_code: bool = False,
) -> Any:
    """Plan a recipe (with ``ids``, only the samples of these ids), or read a plan file.

    With ``run_code`` the Python files that may run are named on standard error.
    """
    from candlelight.blender_assets import AssetLibrary
    from candlelight.generators import load_recipe, make_plan
    from candlelight.generators.language.recipe_files import find_description
    from candlelight.generators.planning.plan import plan_samples
    from candlelight.generators.planning.plan_table import load_plan
    from candlelight.generators.planning.provenance import check_assets
    from candlelight.generators.planning.sample_values import count_samples

    if recipe.endswith(".parquet"):
        for flag, given in (("--set", overrides), ("--preset", preset), ("--seed", seed is not None)):
            if given:
                raise InputError(
                    f"{flag} changes a recipe, but {recipe} is a plan, whose numbers are fixed; plan again"
                )
        found = load_plan(Path(recipe), {**(assets or {}), **code_folder(Path(recipe).parent, run_code)})
        _tell_code(found.recipe, found.assets)
    else:
        if seed is not None:
            overrides = (*overrides, f"seed={seed}")
        loaded = load_recipe(recipe, overrides, preset, assets, run_code)
        _tell_code(loaded)
        if described := find_description(recipe):
            remedy = "name the folders of the pack's own assets with --assets"
            check_assets(described[1].assets, AssetLibrary(loaded.assets), f"recipe {recipe}", remedy)
        if not ids:
            total = count_samples(loaded, AssetLibrary(loaded.assets), sets) if limit is None else None
            with progress(total, "plan", "sample") as advance:
                made = make_plan(loaded, limit, advance, sets)
            _tell_code(made.recipe, made.assets)
            return made
        found = plan_samples(loaded, ids)
    found = found if sets is None else found.of_set(*sets)
    return found.limit(limit) if limit else found


def code_folder(folder: Path, run_code: bool) -> dict[str, Path]:
    """Return where the code of the plan in a folder is, if it may run: in ``code``, or beside the plan."""
    if not run_code:
        return {}
    inner = folder.absolute() / CODE
    return {CODE: inner if inner.is_dir() else inner.parent}


def _tell_code(recipe: Any, assets: Sequence[Any] | None = None) -> None:
    """Name the Python files that run: of scenes before planning, or of ``assets`` before rendering."""
    from candlelight.blender_assets import AssetLibrary
    from candlelight.loaders.files.python_files import local_files

    if assets is None:
        labels = [one.scene.code for one in recipe.sets.values() if one.scene is not None]
    else:
        labels = [asset.label for asset in assets if asset.kind == CODE]
    library = AssetLibrary(recipe.assets)
    paths = [library.find(CODE, label) for label in labels if library.has(CODE, label)]
    if files := dict.fromkeys(file for path in paths for file in local_files(path)):
        click.echo(f"running Python code: {', '.join(map(str, files))}", err=True)


def _counts(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Read numbers of workers such as ``1,8,64``."""
    if value is None:
        return ()
    parts = value.split(",")
    if not all(part.strip().isdecimal() and int(part) > 0 for part in parts):
        raise click.BadParameter(f"expected numbers from 1 on as in 1,8,64, got {value}")
    return tuple(map(int, parts))


@click.command()
@click.argument("recipe")
@recipe_options
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.parquet", help="Plan file to write.")
@click.option(
    "--report",
    is_flag=True,
    help="Print marginals, dependences and the causal graph; with --out also write them as an HTML page.",
)
@click.option(
    "--estimate",
    is_flag=True,
    help="Render some samples of each set, and estimate the time and disk space of all.",
)
@click.option(
    "--workers", callback=_counts, metavar="N,...", help="Estimate: numbers of render processes at a time."
)
@click.option(
    "--seconds",
    type=POSITIVE,
    default=60.0,
    metavar="SECONDS",
    help="Estimate: time to spend on it.",
)
@click.option(
    "--frames",
    type=click.Path(path_type=Path),
    help="Estimate: folder whose finished frames are not counted.",
)
def plan(
    out: Path | None,
    report: bool,
    estimate: bool,
    workers: tuple[int, ...],
    seconds: float,
    frames: Path | None,
    **which: Any,
) -> None:
    """Plan RECIPE: fix every number of every sample.

    RECIPE is the name of a shipped recipe, a YAML file, FILE.py:NAME for a recipe in Python, or a plan file
    (.parquet). The plan is a table with one row per sample; planning needs no Blender.

    \b
    candlelight plan candle --out candle.parquet
    candlelight plan candle-confounded-color --report
    candlelight plan mine.yaml --seed 1 --limit 100 --out small.parquet --report
    candlelight plan candle --estimate --workers 1,8,64
    """
    from candlelight.generators.planning.plan_table import save_plan
    from candlelight.generators.reports.plan_report import report_text, write_plan_report

    if out is None and not report and not estimate:
        raise InputError("expected --out FILE.parquet, --report, --estimate, or several of them")
    if (workers or frames) and not estimate:
        raise InputError("--workers and --frames: expected together with --estimate")
    if out is not None and out.suffix != ".parquet":
        raise InputError(
            f"--out: expected FILE.parquet, because commands know plan files by this ending, got {out}"
        )
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    made = load_any_plan(**which)
    if report:
        click.echo(report_text(made))
    if report and out is not None:
        write_plan_report(made, out.with_suffix(".html"))
        click.echo(f"{out.with_suffix('.html')}: the report as a page, with a picture of the graph")
    if out is not None:
        save_plan(made, out)
        click.echo(f"{out}: {len(made)} samples from {len(made.groups)} traces")
        tell_draws(made)
    if estimate:
        _estimate(made, workers, seconds, frames)


def tell_draws(made: Any) -> None:
    """Tell that ``draws`` counts the draws of each combination of listed factors, and warn of equal draws."""
    for name in dict.fromkeys(key.set for key in made.samples.keys):
        image_set = made.recipe.sets[name]
        if image_set.draws == 1:
            continue
        if crossed := image_set.crossed():
            names = ", ".join(crossed)
            click.echo(printable(f"set {name}: {image_set.draws} draws of each combination of {names}"))
        if image_set.traced and _draws_are_equal(made, name):
            each = " of each combination" if crossed else ""
            click.echo(
                f"warning: set {name}: the {image_set.draws} draws{each} show the same scene, because "
                "nothing that its layout uses is drawn; give a factor or variable a range, or leave "
                "`draws` out",
                err=True,
            )


def _draws_are_equal(made: Any, name: str) -> bool:
    """Tell whether draws of the same combination differ in nothing but the seed of the renderer."""
    image_set, repeated = made.recipe.sets[name], False
    scenes: dict[tuple[int, int], Any] = {}  # by cell of the grid, and intervention of a counterfactual
    each = image_set.samples_per_unit
    for sample in made.samples.of_set(name):
        place = sample.index // each // image_set.draws, sample.index % each
        scene = sample.trace.model_copy(update={"cycles_seed": 0}), sample.gain, sample.lights
        if scenes.setdefault(place, scene) != scene:
            return False
        repeated = repeated or scenes[place] is not scene
    return repeated


def _estimate(made: Any, workers: tuple[int, ...], seconds: float, frames: Path | None) -> None:
    """Print the estimated cost of rendering a plan, without the frames that a folder already holds."""
    from candlelight.generators.reports.estimate import estimate, estimate_text
    from candlelight.loaders.frames import is_complete
    from candlelight.loaders.progress_bars import progress_bar

    # Until now this process has only planned.
    planning = time.process_time()
    if frames is not None:
        missing = made.samples.where(lambda key: not is_complete(frames, key.set, key.index))
        made = dataclasses.replace(made, samples=missing)
    form = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f}/{total:.0f} s"
    with progress_bar(total=seconds, desc="estimate", unit="second", bar_format=form, leave=False) as bar:

        def advance(passed: float) -> None:
            bar.total, bar.n = max(seconds, passed), passed
            bar.refresh()

        found = estimate(made, seconds=seconds, planning=planning, advance=advance)
    for line in estimate_text(made, found, workers).split("\n"):
        click.echo(printable(line))


@click.group(invoke_without_command=True)
@click.pass_context
def recipes(ctx: click.Context) -> None:
    """List the shipped recipes; show or check one, or describe the fields.

    \b
    candlelight recipes
    candlelight recipes fields lights
    candlelight recipes show candle > mine.yaml
    candlelight recipes validate mine.yaml --set image.width=64
    """
    from candlelight.generators import load_recipe
    from candlelight.generators.language.recipe_files import shipped_recipes

    if ctx.invoked_subcommand is None:
        formatter = click.HelpFormatter(width=100)
        formatter.write_dl([(name, load_recipe(name).description) for name in shipped_recipes()])
        click.echo(formatter.getvalue(), nl=False)


@recipes.command()
@click.argument("recipe")
def show(recipe: str) -> None:
    """Print a recipe's YAML, to copy and change.

    \b
    candlelight recipes show concepts > mine.yaml
    """
    from candlelight.generators.language.recipe_files import recipe_text

    click.echo(recipe_text(recipe), nl=False)


@recipes.command()
@click.argument("recipe")
@set_option
@assets_option
@run_code_option
def validate(recipe: str, overrides: tuple[str, ...], assets: dict[str, Path], run_code: bool) -> None:
    """Check a recipe down to the last asset and number, and say what it would make.

    Assets in your own folders are opened in Blender, without rendering.

    \b
    candlelight recipes validate mine.yaml --set seed=3
    """
    from candlelight.generators.user_assets.asset_folders import open_assets

    plan = load_any_plan(recipe, overrides, assets=assets, run_code=run_code)
    opened = open_assets(plan)
    found = f"valid, {len(plan)} samples from {len(plan.groups)} traces"
    click.echo(printable(f"{plan.recipe.name}: {found}"))
    if opened is None:
        click.echo(
            "assets of your own were not opened, because bpy is not installed here; `render` opens them"
        )
    elif opened:
        click.echo(f"own assets that opened in Blender: {opened}")
    tell_draws(plan)


@recipes.command()
@click.argument("name", default="")
@click.option("--page", is_flag=True, help="Print all fields as the page docs/recipe-fields.md.")
def fields(name: str, page: bool) -> None:
    """Describe the fields of a recipe: meaning, type, unit, default and an example of each.

    NAME is one field, to see only it and the fields below it.

    \b
    candlelight recipes fields
    candlelight recipes fields lights
    candlelight recipes fields camera.location
    """
    from candlelight.generators.language.recipe_fields import describe_fields, fields_page

    if name and page:
        raise InputError("--page prints all fields; expected no NAME")
    click.echo(fields_page() if page else describe_fields(name), nl=not page)
