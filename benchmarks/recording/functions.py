"""Functions of evaluation that no command reaches, on drawn data: the word `call` of `commands.txt`."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn


def _draws(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def counterfactuals() -> dict[str, Any]:
    """Score a model of counterfactuals that brightens images, and a decoder of a linear map and a product."""
    from candlelight.evaluation.causal import ace, cdm, composition, effectiveness, ice, reversibility

    images, codes = torch.rand(6, 3, 4, 4, generator=_draws(0)), torch.randn(8, 3, generator=_draws(1))
    before, after = (torch.randint(0, 3, (6, 1), generator=_draws(seed)) for seed in (2, 3))

    def brighten(shown: torch.Tensor, factors: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
        return (shown + (changed - factors)[:, :, None, None] / 8).clamp(0, 0.9)

    def classify(shown: torch.Tensor) -> list[torch.Tensor]:
        level = shown.mean((1, 2, 3))
        return [torch.stack([1 - level, level, level.square()], dim=1)]

    def decode(given: torch.Tensor) -> torch.Tensor:
        return torch.cat([given[:, :1] - given[:, 1:2], given.prod(1, keepdim=True)], dim=1)

    values, rest = torch.tensor([[0.0], [1.5]]), torch.tensor([0.5])
    return {
        "effectiveness": effectiveness(classify, brighten(images, before, after), after),
        "composition": composition(brighten, images, before, cycles=2),
        "reversibility": reversibility(brighten, images, before, after),
        "ice": ice(decode, codes, [1], values, rest),
        "ace": ace(decode, codes, [1], values, rest),
        "cdm": vars(cdm(decode, codes)),
    }


def planted() -> dict[str, Any]:
    """Make all planted codes of a grid of factors."""
    from candlelight.evaluation.causal import PLANTED_CODES, planted_codes

    factors = torch.cartesian_prod(torch.arange(3), torch.arange(2), torch.arange(4))
    return {name: planted_codes(name, factors, 0) for name in PLANTED_CODES}


def explanations() -> dict[str, Any]:
    """Ablate filters, divide the completeness of topics, and cover drawn masks."""
    from candlelight.evaluation.coverage import ablate_filters, waiou
    from candlelight.evaluation.coverage.topic_completeness import LabelledMaps, ReconstructionTraining
    from candlelight.evaluation.coverage.topics import concept_shap

    torch.manual_seed(0)
    first, last = nn.Conv2d(3, 6, 1), nn.Linear(6, 3)
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), last)
    network = nn.Sequential(first, nn.ReLU(), pooled)
    images, labels = torch.rand(24, 3, 8, 8, generator=_draws(0)), torch.arange(24) % 3
    images[torch.arange(24), labels] += 0.3
    with torch.no_grad():  # tells most images by their brightest channel
        first.weight[:3, :, 0, 0], last.weight[:] = torch.eye(3), torch.eye(3, 6)
    filters = torch.rand(24, 6, generator=_draws(1)) > 0.6
    with torch.no_grad():
        maps = LabelledMaps(network[:2](images), labels)
    how = ReconstructionTraining(0, hidden=6, epochs=20, rate=0.05)
    topics = torch.randn(3, 6, generator=_draws(2))
    masks = torch.rand(5, 2, 6, 6, generator=_draws(3)) > 0.5
    binary = torch.rand(2, 5, 6, 6, generator=_draws(4)) > 0.7
    return {
        "ablation": vars(ablate_filters(network, "1", filters, images, labels, seed=0, draws=19)),
        "shap": vars(concept_shap(topics, pooled, maps, maps, how)),
        "sampled": vars(concept_shap(topics, pooled, maps, maps, how, samples=4)),
        "waiou": vars(waiou(binary, masks)),
    }


def concepts() -> dict[str, Any]:
    """Divide sensitivities, and fine-tune the demo's network by prototypes."""
    from candlelight.evaluation.concepts import csm
    from candlelight.evaluation.models import load_model
    from candlelight.evaluation.training import fine_tune
    from candlelight.evaluation.views import open_data

    one, two, three, four = (torch.rand(4, generator=_draws(seed)) for seed in range(4))
    tuned, history = fine_tune(
        load_model("demo/study/network.pt"),
        open_data("decompositions", "demo/frames", set_name="tabletop", limit=12),
        open_data("concepts", "demo/frames", set_name="illumination"),
        open_data("images", "demo/frames", set_name="negatives"),
        layer="reflectance.blocks.2",
        seed=0,
        epochs=1,
        probed="prototypes",
        mode="one-sided",
    )
    return {
        "mean of ratios": vars(csm(one, two, three, four)),
        "ratio of means": vars(csm(one, two, three, four, reduce="ratio_of_means")),
        "history": asdict(history),
        "weights": {name: values.double().sum() for name, values in tuned.state_dict().items()},
    }


FUNCTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    one.__name__: one for one in (counterfactuals, planted, explanations, concepts)
}


def call(name: str) -> None:
    """Call a function of `FUNCTIONS`, and write its values to a file."""

    def plain(value: Any) -> Any:
        return value.tolist() if isinstance(value, torch.Tensor) else str(value)

    text = json.dumps(FUNCTIONS[name](), indent=1, default=plain)
    Path(f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
