r"""Causal graphs that PC and GES find on factors and codes of Causal3DIdent-like images.

    candlelight render identifiable --sets causal --limit 2000 --preset draft --set image.width=64 \
        --set image.height=64 --set 'layers=[image]' --out frames
    python -m benchmarks.trials.found_graphs frames results

The codes of the same images are eleven each: predictions of the factors by small networks that were trained
on the other half of the images, principal components of the pixels, and a small network with random weights.
RESULTS holds the codes, the page and the scores.
"""

import time
from pathlib import Path

import click
import numpy as np
import torch

from benchmarks.trials.causal_encoders import principal_components
from candlelight.evaluation.causal import tabulate_factors
from candlelight.evaluation.causal.control_codes import supervised_codes
from candlelight.evaluation.causal.factor_data import ResizedFactors
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.report.page import write_report
from candlelight.evaluation.run.evaluate import evaluate
from candlelight.evaluation.run.predictions import open_codes
from candlelight.evaluation.run.result import package_versions, score_grid
from candlelight.evaluation.run.result_files import write_results
from candlelight.evaluation.views import open_data


@click.command()
@click.argument("frames", type=click.Path(path_type=Path, exists=True))
@click.argument("results", type=click.Path(path_type=Path))
@click.option("--epochs", default=10, show_default=True)
def main(frames: Path, results: Path, epochs: int) -> None:
    """Score the graphs of codes of FRAMES; write the page and the scores to RESULTS."""
    results.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    view = ResizedFactors(open_data("factors", frames, set_name="causal"), 32)  # for the time of the training
    table, images = tabulate_factors(view), torch.stack([view[row] for row in range(len(view))])
    network = build_backbone("resnet_small", len(table.names), seed=0).eval()
    supervised = supervised_codes(view, table, epochs=epochs)
    with torch.no_grad():
        codes = {
            "supervised": supervised.codes,
            "pca": principal_components(
                torch.nn.functional.avg_pool2d(images, 2).flatten(1), len(table.names)
            ),
            "random network": torch.cat([network(some) for some in images.split(64)]).double(),
        }
    click.echo({name: round(share, 2) for name, share in supervised.accuracy.items()})
    for name, rows in codes.items():
        np.savez(results / f"{name}.npz", ids=np.array(view.ids), codes=rows.numpy())
    models = {name: open_codes(results / f"{name}.npz") for name in codes}
    click.echo(f"codes: {time.perf_counter() - start:.0f} s")
    found = list(evaluate("graph", view, models, discover=["pc", "ges"]).values())
    write_results(results / "scores.json", found)
    write_report(results / "page.html", found, title="Graphs of identifiable")
    for line in (
        *score_grid(found),
        *(f"note: {note}" for one in found for note in one.details["notes"][-1:]),
    ):
        click.echo(line)
    seconds = f"{time.perf_counter() - start:.0f} s"
    click.echo(f"{len(view)} images, {len(found)} rows: {seconds}; {package_versions()}")


if __name__ == "__main__":
    main()
