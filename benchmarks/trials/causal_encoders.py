r"""The whole causal table for five encoders of rendered images: times, and what random codes score.

    candlelight render candle --out candle64 --set image.width=64 --set image.height=64 \
        --set 'sets.candle.factors.scene.values=[indoor, playground, outdoor]'
    python -m benchmarks.trials.causal_encoders candle64 demo/study/network.pt results

Encoders of the same images, of ten codes each: the network of the demo (principal components of the channel
means of a hidden layer), a small network with random weights, principal components of the pixels, a ResNet of
transformers with random weights (components of its last layer), and, among the controls, a small supervised
network. RESULTS holds the page, the scores, and finished steps, with which the same command resumes.
"""

import time
from pathlib import Path

import click
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.causal import layer_codes
from candlelight.evaluation.models import open_model
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.predictions import Codes
from candlelight.evaluation.run.result import package_versions, score_grid
from candlelight.evaluation.run.result_files import write_results
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import Factors, open_data
from candlelight.evaluation.views.image_tensors import decode

CODES = 10
FACTORS = ("object_type", "color", "size", "rotation", "scene")  # of the published tables
_BATCH = 64


def principal_components(rows: Float[Tensor, "images numbers"], count: int) -> Float[Tensor, "images codes"]:
    """Project centred rows on their first principal components.

    Example:
        >>> line = torch.tensor([[-1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
        >>> principal_components(line, 1).abs().flatten().round(decimals=3)
        tensor([1.4140, 0.0000, 1.4140], dtype=torch.float64)
    """
    centred = rows.double() - rows.double().mean(0)
    _, vectors = torch.linalg.eigh(centred.T @ centred)
    return centred @ vectors[:, -count:].flip(1)


def random_resnet(folder: Path) -> Path:
    """Save a small ResNet of transformers with random weights, as a user's own model would lie on disk."""
    import transformers

    torch.manual_seed(0)
    config = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32, 64], depths=[1, 1, 1], layer_type="basic", num_labels=5
    )
    transformers.ResNetForImageClassification(config).save_pretrained(folder)
    size = {"height": 64, "width": 64}
    transformers.ViTImageProcessor(size=size).save_pretrained(folder)
    return folder


def encode_all(view: Factors, network: Path, results: Path) -> dict[str, Codes]:
    """Compute ten codes of each encoder for all images."""
    demo = open_model(str(network), default_space="srgb")
    transformer = open_model(str(random_resnet(results / "resnet")), default_space="srgb")
    layers = {
        "demo network": (layer_codes(demo.model, "encoder.3"), demo.colour_space),
        "transformers resnet": (
            layer_codes(transformer.model, "resnet.encoder.stages.2"),
            transformer.colour_space,
        ),
        "random network": (build_backbone("resnet_small", CODES, seed=0).eval(), "srgb"),
    }
    found: dict[str, list[Tensor]] = {name: [] for name in (*layers, "pca")}
    for start in range(0, len(view), _BATCH):
        images = torch.stack([view[row] for row in range(start, min(start + _BATCH, len(view)))])
        found["pca"].append(torch.nn.functional.avg_pool2d(images, 2).flatten(1))
        for name, (model, space) in layers.items():
            with torch.no_grad():
                found[name].append(model(decode(images) if space == "linear" else images))
    codes = {name: torch.cat(rows).double() for name, rows in found.items()}
    reduced = {
        name: rows if rows.shape[1] == CODES else principal_components(rows, CODES)
        for name, rows in codes.items()
    }
    for name, rows in reduced.items():
        np.savez(results / f"{name}.npz", ids=np.array(view.ids), codes=rows.numpy())
    return {name: Codes(results / f"{name}.npz", tuple(view.ids), rows) for name, rows in reduced.items()}


@click.command()
@click.argument("frames", type=click.Path(path_type=Path, exists=True))
@click.argument("network", type=click.Path(path_type=Path, exists=True))
@click.argument("results", type=click.Path(path_type=Path))
def main(frames: Path, network: Path, results: Path) -> None:
    """Score five encoders on FRAMES; write the page and the scores to RESULTS."""
    results.mkdir(parents=True, exist_ok=True)
    start, processor = time.perf_counter(), time.process_time()
    view = open_data("factors", frames)
    encoders = encode_all(view, network, results)
    steps = FinishedSteps(results / "steps")
    options = {"factors": FACTORS, "metrics": ["all"], "steps": steps}
    found = list(evaluate("codes", view, encoders, **options).values())
    write_results(results / "scores.json", found)
    write_report(results / "page.html", found, title="Encoders of candle")
    for line in score_grid(found):
        click.echo(line)
    for note in found[0].details["notes"]:
        click.echo(f"note: {note}")
    seconds = f"{time.perf_counter() - start:.0f} s, {time.process_time() - processor:.0f} CPU s"
    click.echo(f"{len(view)} images, {len(found)} rows of codes: {seconds}; {package_versions()}")


if __name__ == "__main__":
    main()
