"""Vectors between images of a concept and others, and derivatives along them: the core of CSM and TCAV."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from jaxtyping import Float
from torch import Tensor

from candlelight.evaluation.concepts.cav import Fit, fit_concept, fit_random
from candlelight.evaluation.concepts.permutation import (
    ImageGroups,
    exchanged_members,
    gram_exchange_derivatives,
)
from candlelight.evaluation.concepts.rows import RowSource, SharedRows, row_norms
from candlelight.evaluation.concepts.sensitivity import derivatives_along
from candlelight.evaluation.views.named_streams import named_generator

Rows = Float[Tensor, "_ dim"] | RowSource
Products = Mapping[str, Float[Tensor, "inputs images"]]


class Contrast:
    """Images without a concept, and gradients at test images, for all concepts that are compared with them.

    All tensors are on the device of the rows; inner products and all that follows are float64.

    Args:
        others: activations of images without the concept: negatives, or a control; at least 4 rows.
        gradients: gradient by the activations for each test image, by name, at least one row each.
        fitting: arguments of `fit_concept` and `fit_random`: runs, classifier, regularisation.
        seed: seed of the random vectors and of the exchanges.

    Example:
        >>> import torch
        >>> g = torch.Generator().manual_seed(0)
        >>> concept, others = torch.randn(20, 3, generator=g) + 9, torch.randn(30, 3, generator=g)
        >>> contrast = Contrast(others, {"loss": torch.tensor([[-1.0, 0, 0]])}, {"runs": 5}, seed=0)
        >>> gram, products = contrast.products(concept)
        >>> contrast.derivatives(contrast.fit(gram, 20, ("concept",)), products)["loss"].sign().T
        tensor([[-1., -1., -1., -1., -1.]], dtype=torch.float64)
    """

    def __init__(
        self, others: Rows, gradients: Mapping[str, Rows], fitting: Mapping[str, Any], seed: int
    ) -> None:
        self._others, self._gradients = others, gradients
        self._fitting, self._seed = dict(fitting), seed
        self._random: dict[int, tuple[Fit, dict[str, Tensor]]] = {}

    @cached_property
    def _shared(self) -> SharedRows:
        return SharedRows(self._others, list(self._gradients.values()))

    @cached_property
    def lengths(self) -> dict[str, Float[Tensor, " inputs"]]:
        """Norms of the gradients, by name."""
        return {name: row_norms(rows) for name, rows in self._gradients.items()}

    def products(
        self, concept: Rows | None = None
    ) -> tuple[Float[Tensor, "images images"], dict[str, Float[Tensor, "inputs images"]]]:
        """Compute the Gram matrix of concept and other images, and their products with the gradients.

        Args:
            concept: activations of the concept's images; None for the other images alone.

        Raises:
            InputError: rows differ in length.
        """
        gram, products = self._shared.stacked(concept)
        return gram, dict(zip(self._gradients, products, strict=True))

    def fit(self, gram: Float[Tensor, "images images"], concepts: int, names: tuple[object, ...]) -> Fit:
        """Learn the vectors of all runs; ``names`` choose the stream of the draws.

        Raises:
            InputError: as `fit_cavs`.
        """
        return fit_concept(gram, concepts, named_generator(self._seed, *names), **self._fitting)

    def derivatives(self, fit: Fit, products: Products) -> dict[str, Float[Tensor, "runs inputs"]]:
        """Compute the derivatives along the vectors at all test images, for each name of the gradients."""
        return {
            name: derivatives_along(fit.weights, product, fit.norm, self.lengths[name])
            for name, product in products.items()
        }

    def random(self, images: int) -> tuple[Fit, dict[str, Float[Tensor, "runs inputs"]]]:
        """Learn vectors between random subsets of the other images, and compute the derivatives along them.

        Args:
            images: images of the concept; the subsets are as large if there are enough other images.

        Raises:
            InputError: as `random_cavs`.
        """
        gram, products = self.products()
        size = max(2, min(images, len(gram) // 2))
        if size not in self._random:
            fit = fit_random(gram, size, named_generator(self._seed, "random", size), **self._fitting)
            self._random[size] = fit, self.derivatives(fit, products)
        return self._random[size]

    def exchanged(
        self,
        gram: Tensor,
        products: Products,
        concepts: int,
        permutations: int,
        groups: ImageGroups | None = None,
    ) -> dict[str, Float[Tensor, "draws inputs"]]:
        """Compute the derivatives of the true sets and of each exchange, by name.

        Args:
            gram: as `products` returns it.
            products: as `products` returns them.
            concepts: images of the concept.
            permutations: number of exchanges.
            groups: as in `exchange_derivatives`.

        Raises:
            InputError: as `exchange_derivatives`.
        """
        counts = concepts, len(gram) - concepts
        members = exchanged_members(*counts, permutations, self._seed, groups).to(gram.device)
        return {
            name: gram_exchange_derivatives(gram, product, self.lengths[name], members)
            for name, product in products.items()
        }
