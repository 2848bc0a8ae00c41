"""Score models by CSM over concept sets, against negatives and controls."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.concepts.branches import (
    Branches,
    BranchLayers,
    branch_activations,
    branch_gradients,
)
from candlelight.evaluation.concepts.cav import fit_concept, fit_random, named_generator
from candlelight.evaluation.concepts.cav_diagnostics import Probe, common_size
from candlelight.evaluation.concepts.csm import every_factor_group
from candlelight.evaluation.concepts.permutation import (
    LEAST_EXCHANGES,
    ImageGroups,
    count_exchanges,
    effect_interval,
    exchanged_members,
    gram_exchange_derivatives,
    input_scores,
)
from candlelight.evaluation.concepts.rows import DEFAULT_STORAGE, RowStorage, SharedRows, row_norms
from candlelight.evaluation.concepts.sensitivity import derivatives_along, significant
from candlelight.evaluation.concepts.set_scores import (
    ALIGNMENTS,
    BRANCHES,
    CONTROLLED,
    METRICS,
    UNWANTED,
    WANTED,
    BranchScore,
    Concept,
    Ratios,
    SetScore,
    SetTest,
    frame_means,
    from_step,
    mean_ratio,
    merge_controls,
    to_step,
    with_p_values,
)
from candlelight.evaluation.concepts.sets import ChosenSet, choose_sets, few_images, set_images
from candlelight.evaluation.concepts.solvers import Classifier
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Fingerprint, make_provenance
from candlelight.evaluation.run.intervals import LEAST_GROUPS, Score, distinct_groups, resampled_interval
from candlelight.evaluation.run.named_models import DecompositionModel, identify_models
from candlelight.evaluation.run.predictions import Predictions
from candlelight.evaluation.run.result import StatisticResult
from candlelight.evaluation.run.steps import FinishedSteps, model_key
from candlelight.evaluation.views import ConceptSet, ConceptSets, Decompositions, Images
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar


@dataclass(frozen=True)
class SetScorer:
    """Images that are no concept, and the gradients; they are shared by all sets that are scored.

    Attributes:
        against: activations of the negatives, or of the control of one concept set.
        gradients: gradients at the test frames, by alignment of the loss.
        groups: the group of each test frame.
        fitting: arguments of `fit_concept` and `fit_random`.
        permutations: exchanges of the permutation test.
        seed: seed of all random draws.
    """

    against: Branches
    gradients: dict[str, Branches]
    groups: Sequence[str]
    fitting: dict[str, Any]
    permutations: int
    seed: int
    _random_scores: dict[tuple[str, str, int], Tensor] = field(default_factory=dict, init=False)

    def score(
        self, concept: Concept, chosen: ConceptSet, features: Branches, groups: ImageGroups | None
    ) -> dict[str, dict[str, BranchScore]]:
        """Score both branches on one concept set, in each alignment; the vectors are the same.

        ``groups`` are those of the images of the set and of the others; where they leave too few exchanges
        for the permutation test, there are no ``draws``.

        Raises:
            InputError: concept, negative and test images differ in size, or there are too few.
        """
        common_size([features.size, self.against.size, *(some.size for some in self.gradients.values())])
        return {name: self._score_branch(name, concept, chosen, features, groups) for name in BRANCHES}

    @cached_property
    def _shared(self) -> dict[str, SharedRows]:
        """Images of each branch that are no concept, and their products with the gradients."""
        return {
            name: SharedRows(
                getattr(self.against, name), [getattr(one, name) for one in self.gradients.values()]
            )
            for name in BRANCHES
        }

    @cached_property
    def _lengths(self) -> dict[tuple[str, str], Tensor]:
        """Norms of the gradients of each branch and alignment."""
        return {
            (branch, alignment): row_norms(getattr(one, branch))
            for branch in BRANCHES
            for alignment, one in self.gradients.items()
        }

    def _score_branch(
        self,
        branch: str,
        concept: Concept,
        chosen: ConceptSet,
        features: Branches,
        groups: ImageGroups | None,
    ) -> dict[str, BranchScore]:
        rows = getattr(features, branch)
        drawn = named_generator(self.seed, concept, sorted(chosen.fixed.items()))
        gram, products = self._shared[branch].stacked(rows)
        fit = fit_concept(gram, len(rows), drawn, **self.fitting)
        members = None
        if groups is None or count_exchanges(groups) >= LEAST_EXCHANGES:
            counts = len(rows), len(gram) - len(rows)
            members = exchanged_members(*counts, self.permutations, self.seed, groups).to(gram.device)
        scores = {}
        for alignment, product in zip(self.gradients, products, strict=True):
            lengths = self._lengths[branch, alignment]
            derivatives = derivatives_along(fit.weights, product, fit.norm, lengths)
            helps = derivatives < 0
            shares = helps.double().mean(1)
            cosines = torch.nan_to_num(derivatives / fit.norm[:, None] / lengths, 0, 0, 0)
            draws, effect = torch.zeros(0, 1), Score(math.nan, math.nan, math.nan)
            if members is not None:
                draws = input_scores(gram_exchange_derivatives(gram, product, lengths, members))
                effect = effect_interval(draws, self.groups, self.seed)
            scores[alignment] = BranchScore(
                frames=tuple(helps.double().mean(0).tolist()),
                spread=float(shares.std()),
                cosine=-float(cosines.mean()),
                accuracy=float(fit.accuracy.mean()),
                t_test_p=significant(shares, self._random(branch, alignment, len(rows))).p_value,
                effect=(effect.value, effect.low, effect.high),
                draws=tuple(draws.mean(1).tolist()),
                runs=tuple(shares.tolist()),
                vectors=float((fit.norm > 0).double().mean()),
            )
        return scores

    def _random(self, branch: str, alignment: str, images: int) -> Float[Tensor, " runs"]:
        """Score random vectors that are trained on as many rows as a concept set has."""
        gram, products = self._shared[branch].stacked()
        size = max(2, min(images, len(gram) // 2))
        if (branch, alignment, size) not in self._random_scores:
            drawn = named_generator(self.seed, "random", size)
            fit = fit_random(gram, size, drawn, **self.fitting)
            for name, product in zip(self.gradients, products, strict=True):
                lengths = self._lengths[branch, name]
                derivatives = derivatives_along(fit.weights, product, fit.norm, lengths)
                self._random_scores[branch, name, size] = (derivatives < 0).double().mean(1)
        return self._random_scores[branch, alignment, size]


NUMBERS_OF_RUNS = (2, 5, 10, 20, 40, 60, 80, 100, 200, 500, 1000)


@dataclass(frozen=True)
class RunsScore:
    """Scores over the first runs of all concept sets of one kind, for one alignment of the loss.

    Attributes:
        concept: the concept that varies in the sets.
        alignment: "aligned" or "unaligned".
        runs: number of runs.
        mean: for each branch, the mean over runs and sets of its sensitivity.
        spread: for each branch, the standard deviation over runs of the mean over sets.
        csm: CSM_S or CSM_R, the mean over sets of the ratios.
    """

    concept: Concept
    alignment: str
    runs: int
    mean: dict[str, float]
    spread: dict[str, float]
    csm: float


def score_by_runs(sets: Sequence[SetScore], numbers: Sequence[int] = NUMBERS_OF_RUNS) -> list[RunsScore]:
    """Average the sensitivities over the first 2, 5, 10, ... runs, which shows how many runs are enough.

    No vector is fitted and no model is run: the scores of single runs are averaged.

    Blind to: everything that all runs share, such as the images of a set that has no more images than a run
    draws, and the test frames.

    Args:
        sets: scores of concept sets with equal numbers of runs.
        numbers: numbers of runs, each at least 1; larger ones than the sets have are left out, and the number
            that they have is added.

    Returns:
        Scores by concept, alignment and number, in increasing order.

    Raises:
        InputError: sets lack the scores of single runs or have different numbers of them, or a number is
            below 1.

    Example:
        >>> from candlelight.evaluation.concepts.set_scores import BranchScore
        >>> def score(*runs):
        ...     return dict.fromkeys(ALIGNMENTS, BranchScore((0.5,), 0.1, 0.9, 0.001, runs=runs))
        >>> one = SetScore("albedo", {}, 20, {"reflectance": score(1.0, 0.5), "shading": score(0.5, 0.5)})
        >>> [(some.runs, some.csm) for some in score_by_runs([one], [1, 2]) if some.alignment == "aligned"]
        [(1, 2.0), (2, 1.5)]
    """
    counts = {len(one.branches[name][how].runs) for one in sets for name in BRANCHES for how in ALIGNMENTS}
    if len(counts) != 1 or counts == {0}:
        raise InputError(f"expected scores of the same number of runs in all sets, got {sorted(counts)}")
    if min(numbers, default=1) < 1:
        raise InputError(f"`numbers` must be 1 or larger, got {min(numbers)}")
    whole = counts.pop()
    chosen = sorted({number for number in numbers if number < whole} | {whole})
    found = []
    for concept in METRICS:
        some = [one for one in sets if one.concept == concept]
        for alignment in ALIGNMENTS if some else ():
            shares = {
                name: np.array([one.branches[name][alignment].runs for one in some]) for name in BRANCHES
            }
            found += [_first(concept, alignment, shares, number) for number in chosen]
    return found


def _first(concept: Concept, alignment: str, shares: dict[str, np.ndarray], number: int) -> RunsScore:
    """Average the shares, one row for each set, of the first runs."""
    first = {name: rows[:, :number] for name, rows in shares.items()}
    means = {name: rows.mean(1) for name, rows in first.items()}
    return RunsScore(
        concept,
        alignment,
        number,
        {name: float(values.mean()) for name, values in means.items()},
        {
            name: float(rows.mean(0).std(ddof=1)) if number > 1 else float("nan")
            for name, rows in first.items()
        },
        mean_ratio(means[WANTED[concept]], means[UNWANTED[concept]]),
    )


METRIC, VERSION = "csm", 5


def score_concepts(
    models: Mapping[str, DecompositionModel],
    albedo: ConceptSets | None,
    illumination: ConceptSets | None,
    negatives: Images,
    test: Decompositions,
    *,
    controls: Mapping[Concept, ConceptSets] | None = None,
    layer: str | tuple[str, str] | None = None,
    runs: int = 100,
    seed: int = 0,
    significance: SetTest = "t-test",
    p: float = 0.01,
    permutations: int = 999,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    size: tuple[int, int] | None = None,
    max_sets: int | None = None,
    batch_size: int = 16,
    device: str = "cpu",
    steps: FinishedSteps | None = None,
    storage: RowStorage = DEFAULT_STORAGE,
) -> dict[str, StatisticResult]:
    """Score models with CSM_S and CSM_R (Gupta et al. 2022, sec. 3 and 4).

    For each concept set and branch, ``runs`` vectors separate the set's images from negatives (`fit_cavs`).
    The score of a vector is the share of test frames on which it lowers the loss (eq. 3). Both branches draw
    the same images. The scores of a set depend on ``seed`` and its factors, not on the other sets. With
    ``controls`` each set is scored again with each of its controls in place of the negatives: then the
    vectors cannot follow the scene, which a set and its controls share. The scores against controls come
    first; they are ratios of means over all sets and controls, with intervals over scenes and controls too.

    Two tests tell whether a set matters to a branch. The paper's t-test compares the scores of the runs with
    scores of random vectors (`significant`); it finds differences in more than half of the sets in which
    there are none. The permutation test (`permutation_test`) exchanges images of the set with its control; it
    is made against negatives only where they are of the same scenes or no scenes are known. With several
    controls a set is significant if it is against each.

    The loss is the MSE over pixels with an albedo above 0, in two alignments. "unaligned" is the MSE of the
    prediction, as in the paper; a decomposition is defined up to one scale per image, so this CSM also
    measures the scale of the reflectance. "aligned" is the MSE after the best scale, and is reported first.
    There are also three rules on significance (`Ratios`): all sets; sets that are significant for both
    branches, as in the paper (sec. 4.2); and sets that are significant for the wanted branch. All sets come
    first, because an ideal model is not sensitive to the unwanted concept, so the paper's rule would drop its
    sets.

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
        controls: control sets by concept, such as
            ``{"albedo": open_data("concepts", ..., set_name="albedo_pose")}``: images of the same scenes in
            which camera or poses vary (`candlelight.evaluation.views.match_controls`).
        layer: None for the output, the name of one hidden layer, or two names (reflectance first).
        runs: vectors for each set and branch, at least 2; 80 are enough according to the paper.
        seed: seed of all random draws.
        significance: "t-test" or "permutation", the test that decides about the sets of a rule; the details
            of a result have both.
        p: level of this test; the permutation test is corrected for the number of sets.
        permutations: exchanges of images; p-values of the permutation test are multiples of
            1 / (permutations + 1).
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
        storage: limit of the activations of one branch in memory, and the folder of the temporary files that
            hold larger ones; results do not depend on it.

    Returns:
        A result for each model: ratios with 95 % intervals over groups of test frames, higher is better;
        against controls over scenes and controls too, and none with fewer than 6 of either. Its details have
        the scores of all ``sets``, sensitivities of single ``frames``, means over the sets, and ``notes`` on
        sets of fewer than 20 images and on too few scenes or controls.

    Raises:
        InputError: ``classifier`` or ``significance`` is misspelt, there are no concept sets, albedo and
            illumination sets are swapped, a set has no control or fewer than 2 images, controls have no sets,
            there are no test frames or some lack ground truth, images have several sizes, a layer cannot be
            read, there are too few images, or a temporary file cannot be written.
    """
    check_choice("classifier", classifier, Classifier)
    check_choice("significance", significance, SetTest)
    controls = controls or {}
    chosen_sets = choose_sets(albedo, illumination, controls, max_sets, seed)
    views = [view for view in (albedo, illumination, *controls.values(), negatives, test) if view is not None]
    named_models = identify_models(models, views, "linear", None)
    if size is not None and any(isinstance(named.model, Predictions) for named in named_models.values()):
        raise InputError(f"predictions are scored at their own size: omit {argument('size')}, or use a model")
    for name, named in named_models.items():
        if layer is not None and not isinstance(named.model, nn.Module):
            raise InputError(f"layer {layer}: `{name}` has no hidden layers; omit it, or give a network")
    settings: dict[str, Any] = {"runs": runs, "seed": seed, "p": p, "classifier": classifier}
    settings |= {"regularisation": regularisation, "size": size, "max_sets": max_sets}
    settings |= {"significance": significance, "permutations": permutations}
    pair = (layer, layer) if isinstance(layer, str) else layer
    fitting: dict[str, Any] = {"runs": runs, "classifier": classifier, "regularisation": regularisation}
    # The level and the choice of the test change no score of a set.
    run = settings | {
        "layer": layer,
        "max_sets": None,
        "batch_size": batch_size,
        "significance": None,
        "p": None,
    }
    steps = steps or FinishedSteps()
    keys = {
        name: model_key(named, device, metric=METRIC, version=VERSION, **run)
        for name, named in named_models.items()
    }
    results = {}
    for name, named in named_models.items():
        probe = Probe(named, size, batch_size, device, storage)
        fingerprint = Fingerprint()
        against = branch_activations(probe, pair, negatives, range(len(negatives.ids)), fingerprint)
        slopes = branch_gradients(probe, pair, test, fingerprint)
        scorer = SetScorer(against, slopes, test.groups, fitting, permutations, seed)
        sets = []
        for chosen in progress_bar(chosen_sets, desc=f"{name}: sets", unit="set"):
            key = chosen.key(keys[name], fingerprint)
            computed = steps.get_or_compute(key, partial(_score, scorer, probe, pair, chosen, negatives))
            sets.append(from_step(computed, chosen.concept, chosen.images))
        sets = [merge_controls(one) for one in with_p_values(sets)]
        result = _result(named, sets, settings, fingerprint, test, negatives, controls, chosen_sets)
        about = result.about
        if layer is not None:
            about = replace(about, model={**about.model, "layer": layer})
        details = result.details | {
            "notes": [
                *_notes(chosen_sets, negatives),
                *_few_units(result),
                *probe.notes(),
                *_undefined(name, sets, slopes),
            ]
        }
        results[name] = replace(result, about=about, details=details)
        del against, slopes, scorer  # the rows of the next model may need their room
    return results


def _score(
    scorer: SetScorer, probe: Probe, layers: BranchLayers, chosen: ChosenSet, negatives: Images
) -> dict[str, Tensor]:
    """Run the model on one concept set and its control, and score the set."""
    features = branch_activations(probe, layers, chosen.view, chosen.images.rows, Fingerprint())
    branches = scorer.score(chosen.concept, chosen.images, features, chosen.groups(negatives))
    for number, control in enumerate(chosen.controls, 1):
        assert chosen.control_view is not None
        against = branch_activations(probe, layers, chosen.control_view, control.rows, Fingerprint())
        groups = chosen.groups(set_images(chosen.control_view, control))
        controlled = replace(scorer, against=against).score(chosen.concept, chosen.images, features, groups)
        ending = CONTROLLED if len(chosen.controls) == 1 else f"{CONTROLLED} {number}"
        for branch, scores in controlled.items():
            branches[branch] |= {alignment + ending: score for alignment, score in scores.items()}
    images = chosen.images
    return to_step(SetScore(chosen.concept, dict(images.fixed), len(images.rows), branches, images.objects))


def _notes(chosen_sets: Sequence[ChosenSet], negatives: Images) -> list[str]:
    """Word a note on the smallest concept set, the smallest control and the negatives, if they are small."""
    counts = {"smallest concept set": min(len(one.images.rows) for one in chosen_sets)}
    controls = [len(control.rows) for one in chosen_sets for control in one.controls]
    counts |= {"smallest control": min(controls)} if controls else {}
    notes = few_images(counts | {"negatives": len(negatives.ids)})
    groups = [one.groups(negatives) for one in chosen_sets]
    if any(one is not None and count_exchanges(one) < LEAST_EXCHANGES for one in groups):
        notes.append(
            "permutation test: sets of one scene cannot be exchanged with negatives of others, so it is made "
            "against controls alone"
        )
    return notes


def _few_units(result: StatisticResult) -> list[str]:
    """Word a note on each score against controls of too few scenes or controls for an interval."""
    notes = []
    for metric in METRICS.values():
        counts = result.units.get(f"{metric} aligned{CONTROLLED}, all sets", {})
        if counts and min(counts.values()) < LEAST_GROUPS:
            got = " and ".join(map(str, counts.values()))
            notes.append(
                f"{metric} against controls: intervals and verdicts need {LEAST_GROUPS} or more "
                f"{' and '.join(counts)}, got {got}; render more"
            )
    return notes


def _undefined(model: str, sets: Sequence[SetScore], slopes: Mapping[str, Branches]) -> list[str]:
    """Word a note on each branch that is insensitive to everything: it is ideal, or it is constant."""
    notes = []
    for branch in BRANCHES:
        exact = [how for how, one in slopes.items() if not bool(row_norms(getattr(one, branch)).any())]
        if exact:
            notes.append(
                f"`{model}`, {branch} {' and '.join(exact)}: the predictions equal the ground truth of all "
                "test frames, so the loss has no gradient: an ideal branch, whose sensitivities are all 0"
            )
        if not any(score.vectors for one in sets for score in one.branches[branch].values()):
            notes.append(
                f"`{model}`, {branch}: all images give one output, so there is no concept vector: a constant "
                "branch, whose sensitivities are all 0"
            )
    return notes


def _result(
    named: NamedModel,
    sets: list[SetScore],
    settings: dict[str, Any],
    fingerprint: Fingerprint,
    test: Decompositions,
    negatives: Images,
    controls: Mapping[Concept, ConceptSets],
    chosen_sets: Sequence[ChosenSet],
) -> StatisticResult:
    data = fingerprint.describe(test) | {"negatives": negatives.identity.name}
    data |= {"controls": {concept: view.identity.set_name for concept, view in controls.items()}}
    rule = (settings["significance"], settings["p"])
    ratios = Ratios(sets, *rule)
    units = ratios.units()
    scores, replicates = resampled_interval(ratios, test.groups, seed=settings["seed"], units=units)
    labels = {METRICS[one.concept]: one.labels for one in chosen_sets}
    return StatisticResult(
        make_provenance(METRIC, VERSION, "higher", named, data, settings),
        scores,
        replicates,
        distinct_groups(test.groups),
        (),
        {
            "sets": [one.describe(*rule) for one in sets],
            "groups": every_factor_group(sets, test.groups, settings["seed"]),
            "by_runs": score_by_runs(sets),
            "by_control": {
                name: dict(zip(labels[name.partition(" ")[0]], values, strict=False))
                for name, values in ratios.by_control().items()
            },
            "frames": {"ids": list(test.ids), **frame_means(sets)},
        },
        units,
    )
