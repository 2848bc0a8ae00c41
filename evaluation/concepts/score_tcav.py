"""TCAV (Kim et al. 2018) of concepts, classes and layers of any network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from candlelight.evaluation.catalogue.concepts_options import TCAVOptions
from candlelight.evaluation.catalogue.record import Evaluation, Reading
from candlelight.evaluation.concepts.cav import Fit
from candlelight.evaluation.concepts.concept_data import (
    ReadImages,
    TCAVData,
    few_images,
    few_negatives,
    open_tcav,
    view_name,
)
from candlelight.evaluation.concepts.contrast import Contrast
from candlelight.evaluation.concepts.permutation import (
    LEAST_EXCHANGES,
    ImageGroups,
    count_exchanges,
    input_scores,
    known_groups,
    permutation_test,
)
from candlelight.evaluation.concepts.probe import (
    LayerRows,
    Probe,
    check_finite_rows,
    common_size,
    hidden_gradients,
    hidden_rows,
    linear_images,
    probe_rows,
)
from candlelight.evaluation.concepts.rows import RowSource, row_storage
from candlelight.evaluation.concepts.sensitivity import (
    GradientOf,
    Significance,
    Target,
    parse_target,
    significant,
)
from candlelight.evaluation.models.model_spec import NamedModel
from candlelight.evaluation.run.batches import Batch
from candlelight.evaluation.run.evaluate import Run
from candlelight.evaluation.run.fingerprints import make_provenance
from candlelight.evaluation.run.hidden_layers import match_layers
from candlelight.evaluation.run.result import MeanResult, Result
from candlelight.evaluation.run.steps import model_key
from candlelight.evaluation.views import Images
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
        self._gradient_of: GradientOf = gradient_of
        self._gradients, self._fitting, self._seed = {"": gradients}, dict(fitting), seed
        self._contrast = Contrast(negatives, self._gradients, self._fitting, seed)

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
        gram, products = self._contrast.products(concept)
        fit = self._contrast.fit(gram, len(concept), ("concept",))
        helps, gains = self._counted(fit, self._contrast.derivatives(fit, products)[""])
        by_chance, derivatives = self._contrast.random(len(concept))
        random, random_gains = self._counted(by_chance, derivatives[""])
        draws = helps.new_zeros(0)
        if control is not None:
            other = Contrast(control, self._gradients, self._fitting, self._seed)
            exchanged = other.exchanged(*other.products(concept), len(concept), permutations, groups)[""]
            draws = input_scores(exchanged, "derivative", self._gradient_of).mean(1)
        undefined = helps.new_tensor(torch.nan)
        known = bool(fit.norm.any())
        return TCAVScore(
            shares=helps.mean(0),
            gains=gains.mean(0),
            run_scores=helps.mean(1),
            run_gains=gains.mean(1),
            random_scores=random.mean(1),
            random_gains=random_gains.mean(1),
            accuracy=fit.accuracy.mean() if known else undefined,
            flat=(gains == 0).double().mean() if known else undefined,
            draws=draws,
        )

    def _counted(self, fit: Fit, derivatives: Tensor) -> tuple[Tensor, Tensor]:
        """Tell for each run and image whether the sign is the wanted one, and how far the target moves."""
        if not bool(fit.norm.any()):
            return derivatives * torch.nan, derivatives * torch.nan
        unit = torch.nan_to_num(derivatives / fit.norm[:, None], 0, 0, 0)
        helps = input_scores(derivatives, "share", self._gradient_of)
        return helps, input_scores(unit, "derivative", self._gradient_of)


def read_activations(probe: Probe, layers: Sequence[str], images: Images) -> LayerRows:
    """Compute the outputs of hidden layers for all images, float32, on the device of the probe.

    Raises:
        InputError: see `probe_rows` and `hidden_rows`.
    """

    def read(batch: Batch[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        image = linear_images(probe, batch)
        return image, dict(zip(layers, hidden_rows(probe, layers, image, batch.ids), strict=True))

    return probe_rows(probe, images, read)


def read_gradients(probe: Probe, layers: Sequence[str], images: Images, target: Target) -> LayerRows:
    """Compute the gradients of a target by the outputs of hidden layers for all images, float32.

    Each layer needs a pass of its own.

    Raises:
        InputError: see `probe_rows` and `hidden_gradients`; or the target does not fit the output, or is not
            finite.
    """

    def read(batch: Batch[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        def loss(output: object, given: Tensor, rows: slice) -> Tensor:
            values = target.values(output, len(given))
            named = f"target `{target.name}` of model `{probe.name}`"
            check_finite_rows(named, values[:, None], batch.ids[rows])
            return values

        image = linear_images(probe, batch)
        return image, {layer: hidden_gradients(probe, layer, image, batch.ids, loss) for layer in layers}

    return probe_rows(probe, images, read)


def scores_to_step(scores: Mapping[str, TCAVScore]) -> dict[str, Tensor]:
    """Name all tensors of the scores at each layer, for `candlelight.evaluation.run.steps`."""
    return {
        f"{number} {field.name}": getattr(score, field.name)
        for number, score in enumerate(scores.values())
        for field in fields(TCAVScore)
    }


def step_to_scores(step: Mapping[str, Tensor], layers: tuple[str, ...]) -> dict[str, TCAVScore]:
    """Make the scores at each layer of the tensors of `scores_to_step`."""
    return {
        layer: TCAVScore(**{field.name: step[f"{number} {field.name}"] for field in fields(TCAVScore)})
        for number, layer in enumerate(layers)
    }


def _score_networks(run: Run[TCAVOptions]) -> dict[str, Result]:
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

    Networks run, vectors are fitted and images are exchanged on the device of the run; with "sgd",
    scikit-learn trains on the CPU. Rows beyond ``memory`` pass through a file.

    Returns:
        A result for each network, with 95 % intervals over groups of test images. No direction is better.

    Raises:
        InputError: a model is no `torch.nn.Module`; a layer does not exist, does not run once, or the target
            does not depend on it; the target does not fit the output; images have several sizes, or are of a
            concept and negatives too; there are too few images; or a number is not finite.
    """
    options, data = run.options, run.data
    target = options.target if isinstance(options.target, Target) else parse_target(str(options.target))
    _check_data(data)
    if not options.layer:
        raise InputError(f"{argument('layer')}: expected at least one hidden layer, got none")
    images = ReadImages()
    images.add_test(data.test)
    images.add_negatives(data.negatives)
    reads = {}
    for name, view in data.concepts.items():
        images.add_images(view, f"concept `{name}`")
        if name in data.controls:
            images.add_images(data.controls[name])
        reads[name] = images.hexdigest()
    results: dict[str, Result] = {}
    for name, named in run.models.items():
        if not isinstance(named.model, nn.Module):
            raise InputError(f"`{name}` has no hidden layers: TCAV needs a torch.nn.Module")
        layers = tuple(match_layers(named.model, options.layer))
        results[name] = _Network(run, named, layers, target, images, reads).score()
    return results


def _check_data(data: TCAVData) -> None:
    if not data.concepts:
        raise InputError(f"{argument('concept')}: expected at least one concept, got none")
    if surplus := [name for name in data.controls if name not in data.concepts]:
        raise InputError(f"control `{surplus[0]}`: expected one of the concepts, {', '.join(data.concepts)}")
    for kind, views in (("concept", data.concepts), ("control of concept", data.controls)):
        for name, view in views.items():
            if len(view.ids) < 2:
                raise InputError(
                    f"{kind} `{name}`: expected at least 2 images, got {len(view.ids)}; add images"
                )


_FITTING = ("runs", "classifier", "regularisation")


@dataclass(frozen=True)
class _Network:
    """One network, and all that its scores depend on."""

    run: Run[TCAVOptions]
    named: NamedModel
    layers: tuple[str, ...]
    target: Target
    images: ReadImages
    reads: Mapping[str, str]  # hash of all rows up to each concept

    @property
    def data(self) -> TCAVData:
        """The views."""
        data: TCAVData = self.run.data
        return data

    @property
    def settings(self) -> dict[str, Any]:
        """Options that change the numbers, as settings of the result; the data have their names elsewhere."""
        options = self.run.options
        names = ["runs", "seed", "p", "size", "classifier", "regularisation"]
        names += ["permutations"] if self.data.controls else []
        settings: dict[str, Any] = {"layers": list(self.layers), "target": self.target.name}
        settings |= {"gradient_of": self.target.gradient_of, "target_sha256": self.target.sha256}
        return settings | {name: getattr(options, name) for name in names}

    def score(self) -> MeanResult:
        """Score all concepts at all layers."""
        run, options = self.run, self.run.options
        storage = row_storage(options.memory, run.device)
        probe = Probe(self.named, options.size, run.batch_size, run.device, storage)
        gradients = read_gradients(probe, self.layers, self.data.test, self.target)
        against = read_activations(probe, self.layers, self.data.negatives)
        size = common_size([gradients.size, against.size])
        fitting = {name: getattr(options, name) for name in _FITTING}
        scorers = {
            layer: LayerScorer(
                against.rows[layer], gradients.rows[layer], self.target.gradient_of, fitting, options.seed
            )
            for layer in self.layers
        }
        key = None
        if not isinstance(options.target, Target):  # a function that is given in Python may change
            about = {"metric": run.evaluation.name, "version": run.evaluation.version}
            about |= {"batch_size": run.batch_size, **self.settings}
            key = model_key(self.named, run.device, **about)
        scores = {}
        for name in progress_bar(self.data.concepts, desc=f"{probe.name}: concepts", unit="concept"):
            read = {"read": self.reads[name], "groups": self._groups(name)}
            whole = None if key is None else {**key, **read}
            step = run.steps.get_or_compute(whole, partial(self._step, probe, scorers, name, size))
            scores[name] = step_to_scores(step, self.layers)
        return self._result(probe, scores)

    def _step(
        self, probe: Probe, scorers: Mapping[str, LayerScorer], concept: str, size: tuple[int, int]
    ) -> dict[str, Tensor]:
        """Run a network on the images of one concept and of its control, and score each layer."""
        found = read_activations(probe, self.layers, self.data.concepts[concept])
        common_size([size, found.size])
        control: dict[str, Tensor | RowSource] = {}
        if concept in self.data.controls and self._tested(concept):
            read = read_activations(probe, self.layers, self.data.controls[concept])
            common_size([size, read.size])
            control = read.rows
        permutations, groups = self.run.options.permutations, self._groups(concept)
        scores = {
            layer: scorer.score(found.rows[layer], control.get(layer), permutations, groups)
            for layer, scorer in scorers.items()
        }
        return scores_to_step(scores)

    def _result(self, probe: Probe, scores: Mapping[str, Mapping[str, TCAVScore]]) -> MeanResult:
        data, record = self.data, self.run.evaluation
        described = self.images.describe(data.test) | {"negatives": view_name(data.negatives.identity)}
        for kind, views in (("concepts", data.concepts), ("controls", data.controls)):
            described[kind] = {name: view_name(view.identity) for name, view in views.items()}
        columns = {}
        for ending, of in (("", "shares"), (", derivative", "gains")):
            for name, of_layers in scores.items():
                for layer, score in of_layers.items():
                    columns[f"{name} at {layer}{ending}"] = tuple(getattr(score, of).tolist())
        about = record.name, record.version, record.better, self.named, described, self.settings
        details = [one for layer in self.layers for one in self._describe(layer, scores)]
        return MeanResult(
            make_provenance(*about),
            tuple(data.test.ids),
            tuple(data.test.groups),
            columns,
            (),
            {
                "scores": details,
                "notes": [*self._notes(), *self._contradictions(details), *probe.notes()],
            },
            {f"{name} at {layer}": (0.0, 1.0) for name, of_layers in scores.items() for layer in of_layers},
        )

    def _groups(self, concept: str) -> ImageGroups | None:
        """Return the groups of the images of a concept and of its control; None if there are none known."""
        if concept not in self.data.controls:
            return None
        return known_groups(self.data.concepts[concept], self.data.controls[concept])

    def _tested(self, concept: str) -> bool:
        """Tell whether groups leave enough exchanges of a concept and its control for a p-value."""
        groups = self._groups(concept)
        return groups is None or count_exchanges(groups) >= LEAST_EXCHANGES

    def _notes(self) -> list[str]:
        """Word notes on small concepts, controls and negatives, and on the scenes of the tests."""
        concepts = {f"concept `{name}`": len(view.ids) for name, view in self.data.concepts.items()}
        controls = {f"control of `{name}`": len(view.ids) for name, view in self.data.controls.items()}
        negatives = len(self.data.negatives.ids)
        notes = few_images(concepts | controls | {"negatives": negatives})
        notes += few_negatives(concepts, negatives)
        independent = [f"`{name}`" for name in self.data.controls if self._groups(name) is None]
        if independent:
            notes.append(
                f"permutation test of {', '.join(independent)}: no scenes are known, so all images count as "
                "independent; p is too small if several show one scene"
            )
        return notes + [
            f"control of `{name}`: too few scenes for a permutation test; use at least 4 in each of the "
            "two, or the same ones in both"
            for name in self.data.controls
            if not self._tested(name)
        ]

    def _contradictions(self, details: Sequence[Mapping[str, Any]]) -> list[str]:
        """Word a note for each concept whose effect against its control has the other sign."""
        return [
            f"`{one['concept']}` at {one['layer']}: the effect against its control is {effect:+.2g}, but the "
            f"derivative against the negatives {one['derivative']:+.2g}; the effect is of the concept alone"
            for one in details
            if (p := one.get("control", {}).get("adjusted_p")) is not None and p < self.run.options.p
            if one["derivative"] is not None
            if (effect := one["control"]["effect"]) * one["derivative"] < 0
        ]

    def _describe(self, layer: str, scores: Mapping[str, Mapping[str, TCAVScore]]) -> list[dict[str, Any]]:
        """Collect the details of all concepts at one layer, with the permutation test over these concepts."""
        tested = [name for name in scores if name in self.data.controls and self._tested(name)]
        test = (
            permutation_test(torch.stack([scores[name][layer].draws for name in tested])) if tested else None
        )
        details = []
        for name, of_layers in scores.items():
            one = {"layer": layer, "concept": name, "images": len(self.data.concepts[name].ids)}
            one |= of_layers[layer].describe(self.run.options.p)
            if name in self.data.controls:
                row = tested.index(name) if name in tested else None
                one["control"] = {
                    "images": len(self.data.controls[name].ids),
                    "scenes": None
                    if (groups := self._groups(name)) is None
                    else [len(set(n)) for n in groups],
                    "effect": None if test is None or row is None else float(test.effect[row]),
                    "permutation_p": None if test is None or row is None else float(test.p_value[row]),
                    "adjusted_p": None if test is None or row is None else float(test.adjusted[row]),
                }
            details.append(one)
        return details


TCAV = Evaluation(
    name="tcav",
    version=2,
    better="neither",
    options=TCAVOptions,
    reads=Reading(open=open_tcav, space="srgb"),
    study=_score_networks,
    page="candlelight.evaluation.concepts.tcav_report:TCAV_PAGE",
)
