"""TCAV (Kim et al. 2018) of concepts, classes and layers of any network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.concepts.cav import Fit, fit_concept, fit_random, named_generator
from candlelight.evaluation.concepts.cav_diagnostics import Probe, common_size
from candlelight.evaluation.concepts.permutation import (
    LEAST_EXCHANGES,
    ImageGroups,
    count_exchanges,
    exchanged_members,
    gram_exchange_derivatives,
    input_scores,
    known_groups,
    permutation_test,
)
from candlelight.evaluation.concepts.rows import RowSource, SharedRows, row_norms
from candlelight.evaluation.concepts.sensitivity import (
    GradientOf,
    Significance,
    Target,
    derivatives_along,
    parse_target,
    significant,
)
from candlelight.evaluation.concepts.sets import few_images, read_activations, read_gradients
from candlelight.evaluation.concepts.solvers import Classifier
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Fingerprint, check_srgb_image, make_provenance
from candlelight.evaluation.run.named_models import identify_models
from candlelight.evaluation.run.result import MeanResult
from candlelight.evaluation.run.steps import FinishedSteps, model_key
from candlelight.evaluation.views import DataIdentity, Images
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar


@dataclass(frozen=True, eq=False)
class TCAVScore:
    """Scores of one concept at one layer, float64.

    All are nan if no vector exists, because the concept's images and the negatives have equal activations.

    Attributes:
        shares: for each test image, the share of the runs in which its derivative has the wanted sign.
        gains: for each test image, the mean over the runs of its derivative along the vector of length 1;
            positive in the wanted direction.
        run_scores: TCAV score of each run: the share of test images with the wanted sign.
        run_gains: mean of the derivatives of each run over the test images.
        random_scores: TCAV scores of vectors between random subsets of the negatives; nan if their
            activations are all equal. At a layer after which the network is linear each is 0 or 1.
        random_gains: mean of the derivatives along these vectors, of length 1, over the test images.
        accuracy: mean held-out accuracy of the vectors; near 0.5 the layer does not represent the concept.
        flat: share of derivatives that are exactly 0, which count as insensitive.
        draws: mean of the test statistic for the concept and for each exchange with its control; empty
            without a control.
    """

    shares: Float[Tensor, " inputs"]
    gains: Float[Tensor, " inputs"]
    run_scores: Float[Tensor, " runs"]
    run_gains: Float[Tensor, " runs"]
    random_scores: Float[Tensor, " runs"]
    random_gains: Float[Tensor, " runs"]
    accuracy: Float[Tensor, ""]
    flat: Float[Tensor, ""]
    draws: Float[Tensor, " draws"]

    def significance(self, p: float) -> Significance | None:
        """Compare the runs with random vectors by the paper's t-test; None if either has no vector."""
        if bool(self.run_scores.isnan().any()) or bool(self.random_scores.isnan().any()):
            return None
        return significant(self.run_scores, self.random_scores, p)

    def describe(self, p: float) -> dict[str, Any]:
        """Collect the details of a result, without the scores of single images."""
        found = self.significance(p)
        return {
            "score": float(self.run_scores.mean()),
            "spread": float(self.run_scores.std()),
            "derivative": float(self.run_gains.mean()),
            "derivative_spread": float(self.run_gains.std()),
            "accuracy": float(self.accuracy),
            "flat": float(self.flat),
            "random": float(self.random_scores.mean()),
            "random_spread": float(self.random_scores.std()),
            "random_derivative": float(self.random_gains.mean()),
            "random_derivative_spread": float(self.random_gains.std()),
            "t_test_p": None if found is None else found.p_value,
            "significant": found is not None and found.passed,
        }


class LayerScorer:
    """Score concepts at one layer; the negatives and the gradients are shared by all concepts.

    Args:
        negatives: activations of the negative images, at least 4 rows.
        gradients: gradient of the target by the activations for each test image, at least one row.
        gradient_of: whether the target is a loss or a logit; it decides which sign counts.
        fitting: further arguments of `fit_cavs`: runs, classifier and regularisation.
        seed: seed of all draws. Concepts of one size are separated from the same negatives in each run.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> concept, negatives = torch.randn(20, 3, generator=g), torch.randn(30, 3, generator=g)
        >>> concept[:, 0] += 9
        >>> gradients = torch.tensor([[1.0, 0, 0], [-2.0, 0, 0]])
        >>> scorer = LayerScorer(negatives, gradients, "logit", {"runs": 5}, seed=0)
        >>> score = scorer.score(concept)
        >>> score.shares, score.gains.round()
        (tensor([1., 0.], dtype=torch.float64), tensor([ 1., -2.], dtype=torch.float64))
    """

    def __init__(
        self,
        negatives: Float[Tensor, "negatives dim"] | RowSource,
        gradients: Float[Tensor, "inputs dim"] | RowSource,
        gradient_of: GradientOf,
        fitting: Mapping[str, Any],
        seed: int,
    ) -> None:
        self._negatives, self._gradients = negatives, gradients
        self._gradient_of: GradientOf = gradient_of
        self._fitting, self._seed = dict(fitting), seed
        self._random: dict[int, tuple[Tensor, Tensor]] = {}

    @cached_property
    def _shared(self) -> SharedRows:
        return SharedRows(self._negatives, [self._gradients])

    @cached_property
    def _lengths(self) -> Tensor:
        return row_norms(self._gradients)

    def score(
        self,
        concept: Float[Tensor, "concepts dim"] | RowSource,
        control: Float[Tensor, "controls dim"] | RowSource | None = None,
        permutations: int = 999,
        groups: ImageGroups | None = None,
    ) -> TCAVScore:
        """Score one concept, and its exchanges with the control if there is one.

        Args:
            concept: activations of the concept images, at least 2 rows.
            control: activations of the control images, at least 2 rows.
            permutations: number of exchanges.
            groups: as in `exchange_derivatives`.

        Raises:
            InputError: there are too few rows, or they are not finite.
        """
        gram, (products,) = self._shared.stacked(concept)
        fit = fit_concept(gram, len(concept), named_generator(self._seed, "concept"), **self._fitting)
        helps, gains = self._counted(fit, products)
        draws = helps.new_zeros(0)
        if control is not None:
            draws = self._exchanged(concept, control, permutations, groups)
        random_scores, random_gains = self._random_scores(len(concept))
        return TCAVScore(
            shares=helps.mean(0),
            gains=gains.mean(0),
            run_scores=helps.mean(1),
            run_gains=gains.mean(1),
            random_scores=random_scores,
            random_gains=random_gains,
            accuracy=fit.accuracy.mean() if bool(fit.norm.any()) else helps.new_tensor(torch.nan),
            flat=(gains == 0).double().mean() if bool(fit.norm.any()) else helps.new_tensor(torch.nan),
            draws=draws,
        )

    def _counted(self, fit: Fit, products: Tensor) -> tuple[Tensor, Tensor]:
        """Tell for each run and image whether the sign is the wanted one, and how far the target moves."""
        derivatives = derivatives_along(fit.weights, products, fit.norm, self._lengths)
        if not bool(fit.norm.any()):
            return derivatives * torch.nan, derivatives * torch.nan
        unit = torch.nan_to_num(derivatives / fit.norm[:, None], 0, 0, 0)
        helps = input_scores(derivatives, "share", self._gradient_of)
        return helps, input_scores(unit, "derivative", self._gradient_of)

    def _random_scores(self, images: int) -> tuple[Tensor, Tensor]:
        """Score vectors between random subsets of the negatives, as large as the concept set if possible."""
        gram, (products,) = self._shared.stacked()
        size = max(2, min(images, len(gram) // 2))
        if size not in self._random:
            drawn = named_generator(self._seed, "random", size)
            fit = fit_random(gram, size, drawn, **self._fitting)
            helps, gains = self._counted(fit, products)
            self._random[size] = helps.mean(1), gains.mean(1)
        return self._random[size]

    def _exchanged(
        self,
        concept: Tensor | RowSource,
        control: Tensor | RowSource,
        permutations: int,
        groups: ImageGroups | None,
    ) -> Tensor:
        """Compute the statistic of `permutation_test` for the concept and for each exchange."""
        counts = len(concept), len(control)
        members = exchanged_members(*counts, permutations, self._seed, groups).to(concept.device)
        gram, (products,) = SharedRows(control, [self._gradients]).stacked(concept)
        derivatives = gram_exchange_derivatives(gram, products, self._lengths, members)
        return input_scores(derivatives, "derivative", self._gradient_of).mean(1)


def scores_to_step(scores: Mapping[str, TCAVScore]) -> dict[str, Tensor]:
    """Name all tensors of the scores at each layer, for `candlelight.evaluation.run.steps`."""
    return {
        f"{number} {field.name}": getattr(score, field.name).cpu()
        for number, score in enumerate(scores.values())
        for field in fields(TCAVScore)
    }


def step_to_scores(step: Mapping[str, Tensor], layers: tuple[str, ...]) -> dict[str, TCAVScore]:
    """Make the scores at each layer of the tensors of `scores_to_step`."""
    return {
        layer: TCAVScore(**{field.name: step[f"{number} {field.name}"] for field in fields(TCAVScore)})
        for number, layer in enumerate(layers)
    }


METRIC, VERSION = "tcav", 2


def score_tcav(
    models: Mapping[str, nn.Module | NamedModel],
    concepts: Mapping[str, Images],
    negatives: Images,
    test: Images,
    *,
    layers: Sequence[str],
    target: str | Target,
    controls: Mapping[str, Images] | None = None,
    runs: int = 100,
    seed: int = 0,
    classifier: Classifier = "svm",
    regularisation: float = 0.01,
    p: float = 0.05,
    permutations: int = 999,
    size: tuple[int, int] | None = None,
    batch_size: int = 16,
    device: str = "cpu",
    steps: FinishedSteps | None = None,
) -> dict[str, MeanResult]:
    """Score networks with TCAV (Kim et al. 2018, sec. 3) at hidden layers.

    For each layer and concept, ``runs`` vectors separate the activations of the concept's images from those
    of negatives (`fit_cavs`). The TCAV score of a run is the share of test images at which the derivative of
    the target along the vector has the wanted sign (eq. 2): above 0 for a logit, below 0 for a loss. A result
    has two columns for each concept and layer:

    - ``CONCEPT at LAYER``: for each test image, the share of runs with the wanted sign. Its mean is the mean
      TCAV score of the runs.
    - ``CONCEPT at LAYER, derivative``: for each test image, the mean over runs of the derivative along the
      vector of length 1, positive in the wanted direction. It shrinks to 0 where the sign is a matter of
      chance; the count of signs, which is 0 or 1 at each image and run, does not.

    ``details["scores"]`` holds the spread over runs, the held-out accuracy of the vectors, scores of random
    vectors, the paper's t-test against them (`significant`), and, where there is a control, the permutation
    test (`permutation_test`), whose p-values are corrected for all concepts with a control at a layer;
    ``details["notes"]`` names concepts and controls with fewer than 20 images.

    Blind to: the correctness of the network; the common scene of the images of a concept, which vectors may
    represent instead of the concept (a control tells them apart); and the direction of the activations that
    no image of the two sets shows. Scores of different layers have different units of the derivative.

    Args:
        models: networks by name, on ``device``. Images are sRGB-encoded, in [0, 1], unless the network has an
            attribute ``colour_space`` that says "linear".
        concepts: images of each concept, by name; 20 or more are advised. `set_images` makes such a view of
            one set of `open_data("concepts", ...)`.
        negatives: images without the concepts, at least 4. Use at least twice as many as images in the
            largest concept, so that random vectors are trained on sets of that size.
        test: images at which the target is differentiated.
        layers: names of hidden layers, as ``named_modules()`` gives them; several are a sweep.
        target: text for `parse_target`, or a `Target`.
        controls: control images of some concepts, by the name of the concept: the same scene without the
            concept.
        runs: vectors for each concept and layer, at least 2.
        seed: seed of all random draws.
        classifier: see `fit_cavs`; it trains the random vectors too.
        regularisation: see `fit_cavs`.
        p: level of the t-test.
        permutations: exchanges of the permutation test.
        size: height and width to which all images are resized; needed if they differ in size.
        batch_size: images per pass.
        device: torch device of the networks.
        steps: keeps finished concepts, so that an interrupted run resumes; negatives and test images are run
            again.

    Returns:
        A result for each network, with 95 % intervals over groups of test images. No direction is better.

    Raises:
        InputError: an argument is misspelt or out of range; a model is no `torch.nn.Module`; a layer does not
            exist, does not run once, or the target does not depend on it; the target does not fit the
            output; images have several sizes; there are too few images; or a number is not finite.

    Example:
        >>> from candlelight.evaluation.views import open_data
        >>> striped, plain, zebras = (open_data("images", one) for one in folders)  # doctest: +SKIP
        >>> views = {"striped": striped}, plain, zebras  # doctest: +SKIP
        >>> score_tcav({"net": net}, *views, layers=["layer4"], target="logit:340")["net"]  # doctest: +SKIP
    """
    check_choice("classifier", classifier, Classifier)
    chosen = parse_target(target) if isinstance(target, str) else target
    controls = dict(controls or {})
    _check_arguments(concepts, controls, layers)
    views = [*concepts.values(), *controls.values(), negatives, test]
    named_models = identify_models(models, views, "srgb", None)
    for name, named in named_models.items():
        if not isinstance(named.model, nn.Module):
            raise InputError(f"`{name}` has no hidden layers: TCAV needs a torch.nn.Module")
    settings: dict[str, Any] = {"layers": list(layers), "target": chosen.name, "runs": runs, "seed": seed}
    settings |= {"gradient_of": chosen.gradient_of, "target_sha256": chosen.sha256, "p": p, "size": size}
    settings |= {"classifier": classifier, "regularisation": regularisation}
    settings |= {"permutations": permutations} if controls else {}
    run = _Run(tuple(layers), chosen, dict(concepts), controls, negatives, test, settings)
    results = {}
    for name, named in named_models.items():
        key = None
        if steps is not None and isinstance(target, str):  # a function that is given in Python may change
            key = model_key(named, device, metric=METRIC, version=VERSION, batch_size=batch_size, **settings)
        probe = Probe(named, size, batch_size, device)
        results[name] = run.score(probe, steps or FinishedSteps(), key)
    return results


def _check_arguments(
    concepts: Mapping[str, Images], controls: Mapping[str, Images], layers: Sequence[str]
) -> None:
    if not concepts:
        raise InputError("expected at least one concept, got none")
    if isinstance(layers, str) or not layers or len(set(layers)) < len(layers):
        raise InputError(
            f"{argument('layer', 'layers')} must be a list of different names, at least one, got {layers!r}"
        )
    if surplus := [name for name in controls if name not in concepts]:
        raise InputError(f"control `{surplus[0]}`: expected one of the concepts, {', '.join(concepts)}")
    for kind, views in (("concept", concepts), ("control of concept", controls)):
        for name, view in views.items():
            if len(view.ids) < 2:
                raise InputError(
                    f"{kind} `{name}`: expected at least 2 images, got {len(view.ids)}; add images"
                )


@dataclass(frozen=True)
class _Run:
    """Arguments that are the same for all networks."""

    layers: tuple[str, ...]
    target: Target
    concepts: dict[str, Images]
    controls: dict[str, Images]
    negatives: Images
    test: Images
    settings: dict[str, Any]

    def score(self, probe: Probe, steps: FinishedSteps, key: Mapping[str, Any] | None) -> MeanResult:
        """Score one network."""
        fingerprint = Fingerprint()
        gradients = read_gradients(probe, self.layers, self.test, self.target, fingerprint)
        against = read_activations(probe, self.layers, self.negatives, fingerprint)
        size = common_size([gradients.size, against.size])
        fitting = {name: self.settings[name] for name in ("runs", "classifier", "regularisation")}
        scorers = {
            layer: LayerScorer(
                against.rows[layer],
                gradients.rows[layer],
                self.target.gradient_of,
                fitting,
                self.settings["seed"],
            )
            for layer in self.layers
        }
        scores = {}
        bar = progress_bar(self.concepts, desc=f"{probe.named.identity.name}: concepts", unit="concept")
        for name in bar:
            self._add(name, fingerprint)
            read = {"read": fingerprint.hexdigest(), "groups": self._groups(name)}
            whole = None if key is None else {**key, **read}
            step = steps.get_or_compute(whole, partial(self._step, probe, scorers, name, size))
            scores[name] = step_to_scores(step, self.layers)
        return self._result(probe, scores, fingerprint)

    def _add(self, concept: str, fingerprint: Fingerprint) -> None:
        """Add the images of a concept and of its control to the hash."""
        for views in (self.concepts, self.controls):
            if view := views.get(concept):
                for row, identifier in enumerate(view.ids):
                    fingerprint.add(identifier, check_srgb_image(view[row]))

    def _step(
        self, probe: Probe, scorers: Mapping[str, LayerScorer], concept: str, size: tuple[int, int]
    ) -> dict[str, Tensor]:
        """Run a network on the images of one concept and of its control, and score each layer."""
        found = read_activations(probe, self.layers, self.concepts[concept], Fingerprint())
        common_size([size, found.size])
        control: dict[str, Tensor | RowSource] = {}
        groups = self._groups(concept)
        if concept in self.controls and self._tested(concept):
            read = read_activations(probe, self.layers, self.controls[concept], Fingerprint())
            common_size([size, read.size])
            control = read.rows
        permutations = self.settings.get("permutations", 0)
        scores = {
            layer: scorer.score(found.rows[layer], control.get(layer), permutations, groups)
            for layer, scorer in scorers.items()
        }
        return scores_to_step(scores)

    def _result(
        self, probe: Probe, scores: Mapping[str, Mapping[str, TCAVScore]], fingerprint: Fingerprint
    ) -> MeanResult:
        data = fingerprint.describe(self.test) | {"negatives": view_name(self.negatives.identity)}
        data["concepts"] = {name: view_name(view.identity) for name, view in self.concepts.items()}
        data |= {"controls": {name: view_name(view.identity) for name, view in self.controls.items()}}
        columns = {}
        for ending, of in (("", "shares"), (", derivative", "gains")):
            for name, of_layers in scores.items():
                for layer, score in of_layers.items():
                    columns[f"{name} at {layer}{ending}"] = tuple(getattr(score, of).tolist())
        return MeanResult(
            make_provenance(METRIC, VERSION, "neither", probe.named, data, self.settings),
            tuple(self.test.ids),
            tuple(self.test.groups),
            columns,
            (),
            {
                "scores": [one for layer in self.layers for one in self._describe(layer, scores)],
                "notes": [*self._notes(), *probe.notes()],
            },
            {f"{name} at {layer}": (0.0, 1.0) for name, of_layers in scores.items() for layer in of_layers},
        )

    def _groups(self, concept: str) -> ImageGroups | None:
        """Return the groups of the images of a concept and of its control; None if there are none known."""
        if concept not in self.controls:
            return None
        return known_groups(self.concepts[concept], self.controls[concept])

    def _tested(self, concept: str) -> bool:
        """Tell whether groups leave enough exchanges of a concept and its control for a p-value."""
        groups = self._groups(concept)
        return groups is None or count_exchanges(groups) >= LEAST_EXCHANGES

    def _notes(self) -> list[str]:
        """Word a note on each concept and control that is small, and on the scenes of the tests."""
        counts = {f"concept `{name}`": len(view.ids) for name, view in self.concepts.items()}
        notes = few_images(
            counts | {f"control of `{name}`": len(view.ids) for name, view in self.controls.items()}
        )
        independent = [f"`{name}`" for name in self.controls if self._groups(name) is None]
        if independent:
            notes.append(
                f"permutation test of {', '.join(independent)}: no scenes are known, so all images count as "
                "independent; p is too small if several show one scene"
            )
        return notes + [
            f"control of `{name}`: too few scenes for a permutation test; use at least 4 in each of the "
            "two, or the same ones in both"
            for name in self.controls
            if not self._tested(name)
        ]

    def _describe(self, layer: str, scores: Mapping[str, Mapping[str, TCAVScore]]) -> list[dict[str, Any]]:
        """Collect the details of all concepts at one layer, with the permutation test over these concepts."""
        tested = [name for name in scores if name in self.controls and self._tested(name)]
        test = (
            permutation_test(torch.stack([scores[name][layer].draws for name in tested])) if tested else None
        )
        details = []
        for name, of_layers in scores.items():
            one = {"layer": layer, "concept": name, "images": len(self.concepts[name].ids)}
            one |= of_layers[layer].describe(self.settings["p"])
            if name in self.controls:
                row = tested.index(name) if name in tested else None
                one["control"] = {
                    "images": len(self.controls[name].ids),
                    "scenes": None
                    if (groups := self._groups(name)) is None
                    else [len(set(n)) for n in groups],
                    "effect": None if test is None or row is None else float(test.effect[row]),
                    "permutation_p": None if test is None or row is None else float(test.p_value[row]),
                    "adjusted_p": None if test is None or row is None else float(test.adjusted[row]),
                }
            details.append(one)
        return details


def view_name(identity: DataIdentity) -> str:
    """Name data with their set and split.

    Example:
        >>> view_name(DataIdentity("demo", "frames", "albedo"))
        'demo, albedo'
    """
    return ", ".join(part for part in (identity.name, identity.set_name, identity.split) if part)
