"""Train causal representation models."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader

from candlelight.evaluation.catalogue.record import make_options
from candlelight.evaluation.catalogue.training_options import CausalTraining
from candlelight.evaluation.models.autoencoders import CodeDiscriminator, ConvVAE, Posterior
from candlelight.evaluation.run.fingerprints import Fingerprint
from candlelight.evaluation.training.causal_data import CausalBatches, foreground_weights
from candlelight.evaluation.training.loop import (
    Losses,
    Optimisation,
    Task,
    epoch_stream,
    mixed_precision,
    train_task,
    training_state,
)
from candlelight.evaluation.training.losses import (
    bernoulli_error,
    density_ratio,
    dip_penalty,
    discriminator_loss,
    gaussian_kl,
    permute_codes,
    share_posterior,
    supervised_codes_loss,
    total_correlation,
)
from candlelight.evaluation.training.training_rows import split_training
from candlelight.evaluation.views import Factors, Images
from candlelight.loaders.errors import InputError, argument

_BLOCKS = 100  # of steps, after each of which the state is kept
_SCORED = 256  # held-out images, evenly spaced
_Batch = tuple[int, dict[str, Tensor]]


class CausalTask(Task[_Batch]):
    """Train an autoencoder, and for FactorVAE its discriminator.

    A batch is the number of its step, and its images and labels.

    Args:
        settings: the model and its options.
        network: the autoencoder, which is moved to the device and trained.
        data: batches by the number of the step.
        seed: seed of the discriminator's initial weights, and of the noise.
        held_out: rows to reconstruct after each block of steps.
        device: torch device.
        workers: processes that read images ahead.
    """

    unit = "step"

    def __init__(
        self,
        settings: CausalTraining,
        network: ConvVAE,
        data: CausalBatches,
        seed: int,
        held_out: Sequence[int] = (),
        device: str | torch.device = "cpu",
        workers: int = 0,
    ) -> None:
        # In this order of memory steps are faster on a CPU, as in the other trainings.
        self.network: ConvVAE = network.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.settings, self._data, self._seed, self._workers = settings, data, seed, workers
        self.scored = held_out[:: -(-len(held_out) // _SCORED) or 1]
        block = -(-settings.steps // _BLOCKS)
        self.ends = [*range(block, settings.steps, block), settings.steps]
        self.optimisations = {"autoencoder": Optimisation(self.network, settings.rate)}
        self.discriminator: CodeDiscriminator | None = None
        if settings.unsupervised == "factor-vae":
            start = epoch_stream(seed, "discriminator", 0).initial_seed()
            self.discriminator = CodeDiscriminator(settings.codes, seed=start).to(device)
            self.optimisations["discriminator"] = Optimisation(self.discriminator, settings.rate)
        self._reading: Iterator[_Batch] | None = None

    def batches(self, part: int) -> Iterator[_Batch]:
        """Read the batches of a block of steps, each of rows of its own."""
        first = self.ends[part - 1] if part else 0
        if self._reading is None:  # workers start once
            steps = range(first, self.settings.steps)
            loader: DataLoader[dict[str, Tensor]] = DataLoader(
                self._data,  # type: ignore[arg-type]
                batch_size=None,
                sampler=steps,
                num_workers=self._workers,
                pin_memory=self.device.type == "cuda",
            )
            self._reading = zip(steps, loader, strict=True)
        return islice(self._reading, self.ends[part] - first)

    def losses(self, batch: _Batch) -> Losses:
        """Compute the loss of the autoencoder, and for FactorVAE that of its discriminator."""
        step, read = batch
        placed = {name: values.to(self.device, non_blocking=True) for name, values in read.items()}
        noise = torch.randn(
            len(read["images"]), self.settings.codes, generator=epoch_stream(self._seed, "noise", step)
        )
        terms, codes = self._terms(placed, noise.to(self.device))
        weights = self.settings.term_weights()
        loss = sum((weight * terms[name] for name, weight in weights.items()), torch.tensor(0.0))
        minimised = {"autoencoder": loss}
        if self.discriminator is not None:
            permuted = permute_codes(codes, epoch_stream(self._seed, "permutation", step))
            logits = (self._ratio_logits(some) for some in (codes.detach(), permuted))
            minimised["discriminator"] = discriminator_loss(*logits).mean()
        return Losses(minimised, {"loss": loss, **terms})

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Return the mean squared error of images decoded from the means of their codes."""
        if not self.scored:
            return {}
        errors, size = [], self.settings.batch_size
        for start in range(0, len(self.scored), size):
            images = self._data.reader.read(self.scored[start : start + size]).to(self.device)
            decoded = self.network.decode(self.network(images))
            errors.append((decoded - images).square().mean((1, 2, 3)).sum())
        return {"error": float(np.sum(torch.stack(errors).tolist())) / len(self.scored)}

    def _terms(self, batch: Mapping[str, Tensor], noise: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Compute the terms of the loss without their weights, and the sampled codes."""
        settings, images = self.settings, batch["images"]
        posterior = self._posterior(images)
        if settings.model == "ada-gvae":
            halves = zip(*(values.chunk(2) for values in posterior), strict=True)
            first, second = share_posterior(*(Posterior(*half) for half in halves))
            posterior = Posterior(*map(torch.cat, zip(first, second, strict=True)))
        codes = posterior.sample(noise)
        with mixed_precision(self.device):
            logits = self.network.logits(codes)
        weights = None
        if "foreground" in batch:
            weights = foreground_weights(batch["foreground"], settings.extra)
        terms = {
            "reconstruction": bernoulli_error(logits.float(), images, weights).mean(),
            "kl": gaussian_kl(posterior).mean(),
        }
        if settings.unsupervised == "beta-tcvae":
            terms["total correlation"] = total_correlation(codes, posterior).mean()
        elif settings.unsupervised == "factor-vae":
            terms["total correlation"] = density_ratio(self._ratio_logits(codes)).mean()
        elif settings.unsupervised in ("dip-vae-i", "dip-vae-ii"):
            terms["covariance"] = dip_penalty(
                posterior,
                "i" if settings.unsupervised == "dip-vae-i" else "ii",
                off_diagonal=settings.weights["lambda_od"],
                diagonal=settings.weights["lambda_d"],
            )
        if "labelled" in batch:
            means = self._posterior(batch["labelled"]).means
            terms["supervision"] = supervised_codes_loss(means, batch["targets"]).mean()
        return terms, codes

    def _posterior(self, images: Tensor) -> Posterior:
        with mixed_precision(self.device):
            posterior = self.network.posterior(images.contiguous(memory_format=torch.channels_last))
        return Posterior(*(values.float() for values in posterior))

    def _ratio_logits(self, codes: Tensor) -> Tensor:
        assert self.discriminator is not None
        with mixed_precision(self.device):
            logits = self.discriminator(codes)
        return logits.float()


@dataclass(frozen=True)
class CausalHistory:
    """Learning curves, one value per block of steps.

    Attributes:
        steps: number of steps at the end of each block.
        training: mean loss over the block; losses of different models are not comparable.
        terms: mean of each term of the loss over the block, without its weight, by name.
        validation: mean squared error of reconstructed held-out images, sRGB-encoded in [0, 1], after each
            block; empty without them. It is of 256 images at most.
        constant: the same error of the mean of these images; None without them.
        targets: factors that the first codes of a semi-supervised model learn, in the order of the codes:
            those with several values among the labelled images.
    """

    steps: tuple[int, ...]
    training: tuple[float, ...]
    terms: dict[str, tuple[float, ...]]
    validation: tuple[float, ...]
    constant: float | None
    targets: tuple[str, ...] = ()


def train_causal(
    data: Images,
    *,
    seed: int,
    factors: Factors | None = None,
    rows: Sequence[int] | None = None,
    validation: Sequence[int] = (),
    foreground: Float[Tensor, "rows height width"] | None = None,
    device: str | torch.device = "cpu",
    workers: int = 0,
    state: str | Path | None = None,
    **options: Any,
) -> tuple[ConvVAE, CausalHistory]:
    """Train an autoencoder whose codes `evaluate("codes", ...)` scores.

    Adam minimises the loss of the model, see `CausalTraining`, with a constant learning rate. Every step
    draws its images anew, with replacement. Only semi-supervised models and "ada-gvae" need factors: the
    former those of a few images, the latter to draw pairs of images, whose factors it does not see. On a GPU
    the networks run in bfloat16, their losses in float32.

    Args:
        data: images of 32 x 32 or 64 x 64 pixels.
        seed: seed of the initial weights, the rows, the labels and the noise. Equal seeds give equal weights
            on the same processor with the same number of threads, and nearly equal ones on a GPU.
        factors: the factors of the rows of ``data``; None for a model that needs none.
        rows: row numbers to train on; all rows except ``validation`` by default.
        validation: row numbers that are held out, to measure the reconstruction.
        foreground: share of each pixel that is foreground, in [0, 1], for each row of ``data``, where the
            reconstruction weighs more; None for equal weights.
        device: torch device for training; the trained network stays there.
        workers: processes that read images ahead; useful if the images do not fit into 2 GiB.
        state: file that keeps the state about a hundred times. If it exists, training goes on from there, and
            ends with the weights of an uninterrupted run. The caller deletes it.
        options: the model and its options, see `CausalTraining`.

    Returns:
        The trained network in evaluation mode, and the learning curves.

    Raises:
        InputError: an option is out of range, a row does not exist or is in both lists, images are not
            sRGB-encoded in [0, 1] or have another size, factors are missing, labels or pairs are too few,
            ``foreground`` does not fit the images, ``state`` is of another training or of other data, or the
            training diverges: a loss or a weight becomes nan or infinite, and ``state`` is deleted.

    Example:
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Grays:
        ...     identity, ids, groups = DataIdentity("grays", "memory"), ("dark", "light"), ("dark", "light")
        ...     known_ids = frozenset(ids)
        ...     def __len__(self): return 2
        ...     def __getitem__(self, row): return torch.full((3, 32, 32), (0.2, 0.8)[row])
        >>> options = {"model": "beta-vae", "codes": 2, "steps": 20, "batch_size": 4, "rate": 1e-3}
        >>> network, history = train_causal(Grays(), seed=0, **options)
        >>> network.codes, len(history.training)
        (2, 20)
    """
    settings = make_options(CausalTraining, options)
    training, held_out = split_training(len(data), rows, validation)
    data_of_steps = CausalBatches(data, training, settings, seed, factors, foreground)
    side = _side(data_of_steps, training[0], len(data), foreground)

    def content() -> str:
        fingerprint = Fingerprint()
        fingerprint.add("images", data_of_steps.reader.sha256([*training, *held_out]))
        fingerprint.add("factors", None if factors is None else np.asarray(factors.table))
        fingerprint.add("foreground", foreground)
        return fingerprint.hexdigest()

    kept = training_state(state, {**settings.settings(), "seed": seed}, data, (training, held_out), content)
    start = ConvVAE(codes=settings.codes, side=side, seed=seed)
    task = CausalTask(settings, start, data_of_steps, seed, held_out, device, workers)
    curves = {name: tuple(values) for name, values in train_task(task, seed, kept).items()}
    images = data_of_steps.reader.read(task.scored) if task.scored else None
    return task.network, CausalHistory(
        tuple(task.ends),
        curves["loss"],
        {name: curves[name] for name in settings.term_weights()},
        curves.get("error", ()),
        None if images is None else float((images - images.mean(0)).square().mean()),
        data_of_steps.targets,
    )


def _side(
    batches: CausalBatches, row: int, count: int, foreground: Float[Tensor, "rows height width"] | None
) -> int:
    """Return the side of the images, and check that the foreground fits them."""
    height, width = batches.reader.read([row]).shape[2:]
    if foreground is not None and foreground.shape != (count, height, width):
        raise InputError(
            f"`foreground` must be a mask [{height}, {width}] for each of the {count} rows, got "
            f"{list(foreground.shape)}"
        )
    if foreground is not None and not bool(((foreground >= 0) & (foreground <= 1)).all()):
        raise InputError("`foreground` must be shares of pixels in [0, 1], got values outside or nan")
    if height != width:
        raise InputError(
            f"expected square images, got {height} x {width}; resize them ("
            f"{argument('size', 'candlelight.evaluation.coverage.ResizedImages')})"
        )
    return height
