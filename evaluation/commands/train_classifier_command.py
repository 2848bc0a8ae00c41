"""``candlelight train classifier``: train a network to predict a factor of images."""

from pathlib import Path
from typing import Any

import click

from candlelight.evaluation.commands.evaluate_options import choose_device, data_options, training_options

_BACKBONES = ("vgg_small", "densenet_small", "resnet_small", "vgg19", "vgg19_bn", "densenet121", "resnet50")


@click.command("classifier")
@data_options
@click.option("--label", required=True, help="Categorical factor of the images whose value is the class.")
@click.option(
    "--backbone",
    type=click.Choice(_BACKBONES),
    default="resnet_small",
    show_default=True,
    help="Network; the small ones are for images of 64 to 96 pixels, the others for 224 pixels.",
)
@click.option(
    "--weights",
    type=click.Path(path_type=Path),
    help="File of public weights to start from; its last layer is replaced if the number of classes differs.",
)
@training_options
@click.option(
    "--validation",
    type=click.FloatRange(0, 0.9),
    default=0.1,
    show_default=True,
    help="Share of the groups of images that are held out, to measure the accuracy after each epoch.",
)
@click.option(
    "--require",
    "required",
    type=click.FloatRange(0, 1),
    help="Least accuracy of the held-out images; below it the command fails and writes no weights.",
)
@click.option("--batch-size", type=click.IntRange(2), default=32, show_default=True, help="Images in a step.")
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=3e-3,
    show_default=True,
    help="Largest learning rate; with --weights about 1e-4.",
)
@click.option(
    "--size",
    type=click.IntRange(32),
    help="Side in pixels of the squares to which all images are resized, as by evaluate coverage --size SIDE "
    "SIDE; for small networks choose 64 to 96. Needed if images have several sizes.",
)
def train_labels(
    data: str,
    label: str,
    backbone: Any,
    weights: Path | None,
    out: Path,
    seed: int,
    validation: float,
    size: int | None,
    device: str,
    epochs: int,
    batch_size: int,
    rate: float,
    required: float | None,
    **choice: Any,
) -> None:
    """Train a network to predict a factor of images, such as the kind of the object.

    The trained network is a classifier whose predictions can be explained. DATA needs factors: frames, packs,
    cub70:PATH (label species), celebamask:PATH (40 attributes, such as Male), dsprites:PATH, mpi3d:PATH,
    shapes3d:PATH or candle:PATH.

    \b
    candlelight render parts --out parts
    candlelight train classifier parts --label kind --size 64 --require 0.9 --out kinds.pt
    candlelight train classifier cub70:CUB --split train --label species --backbone resnet50 --size 224 \\
        --weights resnet50.pth --rate 1e-4 --out birds.pt
    """
    from candlelight.evaluation.coverage import ResizedImages
    from candlelight.evaluation.models.build_backbone import build_backbone, load_backbone
    from candlelight.evaluation.models.classifiers import TrainedOn, save_classifier
    from candlelight.evaluation.run.result_files import check_writable
    from candlelight.evaluation.training import factor_labels, hold_out, train_classifier, write_record
    from candlelight.evaluation.views import open_data
    from candlelight.loaders.verification.checksums import file_sha256

    check_writable(out, (".pt",))
    check_writable(out.with_suffix(".json"))
    view = open_data("factors", data, **choice)
    labels, classes = factor_labels(view, label)
    square = None if size is None else (size, size)
    images = view if square is None else ResizedImages(view, square)
    held_out = hold_out(view.groups, validation, seed)
    count, state = len(classes), out.with_name(f"{out.name}.partial")
    if weights is None:
        start = build_backbone(backbone, count, seed=seed)
    else:
        start = load_backbone(backbone, weights, count, seed=seed)
    settings: dict[str, Any] = {
        "seed": seed,
        "epochs": epochs,
        "batch_size": batch_size,
        "rate": rate,
        "required": required,
    }
    network, history = train_classifier(
        start, images, labels, validation=held_out, device=choose_device(device), state=state, **settings
    )
    held_out_ids = tuple(view.ids[row] for row in held_out)
    unseen = frozenset(held_out_ids)
    training_ids = tuple(name for name in view.ids if name not in unseen)
    training = TrainedOn(label, view.identity, square, training_ids, held_out_ids)
    save_classifier(network, classes, out, training)
    used = {"backbone": backbone, "label": label, "classes": classes, "size": square}
    used["weights_sha256"] = None if weights is None else file_sha256(weights)
    write_record(out.with_suffix(".json"), images, held_out, used | settings, history)
    state.unlink(missing_ok=True)
    click.echo(f"loss {history.training[-1]:.4f} after epoch {epochs} on {len(view) - len(held_out)} images")
    if held_out:
        most = max(sum(labels[row] == one for row in held_out) for one in range(count)) / len(held_out)
        click.echo(
            f"accuracy {history.accuracy[-1]:.4f} on {len(held_out)} held-out images of {count} classes; "
            f"{most:.4f} by always predicting their most frequent class"
        )
    for path in (out, out.with_suffix(".json")):
        click.echo(str(path))
