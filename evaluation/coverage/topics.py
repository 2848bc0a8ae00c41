"""Explain a classifier by topics: directions of a hidden layer that keep its accuracy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from candlelight.evaluation.concepts.named_generator import named_generator
from candlelight.evaluation.coverage.explanations import Explanation
from candlelight.evaluation.coverage.topic_completeness import (
    Head,
    LabelledMaps,
    ReconstructionTraining,
    check_labelled,
    initial_weights,
    reconstruct,
)
from candlelight.evaluation.coverage.topic_scores import (
    Orthogonality,
    distinct_topics,
    gated_responses,
    topic_maps,
    topic_nearness,
    topic_overlap,
    topic_scores,
)
from candlelight.evaluation.running.hidden_layers import evaluation_mode
from candlelight.loaders.check_choice import check_choice
from candlelight.loaders.errors import InputError

Features = Callable[[Float[Tensor, "batch 3 height width"]], Float[Tensor, "batch dim rows columns"]]


@dataclass(frozen=True)
class TopicSearch:
    """How topics are discovered.

    The defaults are those of the authors' program for photographs (animals); it has ``nearest`` 32 and both
    weights 0.1 for its toy data.

    Attributes:
        count: number of topics before near-equal ones are merged.
        nearest: activations of a batch that each topic shall be near, see `topic_nearness`.
        near: weight of `topic_nearness`.
        apart: weight of `topic_overlap`.
        orthogonality: see `topic_overlap`; the authors' program is "signed".
        merge_above: see `distinct_topics`.
    """

    count: int = 10
    nearest: int = 2
    near: float = 10.0
    apart: float = 10.0
    orthogonality: Orthogonality = "signed"
    merge_above: float = 0.95

    def __post_init__(self) -> None:
        """Refuse choices out of range."""
        check_choice("orthogonality", self.orthogonality, Orthogonality)
        for name in ("count", "nearest"):
            if getattr(self, name) < 1:
                raise InputError(f"`{name}` must be at least 1, got {getattr(self, name)}")


def discover_topics(
    maps: LabelledMaps, head: Head, search: TopicSearch, how: ReconstructionTraining
) -> Float[Tensor, "topics dim"]:
    """Discover topic vectors from which a frozen classifier recovers its accuracy.

    Minimises ``cross-entropy(h(g(v)), y) - near * nearness + apart * overlap`` over topics and g by Adam:
    the loss of Yeh et al. 2020 with `topic_nearness` and `topic_overlap`. Near-equal topics are merged at the
    end.

    Blind to: parts of objects. A topic that covers a whole object, or its surroundings, keeps the accuracy as
    well as several topics that cover its parts.

    Args:
        maps: activations of training images and their classes.
        head: the classifier h from activations to logits; its weights are not changed.
        search: number of topics and regularisers.
        how: settings of the training.

    Returns:
        Unit topic vectors, at most ``search.count``.

    Raises:
        InputError: shapes do not agree, there are no images, activations are not finite, labels are not
            classes of the head, or the training diverges.

    Example:
        >>> maps = LabelledMaps(torch.eye(2).reshape(2, 2, 1, 1), torch.arange(2))
        >>> how = ReconstructionTraining(0, hidden=8, epochs=100, rate=0.1)
        >>> search = TopicSearch(2, nearest=1, near=1.0, apart=1.0, orthogonality="squared")
        >>> discover_topics(maps, lambda activations: activations.mean((2, 3)), search, how).abs().round()
        tensor([[0., 1.],
                [1., 0.]])
    """
    check_labelled(maps, head)
    dim = maps.activations.shape[1]
    draws = named_generator(how.seed, "topics")
    topics = torch.rand(search.count, dim, generator=draws).sub(0.5).to(maps.activations)
    first, second = initial_weights(search.count, dim, how.hidden, how.seed, topics)
    weights = [some.requires_grad_() for some in (topics, first, second)]
    optimiser = torch.optim.Adam(weights, how.rate)
    order = named_generator(how.seed, "order of discovery")
    for _ in range(how.epochs):
        for rows in torch.split(torch.randperm(len(maps.labels), generator=order), how.batch_size):
            responses, cosines = gated_responses(maps.activations[rows], topics, how.threshold)
            logits = head(reconstruct(topic_scores(responses)[None], (first, second)))
            loss = functional.cross_entropy(logits, maps.labels[rows].long())
            loss = loss - search.near * topic_nearness(cosines, search.nearest)
            loss = loss + search.apart * topic_overlap(topics, search.orthogonality)
            for some, gradient in zip(weights, torch.autograd.grad(loss, weights), strict=True):
                some.grad = gradient
            optimiser.step()
    found = functional.normalize(topics.detach(), dim=1)
    if not bool(found.isfinite().all()):
        raise InputError(f"the search of topics diverged; give a smaller `rate` than {how.rate:g}")
    return found[distinct_topics(found, search.merge_above)]


class TopicMethod:
    """Topic-based explanations of a frozen classifier, an `ExplanationMethod`.

    The maps are ``<A, topic>`` of all topics, whatever class is predicted, as in the WAIoU protocol (sec. 4).

    Args:
        features: the classifier from images to a hidden layer; `split_network` makes both parts.
        head: the classifier from there to logits.
        search: number of topics and regularisers.
        how: settings of the training.
        device: torch device on which both parts are.

    Attributes:
        topics: [topics, dim], after `fit`.

    Example:
        >>> def features(images): return images
        >>> def head(maps): return maps.mean((2, 3))
        >>> how = ReconstructionTraining(0, hidden=8, epochs=10)
        >>> method = TopicMethod(features, head, TopicSearch(2), how)
        >>> images = torch.rand(4, 3, 2, 2, generator=torch.Generator().manual_seed(0))
        >>> method.fit(images, torch.tensor([0, 1, 2, 0])).explain(images).maps.shape
        torch.Size([4, 2, 2, 2])
    """

    name = "topics"

    def __init__(
        self,
        features: Features,
        head: Head,
        search: TopicSearch,
        how: ReconstructionTraining,
        device: str | torch.device = "cpu",
    ) -> None:
        self.features, self.head, self.search, self.how, self.device = features, head, search, how, device
        self.topics: Tensor | None = None

    def fit(
        self, images: Float[Tensor, "train 3 height width"], labels: Int[Tensor, " train"]
    ) -> "TopicMethod":
        """Discover the topics; see `discover_topics`."""
        maps = self.layer(images, labels)
        with evaluation_mode(self.head):
            self.topics = discover_topics(maps, self.head, self.search, self.how)
        return self

    def explain(self, images: Float[Tensor, "images 3 height width"]) -> Explanation:
        """Explain the predictions for a batch of images; see `ExplanationMethod`.

        Raises:
            InputError: `fit` has not been called.
        """
        topics = self.state()["topics"]
        with torch.no_grad(), evaluation_mode(self.features), evaluation_mode(self.head):
            activations = self.features(images)
            predicted = self.head(activations).argmax(1)
        maps = topic_maps(activations, topics)
        concepts = torch.arange(len(topics), device=maps.device).expand(len(maps), -1)
        return Explanation(maps, concepts, maps.sum((2, 3)), predicted)

    def state(self) -> dict[str, Tensor]:
        """Collect the tensors that `fit` has learned.

        Raises:
            InputError: `fit` has not been called.
        """
        if self.topics is None:
            raise InputError("the topics are not known yet; call `fit` first")
        return {"topics": self.topics}

    def restore(self, state: Mapping[str, Tensor]) -> "TopicMethod":
        """Take the tensors of an earlier `fit`, and return the method itself."""
        self.topics = state["topics"].to(self.device)
        return self

    @torch.no_grad()
    def layer(
        self, images: Float[Tensor, "images 3 height width"], labels: Int[Tensor, " images"]
    ) -> LabelledMaps:
        """Compute the activations that `subset_completeness` and `concept_shap` take."""
        if not len(images):
            raise InputError("expected at least one image, got none")
        with evaluation_mode(self.features):
            found = [self.features(some.to(self.device)) for some in torch.split(images, self.how.batch_size)]
        return LabelledMaps(torch.cat(found), labels.to(self.device))
