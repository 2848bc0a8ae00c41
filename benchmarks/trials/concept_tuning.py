r"""Fine-tune a shipped network against light in its reflectance, and score CSM_R with vectors fitted anew.

    candlelight render relit --out relit
    candlelight render negatives --limit 200 --set image.width=64 --set image.height=64 \
        --set render.samples=16 --out negatives
    lights=-44,-40,-36,-32,-28,-24,-20,-16,-12,-8,-4,4,8,12,16,20,24,28,32,36,40,44
    candlelight render concepts --set image.width=64 --set image.height=64 --set render.samples=16 \
        --set sets.illumination.factors.texturing.values=[rgb] \
        --set sets.illumination.factors.temperature.values=[6500] \
        --set sets.illumination.factors.material.count=2 \
        --set sets.illumination.factors.light_azimuth.values=[$lights] \
        --set sets.albedo.factors.texturing.values=[rgb] --set sets.albedo.factors.temperature.values=[6500] \
        --set sets.albedo.factors.material.count=1 --set sets.albedo.factors.light_azimuth.values=[-20] \
        --out concepts
    python -m benchmarks.trials.concept_tuning relit concepts negatives runs [--seeds 2]

Every second scene of `concepts` and half of the negatives serve for the fine-tuning, the others for the
scores; the fine-tuning reads 30 scenes of the set `train` of `relit`, the scores its set `test`. No scene
of one side is on the other. The control is a fine-tuning with weight 0. Finished networks are kept in RUNS.
Intervals of CSM_R and LMSE are over test scenes, paired with the network before; means are over seeds.
`c_mat`, the change of the reflectance under ten lights, measures with ground truth what CSM_R infers.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.processes import print_table
from candlelight.evaluation import evaluate
from candlelight.evaluation.concepts import (
    CSMData,
    directional_derivatives,
    fit_cavs,
    layer_activations,
    layer_gradients,
    pixel_loss,
)
from candlelight.evaluation.intrinsic.ground_truth import stack_ground_truth
from candlelight.evaluation.models import IntrinsicNet, load_model, save_model
from candlelight.evaluation.models.model_spec import NETWORKS
from candlelight.evaluation.run.compare import compare
from candlelight.evaluation.training import fine_tune
from candlelight.evaluation.views import ConceptSets, Decompositions, Images, open_data
from candlelight.evaluation.views.image_tensors import decode

START = "net-supervised"
LAYER = "reflectance.blocks.2"
ROWS, EPOCHS, RUNS = 300, 3, 50
CSM_R = "csm_r aligned, all sets"
TUNINGS: dict[str, dict[str, Any]] = {
    "weight 0": {"weight": 0.0},
    "weight 1": {"weight": 1.0},
    "weight 10": {"weight": 10.0},
    "prototypes, weight 1": {"weight": 1.0, "probed": "prototypes"},
    "prototypes, weight 10": {"weight": 10.0, "probed": "prototypes"},
    "one-sided, weight 1": {"weight": 1.0, "mode": "one-sided"},
    "one-sided, weight 10": {"weight": 10.0, "mode": "one-sided"},
}


def main() -> None:
    """Fine-tune what is missing, then print the tables."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    for name in ("relit", "concepts", "negatives", "runs"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.runs.mkdir(exist_ok=True)
    fitting, held_out = halves(given.concepts)
    half = len(open_data("images", given.negatives)) // 2
    training = open_data("decompositions", given.relit, set_name="train", rows=range(ROWS))
    unrelated = open_data("images", given.negatives, rows=range(half))
    networks = {"before": load_model(NETWORKS[START])}
    for seed in range(given.seeds):
        for name, options in TUNINGS.items():
            path = given.runs / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}.pt"
            networks[f"{name}, seed {seed}"] = tuned(
                path, networks["before"], training, fitting, unrelated, seed=seed, **options
            )
    regions = evaluate("constancy", open_data("regions", given.relit, set_name="test"), networks)
    constancy = {name: result.scores["c_mat"].value for name, result in regions.items()}
    test = open_data("decompositions", given.relit, set_name="test")
    others = open_data("images", given.negatives, rows=range(half, 2 * half))
    print_scores(networks, constancy, given.seeds, held_out, others, test)


def halves(folder: Path) -> tuple[ConceptSets, ConceptSets]:
    """Open the illumination sets of every second scene, and those of the other scenes."""
    sets = open_data("concepts", folder, set_name="illumination").sets
    scenes = list(dict.fromkeys(one.fixed["scene"] for one in sets))
    rows = [sorted(r for one in sets if one.fixed["scene"] in scenes[k::2] for r in one.rows) for k in (0, 1)]
    one, other = (open_data("concepts", folder, set_name="illumination", rows=some) for some in rows)
    return one, other


def tuned(
    path: Path, network: torch.nn.Module, data: Decompositions, *views: Any, **options: Any
) -> IntrinsicNet:
    """Return the fine-tuned network of a file, which is made if it is missing."""
    if not path.exists():
        start = time.process_time()
        made, history = fine_tune(network, data, *views, layer=LAYER, epochs=EPOCHS, **options)
        save_model(made, path)
        curves = f"loss {history.regime[0]:.3f} to {history.regime[-1]:.3f}, "
        curves += f"concept loss {history.concept[0]:.4f} to {history.concept[-1]:.4f}"
        print(f"{path.stem}: {time.process_time() - start:.0f} CPU s, {curves}", flush=True)
    return load_model(path)


def print_scores(
    networks: dict[str, Any],
    constancy: dict[str, float],
    seeds: int,
    sets: ConceptSets,
    negatives: Images,
    test: Decompositions,
) -> None:
    """Print CSM_R, sensitivities, cosines, constancy and LMSE of each network, and means over seeds."""
    csm = evaluate("csm", CSMData(test, negatives, illumination=sets), networks, runs=RUNS)
    lmse = evaluate("lmse", test, networks)
    columns: dict[str, list[float]] = {}
    rows: list[list[object]] = []
    for name, network in networks.items():
        values = [csm[name].scores[CSM_R].value]
        values += [
            float(np.mean([one[branch]["aligned"]["sensitivity"] for one in csm[name].details["sets"]]))
            for branch in ("reflectance", "shading")
        ]
        values += [mean_cosine(network, sets, negatives, test), constancy[name], lmse[name].score]
        values.append(lmse[name].scores["lmse_reflectance"].value)
        columns[name] = values
        score = csm[name].scores[CSM_R]
        differences = ["", ""]
        if name != "before":
            pairs = (compare(csm[name], csm["before"], CSM_R), compare(lmse[name], lmse["before"]))
            differences = [_signed(pair.difference) for pair in pairs]
        rows.append([name, f"{score.low:.2f} to {score.high:.2f}", *differences])
        print(name, *(f"{value:.4f}" for value in values), flush=True)
    heads = ["CSM_R", "R_i", "S_i", "mean abs cos", "c_mat", "LMSE", "LMSE reflectance"]
    means: list[list[object]] = [["before", *(f"{value:.4f}" for value in columns["before"])]]
    for name in TUNINGS:
        found = np.array([columns[f"{name}, seed {seed}"] for seed in range(seeds)])
        cells = zip(found.mean(0), found.min(0), found.max(0), strict=True)
        means.append([name, *(f"{mean:.4f} ({low:.4f} to {high:.4f})" for mean, low, high in cells)])
    print_table(["mean (least to most) over seeds", *heads], means)
    print_table(["network", "95 % of CSM_R", "CSM_R - before", "LMSE - before"], rows)


def _signed(score: Any) -> str:
    return f"{score.value:+.4f} ({score.low:+.4f} to {score.high:+.4f})"


def mean_cosine(
    network: torch.nn.Module, sets: ConceptSets, negatives: Images, test: Decompositions
) -> float:
    """Measure |cos| of new vectors and gradients of the reflectance loss at the layer, every third frame."""
    truth = stack_ground_truth([test[row] for row in range(0, len(test), 3)])

    def loss(output: Any, rows: slice) -> torch.Tensor:
        return pixel_loss(output[0], truth.reflectance[rows], truth.mask[rows], align_scale=True)

    def read(view: Any, rows: Any) -> torch.Tensor:
        images = torch.stack([decode(view[row]) for row in rows])
        return layer_activations(network, [LAYER], images)[LAYER]

    gradients = layer_gradients(network, LAYER, truth.image, loss)
    against = read(negatives, range(len(negatives)))
    generator = torch.Generator().manual_seed(0)
    found = [
        directional_derivatives(
            fit_cavs(read(sets, one.rows), against, generator=generator, runs=10), gradients, "cosine"
        )
        for one in sets.sets
    ]
    return float(torch.stack(found).abs().mean())


if __name__ == "__main__":
    main()
