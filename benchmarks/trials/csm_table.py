r"""Print CSM beside the errors and judgements of the same models, as Tables 1 and 4 of Gupta et al. 2022.

    candlelight render relit --out relit
    candlelight render concepts --set image.width=64 --set image.height=64 --out concepts
    python -m benchmarks.trials.csm_table relit:test concepts relit:train --every 5 \
        --model retinex --model net-supervised --model net-unsupervised \
        [--lpips alex alexnet-owt-7be5be79.pth alex.pth]

The first argument names the test frames, the second a folder with the sets `albedo` and `illumination`, the
third the negatives. WHDR and the average precision of SAW are of judgements that are made of the ground truth
of the test frames (`open_data("judgements", ...)`). MSE, DSSIM and LPIPS are taken after the best scale of
each image; LPIPS of sRGB-encoded values that are clipped at 1. Shading is divided by its largest true value
for DSSIM and LPIPS. With three models or more, Spearman's rank correlations of all columns follow, all turned
so that high is good: 1 says that two columns rank the models alike.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from benchmarks.processes import print_table
from candlelight.evaluation import evaluate
from candlelight.evaluation.concepts import CSMData
from candlelight.evaluation.concepts.set_scores import ALIGNMENTS, BRANCHES, METRICS
from candlelight.evaluation.intrinsic import dssim
from candlelight.evaluation.intrinsic.ground_truth import stack_ground_truth
from candlelight.evaluation.models import open_models
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.perception import LPIPS, load_lpips
from candlelight.evaluation.run.named_models import identify_models, predict_decomposition
from candlelight.evaluation.run.steps import FinishedSteps
from candlelight.evaluation.views import Decompositions, open_data, open_secondary
from candlelight.evaluation.views.image_tensors import encode

HIGHER = ("CSM_S", "CSM_R", "SAW AP")  # first words of the columns where higher is better


def main() -> None:
    """Score the models and print both tables."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    for name in ("test", "concepts", "negatives"):
        parser.add_argument(name, help="PATH[:SET[:SPLIT]]" if name != "concepts" else "PATH")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--every", type=int, default=1, help="take every n-th test frame")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--max-sets", type=int, help="largest number of concept sets of each kind")
    parser.add_argument("--steps", type=Path, help="folder that keeps finished steps")
    parser.add_argument("--lpips", nargs=3, metavar=("NETWORK", "BACKBONE", "HEADS"))
    given = parser.parse_args()
    distance = None if given.lpips is None else load_lpips(*given.lpips)
    models = open_models(given.model, "cpu")
    columns: dict[str, dict[str, float]] = {name: {} for name in models}
    rows = range(0, len(open_secondary("decompositions", None, given.test)), given.every)
    test = open_secondary("decompositions", None, given.test, rows=rows)
    negatives = open_secondary("images", None, given.negatives, limit=500)
    sets = {name: open_data("concepts", given.concepts, set_name=name) for name in METRICS}
    found = evaluate(
        "csm",
        CSMData(test, negatives, **sets),
        models,
        runs=given.runs,
        max_sets=given.max_sets,
        steps=FinishedSteps(given.steps),
    )
    for name, result in found.items():
        for metric in METRICS.values():
            for alignment in ALIGNMENTS:
                score = result.scores[f"{metric} {alignment}, all sets"].value
                columns[name][f"{metric.upper()} {alignment}"] = score
    judged = open_secondary("judgements", None, given.test, rows=rows)
    for name, whdr in evaluate("whdr", judged, models).items():
        columns[name]["WHDR"] = whdr.score
    for name, saw in evaluate("saw", judged, models, variant="kovacs2017").items():
        columns[name]["SAW AP"] = saw.score
    for name, errors in evaluate("lmse", test, models).items():
        for label, metric in (("MSE", "si_mse"), ("LMSE", "lmse")):
            for branch in BRANCHES:
                columns[name][f"{label} {branch}"] = errors.scores[f"{metric}_{branch}"].value
    for name, named in identify_models(models, [test], "linear", None).items():
        columns[name] |= perceived(named, test, distance)
    print_scores(columns)


def perceived(named: NamedModel, test: Decompositions, distance: LPIPS | None) -> dict[str, float]:
    """Compute the mean DSSIM, and the mean LPIPS if its weights are given, of reflectance and shading."""
    found: dict[str, list[float]] = {}
    for row, name in enumerate(test.ids):
        truth = stack_ground_truth([test[row]])
        *parts, _ = predict_decomposition(named, [name], truth.image, truth.mask, "cpu")
        white = truth.shading[0][:, truth.mask[0]].amax().clamp(min=1e-6)
        true = (truth.reflectance, truth.shading.expand_as(truth.reflectance) / white)
        for part, given, wanted in zip(BRANCHES, parts, true, strict=True):
            mask = truth.mask.float()
            found.setdefault(f"DSSIM {part}", []).append(float(dssim(given, wanted, truth.mask)))
            if distance is not None:
                pair = encode(scaled(given, wanted, truth.mask)), encode(wanted)
                found.setdefault(f"LPIPS {part}", []).append(float(distance(*pair, mask)))
    return {label: float(np.nanmean(values)) for label, values in found.items()}


def scaled(given: Tensor, wanted: Tensor, mask: Tensor) -> Tensor:
    """Scale a prediction to the truth by least squares within the mask; 0 outside."""
    inside = torch.where(mask[:, None], given, 0)
    factor = (inside * wanted).sum() / inside.square().sum().clamp(min=1e-20)
    return (inside * factor).clamp(min=0)


def print_scores(columns: Mapping[str, Mapping[str, float]]) -> None:
    """Print a row for each score, and the rank correlations of the scores."""
    labels = list(next(iter(columns.values())))
    names = [f"{label} {'↑' if label.startswith(HIGHER) else '↓'}" for label in labels]
    table = np.array([[row[label] for label in labels] for row in columns.values()])
    cells = (map(float, values) for values in table.T)
    print_table(["score", *columns], [[name, *some] for name, some in zip(names, cells, strict=True)])
    if len(columns) < 3:
        return
    signs = np.array([1 if label.startswith(HIGHER) else -1 for label in labels])
    ranks = spearmanr(table * signs).statistic
    print()
    print_table(
        ["rank correlation", *labels],
        [[label, *some] for label, some in zip(labels, ranks.tolist(), strict=True)],
    )


if __name__ == "__main__":
    main()
