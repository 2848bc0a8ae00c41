"""``candlelight train causal``: train an autoencoder whose codes the causal metrics score."""

from pathlib import Path
from typing import Any

import click

from candlelight.evaluation.commands.evaluate_options import choose_device, data_options, result_options
from candlelight.loaders.foreign_text import printable

AUTOENCODER_MODELS = (
    *("beta-vae", "beta-tcvae", "dip-vae-i", "dip-vae-ii", "factor-vae"),
    *("ss-beta-vae", "ss-beta-tcvae", "ss-dip-vae-i", "ss-dip-vae-ii", "ss-factor-vae", "ada-gvae"),
)
_WEIGHT_OPTIONS = {
    "--beta": "Weight of the divergence (beta-vae, ada-gvae), or of the total correlation (beta-tcvae).  "
    "[default: 10; ada-gvae 1]",
    "--gamma": "Weight of the total correlation (factor-vae).  [default: 4]",
    "--lambda-od": "Weight of the covariances (dip-vae).  [default: 10]",
    "--lambda-d": "Weight of the variances (dip-vae).  [default: 100; dip-vae-ii 10]",
    "--supervision": "Weight of the labels, of which the mean over images counts (ss-).  [default: 256]",
}


def autoencoder_options(command: Any) -> Any:
    """Add the options that this command and ``evaluate causal-table`` share."""
    for option in (
        click.option(
            "--size",
            type=click.Choice(["32", "64"]),
            help="Side in pixels of the squares to which images are resized.",
        ),
        click.option(
            "--labelled",
            type=click.IntRange(1),
            help="Number of labelled images of a model ss-.  [default: 100]",
        ),
        click.option(
            "--codes", type=click.IntRange(1, 1024), default=64, show_default=True, help="Number of codes."
        ),
        click.option(
            "--steps", type=click.IntRange(1), default=30_000, show_default=True, help="Steps of a training."
        ),
    ):
        command = option(command)
    return command


def _weight_options(command: Any) -> Any:
    """Add an option for each weight of the losses."""
    for name, text in reversed(_WEIGHT_OPTIONS.items()):
        command = click.option(name, type=float, help=text)(command)
    return command


@click.command("causal")
@data_options
@click.option(
    "--model",
    type=click.Choice(AUTOENCODER_MODELS),
    required=True,
    help="Model; ss- learns from a few labels.",
)
@result_options
@autoencoder_options
@click.option("--batch-size", type=click.IntRange(2), default=64, show_default=True, help="Images in a step.")
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=1e-4,
    show_default=True,
    help="Learning rate.",
)
@_weight_options
@click.option(
    "--foreground",
    "kind",
    type=click.Choice(["none", "box", "mask"]),
    default="none",
    show_default=True,
    help="Region whose reconstruction weighs more: the bounding box or the mask of the objects.",
)
@click.option(
    "--foreground-weight",
    "foreground",
    type=float,
    help="Additional weight of --foreground; the paper's unsupervised model has 100.  [default: 2]",
)
@click.option(
    "--validation",
    type=click.FloatRange(0, 0.9),
    default=0.1,
    show_default=True,
    help="Share of the groups of images that are held out, to measure the reconstruction.",
)
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path),
    help="HTML file for a page of learning curves and reconstructed images.",
)
@click.option(
    "--workers",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Processes that read images ahead; useful if the images do not fit into 2 GiB.",
)
def train_codes(
    data: str,
    model: Any,
    out: Path,
    seed: int,
    validation: float,
    size: str | None,
    kind: Any,
    page: Path | None,
    workers: int,
    device: str,
    **options: Any,
) -> None:
    """Train an autoencoder, whose codes the causal metrics score.

    Defaults are those of CANDLE's authors; of dip-vae-ii and ada-gvae those of the papers of these models.

    DATA needs factors and images of 32 or 64 pixels (--size): frames, packs, candle:PATH, dsprites:PATH,
    mpi3d:PATH or shapes3d:PATH. The models ss- learn the factors of a few images; ada-gvae learns from pairs
    of images that share some factors; the others use none, but the codes are scored by them.

    \b
    candlelight render candle --set image.width=64 --set image.height=64 --out candle
    candlelight train causal candle --model beta-vae --codes 10 --steps 1000 --out beta.pt
    candlelight train causal candle --model ss-factor-vae --foreground mask --out factor.pt
    candlelight evaluate causal candle --model beta.pt --model factor.pt
    """
    from dataclasses import asdict

    from candlelight.evaluation.coverage import ResizedImages
    from candlelight.evaluation.models.autoencoders import save_autoencoder
    from candlelight.evaluation.run.result_files import check_writable
    from candlelight.evaluation.training import causal_settings, hold_out, train_causal, write_record
    from candlelight.evaluation.training.causal_data import read_foreground
    from candlelight.evaluation.views import open_data
    from candlelight.loaders.errors import InputError

    if kind == "none" and options["foreground"] is not None:
        raise InputError("--foreground-weight: give the region, too (--foreground box or mask)")
    check_writable(out, (".pt",))
    check_writable(out.with_suffix(".json"))
    if page is not None:
        check_writable(page, (".html", ".htm"))
    choice = {name: options.pop(name) for name in ("set_name", "split", "rows", "limit")}
    settings = causal_settings(model, **{name: one for name, one in options.items() if one is not None})
    chosen, side = choose_device(device), None if size is None else int(size)
    view = open_data("factors", data, **choice)
    images = view if side is None else ResizedImages(view, (side, side))
    held_out = hold_out(view.groups, validation, seed)
    foreground = None if kind == "none" else read_foreground(data, kind, side, **choice)
    state = out.with_name(f"{out.name}.partial")
    keywords: dict[str, Any] = {"seed": seed, "factors": view, "validation": held_out, "device": chosen}
    keywords |= {"foreground": foreground, "workers": workers, "state": state}
    network, history = train_causal(images, settings, **keywords)
    used = {**asdict(settings), "seed": seed, "size": side, "foreground_kind": kind}
    unseen = set(held_out)
    ids = {"training_ids": [name for row, name in enumerate(view.ids) if row not in unseen]}
    ids["held_out_ids"] = [view.ids[row] for row in held_out]
    save_autoencoder(network, out, {"settings": used, "data": asdict(view.identity)} | ids)
    write_record(out.with_suffix(".json"), images, held_out, used, history)
    if page:
        from candlelight.evaluation.training.pages import write_causal_page

        write_causal_page(page, network, history, images, held_out or range(len(view)), used)
    state.unlink(missing_ok=True)
    click.echo(
        f"loss {history.training[-1]:.2f} after step {settings.steps} on {len(view) - len(held_out)} images"
    )
    if held_out:
        click.echo(
            f"mean squared error {history.validation[-1]:.5f} of reconstructed held-out images; "
            f"{history.constant:.5f} of their mean"
        )
    if history.targets:
        targets = ", ".join(history.targets)
        click.echo(printable(f"learned from labels, in the order of the codes: {targets}"))
        if alike := [one.name for one in view.factors if one.name not in history.targets]:
            names = ", ".join(alike)
            click.echo(printable(f"note: one value among the labelled images, so not learned: {names}"))
    for path in filter(None, (out, out.with_suffix(".json"), page)):
        click.echo(str(path))
