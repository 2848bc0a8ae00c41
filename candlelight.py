"""The command line: ``candlelight demo | recipes | plan | render | pack | info | evaluate | doctor``.

Commands parse, call one library function and print; what is heavy is imported inside them.
"""

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

from loaders.errors import InputError

_Command = TypeVar("_Command", bound=Callable[..., Any])


class UseError(click.ClickException):
    """Bad use or bad input: one line, status 2."""

    exit_code = 2


class OneLineGroup(click.Group):
    """A group whose commands end in one line for whatever goes wrong, never in a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and say what was wrong with its input in one line."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise UseError(" ".join(str(error).split())) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise UseError(f"{where}{error.strerror or error}") from None


@click.group(
    cls=OneLineGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="candlelight")
def main() -> None:
    """Render image sets in which exactly one thing changes, and measure how models respond.

    \b
    candlelight demo                                 everything once, in a few minutes
    candlelight render candle --limit 20 --out out   twenty frames of a shipped recipe
    candlelight pack out --to hub --out pack         for datasets.load_dataset
    """


def recipe_options(command: _Command) -> _Command:
    """Add what says which recipe is meant, and how it is changed."""
    for option in (
        click.option(
            "--set", "overrides", multiple=True, metavar="FIELD=VALUE", help="Override a field; repeatable."
        ),
        click.option(
            "--limit", type=click.IntRange(1), help="Only N samples of each set, always the same ones."
        ),
        click.argument("recipe"),
    ):
        command = option(command)
    return command


def _load_plan(recipe: str, overrides: tuple[str, ...], limit: int | None) -> Any:
    """Return the plan of a recipe, or of a plan file."""
    from generators import load_recipe, make_plan
    from generators.table import load_plan

    if recipe.endswith(".parquet"):
        if overrides:
            raise UseError("--set changes a recipe; this is a plan, whose numbers are fixed: plan again")
        plan = load_plan(Path(recipe))
    else:
        plan = make_plan(load_recipe(recipe, overrides))
    return plan.limit(limit) if limit else plan


@contextmanager
def _progress(total: int, what: str) -> Iterator[Callable[[int], Any]]:
    from tqdm import tqdm

    with tqdm(total=total, unit="frame", desc=what, file=sys.stderr, dynamic_ncols=True) as bar:
        yield bar.update


@main.group(cls=OneLineGroup, invoke_without_command=True)
@click.pass_context
def recipes(ctx: click.Context) -> None:
    """List the shipped recipes; show or check one.

    \b
    candlelight recipes
    candlelight recipes show candle > mine.yaml
    candlelight recipes validate mine.yaml --set image.width=64
    """
    from generators import load_recipe
    from generators.load import shipped_recipes

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
    from generators.load import find_recipe

    click.echo(find_recipe(recipe).read_text(encoding="utf-8"), nl=False)


@recipes.command()
@click.argument("recipe")
@click.option(
    "--set", "overrides", multiple=True, metavar="FIELD=VALUE", help="Override a field; repeatable."
)
def validate(recipe: str, overrides: tuple[str, ...]) -> None:
    """Check a recipe down to the last asset and number, and say what it would make.

    \b
    candlelight recipes validate mine.yaml --set seed=3
    """
    plan = _load_plan(recipe, overrides, None)
    click.echo(f"{plan.recipe.name}: valid, {len(plan)} samples from {len(plan.groups)} traces")


@main.command()
@recipe_options
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Parquet file to write.")
def plan(recipe: str, overrides: tuple[str, ...], limit: int | None, out: Path) -> None:
    """Fix every number of every sample of RECIPE in a table, without Blender.

    RECIPE is a shipped name or a YAML file.

    \b
    candlelight plan candle --out candle.parquet
    candlelight plan mine.yaml --set seed=1 --limit 100 --out small.parquet
    """
    from generators.table import save_plan

    made = _load_plan(recipe, overrides, limit)
    save_plan(made, out)
    click.echo(f"{out}: {len(made)} samples from {len(made.groups)} traces")


def _shard(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    index, slash, count = value.partition("/")
    if not (slash and index.isdigit() and count.isdigit()):
        raise click.BadParameter(f"expected I/N as in 3/16, got {value}")
    return int(index), int(count)


@main.command()
@recipe_options
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="Folder of frames to write or resume."
)
@click.option("--workers", type=click.IntRange(1), help="Renderers at a time.  [default: one per processor]")
@click.option(
    "--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of each renderer."
)
@click.option("--shard", callback=_shard, metavar="I/N", help="Only the I-th of N parts, for job arrays.")
@click.option("--time-limit", type=float, default=900.0, show_default=True, help="Seconds for one trace.")
@click.option("--preview", is_flag=True, help="A draft picture of each factor value instead, on one sheet.")
def render(
    recipe: str,
    overrides: tuple[str, ...],
    limit: int | None,
    out: Path,
    workers: int | None,
    threads: int,
    shard: tuple[int, int] | None,
    time_limit: float,
    preview: bool,
) -> None:
    """Render RECIPE (a shipped name, a YAML file, or a plan's .parquet) into a folder of frames.

    Frames that are there already are kept, so a run that was stopped goes on where it was.

    \b
    candlelight render candle --limit 20 --out frames
    candlelight render mine.yaml --set assets.materials=./colours --out frames
    candlelight render candle.parquet --shard 3/16 --out /shared/frames
    """
    from generators import render as render_plan
    from generators.preview import preview_plan

    made = _load_plan(recipe, overrides, limit)
    if preview:
        made = preview_plan(made)
    selected = made.shard(*shard) if shard else made
    with _progress(len(selected), "render") as advance:
        outcome = render_plan(
            made, out, workers=workers, threads=threads, shard=shard, time_limit=time_limit, advance=advance
        )
    click.echo(
        f"{out}: {outcome.written} frames written, {outcome.found} were there, "
        f"{outcome.cpu_seconds:.0f} CPU s in the renderers"
    )
    if preview:
        _sheets(out)
    if outcome.failed:
        first, reason = next(iter(outcome.failed.items()))
        raise UseError(
            f"{len(outcome.failed)} samples could not be rendered, the first {first}: {reason}; "
            f"see {out / 'failed'}, and run again to try them once more"
        )


def _sheets(frames: Path) -> None:
    """Draw a contact sheet of each set beside its frames."""
    from evaluation.report import contact_sheet, write_png
    from loaders.describe import open_frames
    from loaders.frames import read_dataset_info

    for name in read_dataset_info(frames).sets:
        opened = open_frames(frames, name)
        path = frames / f"preview-{name}.png"
        shown = [layer for layer in ("image", "albedo", "shading") if layer in opened.layers]
        write_png(path, contact_sheet(opened, range(len(opened)), shown))
        click.echo(str(path))


@main.command()
@click.argument("frames", type=click.Path(path_type=Path))
@click.option("--to", "kind", type=click.Choice(["hub", "hdf5"]), required=True, help="What to write.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder to write.")
@click.option(
    "--compression", type=click.Choice(["gzip", "none"]), default="gzip", show_default=True, help="HDF5 only."
)
def pack(frames: Path, kind: str, out: Path, compression: Literal["gzip", "none"]) -> None:
    """Pack a folder of frames into Hugging Face Parquet (hub) or HDF5, one file per image set.

    \b
    candlelight pack frames --to hub --out pack     then: datasets.load_dataset("pack", "candle")
    candlelight pack frames --to hdf5 --out h5      then: loaders.HDF5Frames("h5/candle.h5")
    """
    from loaders import pack_hdf5, pack_hub

    if kind == "hub":
        click.echo(str(pack_hub(frames, out)))
    else:
        for path in pack_hdf5(frames, out, compression=compression):
            click.echo(str(path))


@main.command()
@click.argument("path", type=click.Path(path_type=Path))
def info(path: Path) -> None:
    """Say what a folder of frames or a pack holds.

    \b
    candlelight info frames
    candlelight info h5/candle.h5
    """
    from loaders.describe import describe

    click.echo(describe(path))


@main.command()
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("demo"), show_default=True, help="Folder."
)
@click.option("--workers", type=click.IntRange(1), help="Renderers at a time.  [default: one per processor]")
def demo(out: Path, workers: int | None) -> None:
    """Do everything once: plan, render, pack, load, train, evaluate, and write a report.

    \b
    candlelight demo --out demo
    """
    import torch
    from datasets.utils.logging import disable_progress_bar

    from evaluation.study import run_study
    from generators import load_recipe, make_plan
    from generators import render as render_plan
    from loaders import HubFrames, pack_hdf5, pack_hub

    made = make_plan(load_recipe("demo"))
    frames = out / "frames"
    with _progress(len(made), "render") as advance:
        outcome = render_plan(made, frames, workers=workers, advance=advance)
    if outcome.failed:
        raise UseError(f"{len(outcome.failed)} samples could not be rendered; see {frames / 'failed'}")
    files = pack_hdf5(frames, out / "hdf5")
    hub = pack_hub(frames, out / "hub")
    disable_progress_bar()
    # On frames this small a second thread gains nothing, and on a busy machine it loses much.
    torch.set_num_threads(1)
    study = run_study(functools.partial(HubFrames, hub), out / "study")
    click.echo(f"frames: {len(made)} in {frames}; packs: {len(files)} HDF5 files, Hugging Face folder {hub}")
    for line in study.summary():
        click.echo(line)
    click.echo(f"report: {study.report}")


@main.group(cls=OneLineGroup)
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
        click.option("--model", required=True, help="retinex, constant-..., or a file of weights."),
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
        raise UseError(f"--device {name}: not usable here: {str(error).splitlines()[0]}") from None
    return name


def _network(model: str, device: str) -> Any:
    """Return a model that has hidden layers."""
    from torch import nn

    from evaluation.models.named import find_model

    found = find_model(model, device)
    if not isinstance(found, nn.Module):
        raise UseError(f"--model {model}: expected a file of weights, for this needs hidden layers")
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
    from loaders.describe import open_frames

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
@click.option("--negatives", default="negatives", show_default=True, help="Set of unrelated images.")
@click.option("--test", "test_set", required=True, help="Set with ground truth to take gradients on.")
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
    test_set: str,
    layer: tuple[str, ...],
    runs: int,
    seed: int,
) -> None:
    """Measure how far reflectance follows albedo and shading follows light: CSM_S, CSM_R.

    \b
    candlelight evaluate concepts demo/frames --model retinex --test tabletop_test
    """
    from evaluation.concepts import score_concepts
    from evaluation.models.named import find_model
    from loaders.describe import open_frames

    if len(layer) > 2:
        raise UseError("--layer: expected one name, or two (reflectance, then shading)")
    at: Any = "output" if not layer else layer[0] if len(layer) == 1 else layer
    chosen = _device(device)
    sets = [open_frames(data, name) for name in (albedo, illumination, negatives, test_set)]
    scores = score_concepts(find_model(model, chosen), *sets, layer=at, runs=runs, seed=seed, device=chosen)
    for which, significant in (("significant", True), ("all", False)):
        ratio = scores.csm(significant_only=significant)
        click.echo(
            f"CSM_S {ratio.csm_s:.3f}  CSM_R {ratio.csm_r:.3f}  over {which} concept sets (higher is better)"
        )
    _write_result(scores.to_json(), out)


@evaluate.command()
@evaluation_options
@click.option("--set", "set_name", help="Image set with object masks.")
@click.option("--layer", multiple=True, required=True, help="Hidden layer to compare; repeatable.")
def coverage(
    data: Path, model: str, device: str, out: Path | None, set_name: str | None, layer: tuple[str, ...]
) -> None:
    """Compare how hidden layers cover the objects of frames: WAIoU.

    \b
    candlelight evaluate coverage demo/frames --set candle --model demo/study/network.pt \\
        --layer encoder.1 --layer encoder.2
    """
    from evaluation.coverage import layer_heatmaps, score_coverage
    from loaders.describe import open_frames

    chosen = _device(device)
    network = _network(model, chosen)
    methods = {name: layer_heatmaps(network, name) for name in layer}
    scores = score_coverage(methods, open_frames(data, set_name), device=chosen)
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
    from loaders.describe import open_frames

    chosen = _device(device)
    scores = score_causal(
        layer_codes(_network(model, chosen), layer), open_frames(data, set_name), device=chosen
    )
    click.echo(f"IRS {float(scores.irs.score):.4f} (higher is better)")
    for rho, value in scores.unconfoundedness.items():
        click.echo(f"unconfoundedness {value:.4f} at rho = {rho} (higher is better)")
    _write_result(scores.to_json(), out)


@main.command()
def doctor() -> None:
    """Say what this machine has and lacks for rendering and evaluating, and how to get it.

    \b
    candlelight doctor
    """
    from generators.doctor import examine

    findings = examine()
    for finding in findings:
        click.echo(f"{'ok     ' if finding.ok else 'missing'} {finding.what}: {finding.state}")
        if not finding.ok:
            click.echo(f"        {finding.remedy}")
    if any(finding.needed and not finding.ok for finding in findings):
        raise UseError("something that rendering needs is missing; see above")


if __name__ == "__main__":
    main()
