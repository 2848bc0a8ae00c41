"""Score intrinsic image models with the Concept Sensitivity Metrics on concept sets."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from evaluation.concepts.branches import Branches, Probe, activations, gradients
from evaluation.concepts.cav import fit_concept, fit_random
from evaluation.concepts.csm_by_factor import every_factor_group
from evaluation.concepts.gram import SharedRows
from evaluation.concepts.score_by_runs import score_by_runs
from evaluation.concepts.sensitivity import derivatives_along, significant
from evaluation.concepts.set_scores import (
    BRANCHES,
    BranchScore,
    Concept,
    Ratios,
    SetScore,
    from_step,
    to_step,
)
from evaluation.concepts.solvers import Classifier
from evaluation.inputs.predictions import Predictions
from evaluation.intrinsic.score_intrinsic import DecompositionModel
from evaluation.models.model_spec import NamedModel
from evaluation.results.mean_intervals import distinct_groups
from evaluation.results.resampled_intervals import resampled_interval
from evaluation.results.result import StatisticResult
from evaluation.running.batches import Fingerprint, check_srgb_image, make_provenance
from evaluation.running.finished_steps import FinishedSteps, model_key
from evaluation.running.named_models import identify_models
from loaders.check_choice import check_choice
from loaders.errors import InputError
from loaders.views import ConceptSet, ConceptSets, Decompositions, Images

METRIC, VERSION = "csm", 2


def score_concepts(
    models: Mapping[str, DecompositionModel],
    albedo: ConceptSets | None,
    illumination: ConceptSets | None,
    negatives: Images,
    test: Decompositions,
    *,
    layer: str | tuple[str, str] | None = None,
    runs: int = 100,
    seed: int = 0,
    p: float = 0.01,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    size: tuple[int, int] | None = None,
    max_sets: int | None = None,
    batch_size: int = 16,
    device: str = "cpu",
    steps: FinishedSteps | None = None,
) -> dict[str, StatisticResult]:
    """Score models with CSM_S and CSM_R (Gupta et al. 2022, sec. 3 and 4).

    For each concept set and branch, ``runs`` vectors separate the set's images from negatives (`fit_cavs`);
    the share of test frames on which each vector lowers the loss is its score (eq. 3); and a t-test compares
    these scores with scores of random vectors (`significant`). Both branches draw the same images. The scores
    of a set depend on ``seed`` and its factors, not on the other sets.

    The loss is the MSE over pixels with an albedo above 0, in two alignments. "unaligned" is the MSE of the
    prediction, as in the paper; a decomposition is defined up to one scale per image, so this CSM also
    measures the scale of the reflectance. "aligned" is the MSE after the best scale, and is reported first.
    There are also three rules on significance (`Ratios`): all sets; the paper's rule (sec. 4.2); and the
    paper's rule for the wanted branch alone. All sets come first, because an ideal model is not sensitive to
    the unwanted concept, so the paper's rule would drop its sets.

    Blind to: the correctness of a prediction (a prediction that equals the ground truth has no gradient and
    counts as insensitive to everything); the common scene of the images, which vectors may represent instead
    of the concept; and everything that the test frames do not show.

    Args:
        models: by name, a callable from image to (reflectance, shading); for hidden layers, a
            `torch.nn.Module` on ``device``. Predictions of another program are scored at the output.
        albedo: concept sets in which only the albedo varies; None leaves out CSM_S.
        illumination: concept sets in which only the illumination varies; None leaves out CSM_R.
        negatives: unrelated images, at least 4. Use at least twice as many as images in the largest concept
            set, so that random vectors are trained on sets of that size.
        test: images with their ground-truth decomposition.
        layer: None for the output, the name of one hidden layer, or two names (reflectance first).
        runs: vectors for each set and branch, at least 2; 80 are enough according to the paper.
        seed: seed of all random draws.
        p: level of the t-test.
        classifier: "svm", "logistic", "ridge", "mean" or "sgd", see `fit_cavs`; it trains the random vectors
            too.
        regularisation: see `fit_cavs`.
        size: height and width to which all images are resized (256 x 256 in the paper); needed if they
            differ in size.
        max_sets: maximal number of concept sets of each kind, drawn at random; all if None.
        batch_size: images per pass.
        device: torch device of the models.
        steps: keeps finished concept sets, so that an interrupted run resumes; negatives and test frames are
            run again.

    Returns:
        A result for each model: ratios with 95 % intervals over groups of test frames, higher is better.

    Raises:
        InputError: ``classifier`` is misspelt, there are no concept sets, albedo and illumination sets are
            swapped, there are no test frames or some lack ground truth, images have several sizes, a layer
            cannot be read, or there are too few images.
    """
    check_choice("classifier", classifier, Classifier)
    check_kind("albedo", albedo)
    check_kind("illumination", illumination)
    views = [view for view in (albedo, illumination, negatives, test) if view is not None]
    named_models = identify_models(models, views, "linear", None)
    if size is not None and any(isinstance(named.model, Predictions) for named in named_models.values()):
        raise InputError("predictions are scored at their own size: omit `size`, or use a model")
    for name, named in named_models.items():
        if layer is not None and not isinstance(named.model, nn.Module):
            raise InputError(f"layer {layer}: `{name}` has no hidden layers; omit it, or give a network")
    settings: dict[str, Any] = {"layer": layer, "runs": runs, "seed": seed, "p": p, "classifier": classifier}
    settings |= {"regularisation": regularisation, "size": size, "max_sets": max_sets}
    chosen_sets = _choose_sets(albedo, illumination, max_sets, seed)
    pair = (layer, layer) if isinstance(layer, str) else layer
    fitting: dict[str, Any] = {"runs": runs, "classifier": classifier, "regularisation": regularisation}
    steps, run = steps or FinishedSteps(), {**settings, "max_sets": None, "batch_size": batch_size}
    keys = {
        name: model_key(named, device, metric=METRIC, version=VERSION, **run)
        for name, named in named_models.items()
    }
    results = {}
    for name, named in named_models.items():
        probe = Probe(named, pair, size, batch_size, device)
        fingerprint = Fingerprint()
        against = activations(probe, negatives, range(len(negatives.ids)), fingerprint)
        scorer = _Scorer(against, gradients(probe, test, fingerprint), fitting, seed, p)
        sets = []
        for concept, view, chosen in tqdm(chosen_sets, desc=f"{name}: sets", unit="set", disable=None):
            key = _set_key(keys[name], concept, view, chosen, fingerprint)
            score = partial(_score, scorer, probe, concept, view, chosen)
            sets.append(from_step(steps.get_or_compute(key, score), concept, chosen))
        results[name] = _result(named, sets, settings, fingerprint, test, negatives)
    return results


def check_kind(wanted: Concept, view: ConceptSets | None) -> None:
    """Check that the right concept varies in concept sets.

    Raises:
        InputError: illumination varies in albedo sets, albedo in illumination sets, or the sets are controls.
    """
    if view is not None and view.varies not in (wanted, None):
        swapped = view.varies in ("albedo", "illumination")
        cure = "swap the two" if swapped else f"name a set in which the {wanted} varies"
        raise InputError(
            f"`{view.identity.set_name or view.identity.name}` was given for {wanted}, but in its sets the "
            f"{view.varies} varies; {cure}"
        )


def _set_key(
    key: Mapping[str, Any] | None,
    concept: Concept,
    view: ConceptSets,
    chosen: ConceptSet,
    fingerprint: Fingerprint,
) -> dict[str, Any] | None:
    """Extend the key of a model to the key of one concept set, and add the set's rows to ``fingerprint``."""
    for row in chosen.rows:
        fingerprint.add(view.ids[row], check_srgb_image(view[row]))
    # The word "runs": steps that earlier versions kept do not hold the scores of single runs.
    read = {"concept": concept, "fixed": chosen.fixed, "rows": chosen.rows, "kept": "runs"}
    read["read"] = fingerprint.hexdigest()
    return None if key is None else {**key, **read}


def _score(
    scorer: "_Scorer", probe: Probe, concept: Concept, view: ConceptSets, chosen: ConceptSet
) -> dict[str, Tensor]:
    """Run the model on one concept set, and score the set."""
    features = activations(probe, view, chosen.rows, Fingerprint())
    return to_step(scorer.score(concept, chosen, features))


@dataclass(frozen=True)
class _Scorer:
    """Inputs shared by all concept sets; ``null`` caches the scores of random vectors."""

    against: Branches
    gradients: dict[str, Branches]
    fitting: dict[str, Any]
    seed: int
    p: float
    null: dict[tuple[str, str, int], Tensor] = field(default_factory=dict)

    @cached_property
    def shared(self) -> dict[str, SharedRows]:
        """Negatives of each branch, and their products with the gradients of each alignment."""
        return {
            name: SharedRows(
                getattr(self.against, name), [getattr(one, name) for one in self.gradients.values()]
            )
            for name in BRANCHES
        }

    def score(self, concept: Concept, chosen: ConceptSet, features: Branches) -> SetScore:
        """Score both branches on one concept set."""
        sizes = {features.size, self.against.size, *(some.size for some in self.gradients.values())}
        if len(sizes) > 1:
            raise InputError(
                f"concept, negative and test images differ in size, {sorted(sizes)}; give one `size`"
            )
        branches = {name: self._score_branch(name, concept, chosen, features) for name in BRANCHES}
        return SetScore(concept, dict(chosen.fixed), len(chosen.rows), branches)

    def _score_branch(
        self, branch: str, concept: Concept, chosen: ConceptSet, features: Branches
    ) -> dict[str, BranchScore]:
        """Score one branch in each alignment; the vectors are the same."""
        rows: Tensor = getattr(features, branch)
        drawn = _generator(self.seed, concept, sorted(chosen.fixed.items()))
        gram, products = self.shared[branch].stacked(rows)
        fit = fit_concept(gram, len(rows), drawn, **self.fitting)
        scores = {}
        for alignment, product in zip(self.gradients, products, strict=True):
            helps = derivatives_along(fit.weights, product) < 0
            shares = helps.double().mean(1)
            test = significant(shares, self._random(branch, alignment, len(rows)), self.p)
            scores[alignment] = BranchScore(
                frames=tuple(helps.double().mean(0).tolist()),
                spread=float(shares.std()),
                accuracy=float(fit.accuracy.mean()),
                p_value=test.p_value,
                significant=test.passed,
                runs=tuple(shares.tolist()),
            )
        return scores

    def _random(self, branch: str, alignment: str, images: int) -> Float[Tensor, " runs"]:
        """Score random vectors that are trained on as many rows as a concept set has."""
        gram, products = self.shared[branch].stacked()
        size = max(2, min(images, len(gram) // 2))
        if (branch, alignment, size) not in self.null:
            drawn = _generator(self.seed, "random", size)
            fit = fit_random(gram, size, drawn, **self.fitting)
            for name, product in zip(self.gradients, products, strict=True):
                self.null[branch, name, size] = (derivatives_along(fit.weights, product) < 0).double().mean(1)
        return self.null[branch, alignment, size]


def _result(
    named: NamedModel,
    sets: list[SetScore],
    settings: dict[str, Any],
    fingerprint: Fingerprint,
    test: Decompositions,
    negatives: Images,
) -> StatisticResult:
    data = fingerprint.describe(test) | {"negatives": negatives.identity.name}
    scores, replicates = resampled_interval(Ratios(sets), test.groups, seed=settings["seed"])
    return StatisticResult(
        make_provenance(METRIC, VERSION, "higher", named, data, settings),
        scores,
        replicates,
        distinct_groups(test.groups),
        (),
        {
            "sets": [one.describe() for one in sets],
            "groups": every_factor_group(sets, test.groups, settings["seed"]),
            "by_runs": score_by_runs(sets),
        },
    )


def _choose_sets(
    albedo: ConceptSets | None, illumination: ConceptSets | None, max_sets: int | None, seed: int
) -> list[tuple[Concept, ConceptSets, ConceptSet]]:
    """Choose all concept sets of each view, or a random subset of them, in their order."""
    kinds: tuple[tuple[Concept, ConceptSets | None], ...] = (
        ("albedo", albedo),
        ("illumination", illumination),
    )
    chosen_sets = []
    for concept, view in kinds:
        if view is not None:
            order = torch.randperm(len(view.sets), generator=_generator(seed, concept))
            chosen_sets += [
                (concept, view, view.sets[number]) for number in sorted(order[:max_sets].tolist())
            ]
    if not chosen_sets:
        raise InputError("expected concept sets of albedo or illumination, got none of either")
    return chosen_sets


def _generator(seed: int, *names: object) -> torch.Generator:
    """Make a generator with an independent random stream for each purpose."""
    digest = hashlib.sha256(repr((seed, *names)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
