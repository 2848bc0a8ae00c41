"""``candlelight train``: train a network to decompose images, tell their classes apart, or encode them."""

from pathlib import Path
from typing import Any

import click

from candlelight.evaluation.commands.evaluate_options import choose_device, data_options, training_options
from candlelight.evaluation.commands.train_causal_command import train_codes
from candlelight.evaluation.commands.train_classifier_command import train_labels

_REGIMES = ("supervised", "multi-illumination", "unsupervised")


@click.group()
def train() -> None:
    """Train a model on an image set.

    \b
    candlelight train intrinsic relit --set train --regime supervised --out net.pt
    candlelight train classifier parts --label kind --size 64 --out kinds.pt
    candlelight train causal candle --model beta-vae --size 64 --out beta.pt
    """


train.add_command(train_codes)
train.add_command(train_labels)


@train.command("intrinsic")
@data_options
@click.option(
    "--regime",
    type=click.Choice(_REGIMES),
    default=_REGIMES[0],
    show_default=True,
    help="Supervision: the truth of each image; nothing but scenes under several lights; or reflectances and "
    "shadings of other scenes.",
)
@training_options
@click.option(
    "--validation",
    type=click.FloatRange(0, 0.9),
    default=0.1,
    show_default=True,
    help="Share of the scenes that are held out and scored after each epoch.",
)
@click.option("--batch-size", type=click.IntRange(1), default=6, show_default=True, help="Images in a step.")
@click.option(
    "--lights", type=click.IntRange(1), default=2, show_default=True, help="Most images of a scene in a step."
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=3e-3,
    show_default=True,
    help="Largest learning rate.",
)
@click.option(
    "--width",
    type=click.IntRange(1, 256),
    default=10,
    show_default=True,
    help="Channels of the network at full resolution.",
)
@click.option(
    "--size",
    type=click.IntRange(8),
    help="Longer side in pixels to which larger images are scaled down; on a CPU choose 64 to 128.",
)
@click.option("--half", is_flag=True, help="Store the weights with 16 bits.")
@click.option(
    "--report",
    "page",
    type=click.Path(path_type=Path),
    help="HTML file for a page of learning curves, scores and pictures of the held-out images.",
)
def train_decomposition(
    data: str,
    regime: Any,
    out: Path,
    seed: int,
    validation: float,
    half: bool,
    page: Path | None,
    device: str,
    epochs: int,
    batch_size: int,
    lights: int,
    rate: float,
    width: int,
    size: int | None,
    **choice: Any,
) -> None:
    """Train a small network to decompose images into reflectance and shading.

    A scene is a group of rows of DATA: a unit of frames, an object of mit, a scene of arap or hypersim.

    \b
    candlelight render relit --out relit
    candlelight train intrinsic relit --set train --regime multi-illumination --out net.pt --report net.html
    candlelight evaluate lmse relit --set test --model net.pt --model retinex
    """
    import torch

    from candlelight.evaluation.models import save_model
    from candlelight.evaluation.training import SmallRows, hold_out, train_intrinsic, write_record
    from candlelight.evaluation.views import open_data

    _check_files(out, page)
    view = SmallRows(open_data("decompositions", data, **choice), size=size)
    held_out = hold_out(view.groups, validation, seed)
    chosen, state = choose_device(device), out.with_name(f"{out.name}.partial")
    settings = {
        **{"regime": regime, "seed": seed, "epochs": epochs, "batch_size": batch_size, "lights": lights},
        **{"rate": rate, "width": width},
    }
    network, history = train_intrinsic(view, validation=held_out, device=chosen, state=state, **settings)
    save_model(network, out, torch.float16 if half else torch.float32)
    write_record(out.with_suffix(".json"), view, held_out, settings, history)
    if page:
        from candlelight.evaluation.training.pages import write_training_page

        shown = SmallRows(view, held_out) if held_out else None
        write_training_page(page, network, history, shown, settings, chosen)
    state.unlink(missing_ok=True)
    click.echo(f"loss {history.training[-1]:.4f} after epoch {epochs} on {len(view) - len(held_out)} images")
    if held_out:
        click.echo(f"LMSE {history.validation[-1]:.4f} on {len(held_out)} held-out images")
    for path in filter(None, (out, out.with_suffix(".json"), page)):
        click.echo(str(path))


def _check_files(out: Path, page: Path | None) -> None:
    """Check, before anything is computed, that the files can be written.

    Raises:
        InputError: a file cannot be written, or has another ending.
    """
    from candlelight.evaluation.run.result_files import check_writable

    check_writable(out, (".pt",))
    check_writable(out.with_suffix(".json"))
    if page is not None:
        check_writable(page, (".html", ".htm"))
