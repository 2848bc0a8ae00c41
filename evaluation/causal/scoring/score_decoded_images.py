"""All scores of the decoded images of one model, for `score_causal`."""

from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.causal.interventions.baseline_codes import Baseline
from candlelight.evaluation.causal.interventions.decode_codes import Decoder
from candlelight.evaluation.causal.scoring.factor_table import FactorTable
from candlelight.evaluation.causal.scoring.score_decoder import score_decoder
from candlelight.evaluation.causal.scoring.score_rendered import score_rendered
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.results.mean_intervals import Score
from candlelight.loaders.errors import InputError
from candlelight.loaders.views import Factors

if TYPE_CHECKING:
    from candlelight.evaluation.causal.scoring.supervised_codes import SupervisedCodes


def score_decoded_images(
    named: NamedModel,
    decoder: Decoder,
    codes: Float[Tensor, "images codes"],
    data: Factors,
    counterfactuals: Factors,
    table: FactorTable,
    supervised: "SupervisedCodes | None",
    baseline: Baseline,
    seed: int,
    device: str,
) -> tuple[dict[str, Score], dict[str, Any], list[str]]:
    """Compute counterfactual generativeness and the distance to rendered counterfactuals.

    Args:
        named: the encoder.
        decoder: its decoder.
        codes: codes of all images.
        data: the images.
        counterfactuals: images among which rendered counterfactuals are found.
        table: factors of the images.
        supervised: network that classifies decoded images; None leaves counterfactual generativeness out.
        baseline: see `baseline_codes`.
        seed: seed of all draws.
        device: torch device of the encoder.

    Returns:
        Scores by name, details, and a note for each score that cannot be computed.
    """
    scores: dict[str, Score] = {}
    details: dict[str, Any] = {}
    notes: list[str] = []
    name = named.identity.name
    if supervised is not None:
        try:
            more, details["decoder"] = score_decoder(
                decoder, codes, data, table, supervised.heads, supervised.accuracy, baseline
            )
            scores |= more
            notes += [
                f"{score} leaves out {', '.join(parts['left_out'])}: supervised codes err too often"
                for score, parts in details["decoder"].items()
                if parts["left_out"]
            ][:1]
        except InputError as error:
            notes.append(f"{name}: no counterfactual_generativeness: {error}")
    else:
        notes.append(f"{name}: no counterfactual_generativeness: there is no supervised network")
    try:
        more, details["rendered"] = score_rendered(
            named, decoder, codes, data, counterfactuals, table, seed, device
        )
        scores |= more
        notes += _notes(name, details["rendered"])
    except InputError as error:
        notes.append(f"{name}: no score of rendered counterfactuals: {error}")
    return scores, details, notes


def _notes(name: str, rendered: dict[str, Any]) -> list[str]:
    """Tell which factors the decoder does not show or have no pairs, and which pairs share only factors."""
    notes = []
    if missing := rendered["not_decoded"]:
        notes.append(
            f"{name}: rendered_counterfactual: {', '.join(missing)} count as 0 or less: images come no nearer"
        )
    if missing := rendered["without_pairs"]:
        notes.append(
            f"rendered_counterfactual leaves out {', '.join(missing)}: no two images that differ in it alone "
            "look different"
        )
    factors = rendered["factors"].values()
    pairs, same = (sum(one[label] for one in factors) for label in ("pairs", "same_group"))
    if same < pairs:
        notes.append(
            f"rendered_counterfactual: {pairs - same} of {pairs} pairs share their other factors, but no "
            "unit; variables that are no factors, such as a drawn position, may differ as well"
        )
    return notes
