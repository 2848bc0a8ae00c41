"""Train causal representation models."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader

from candlelight.evaluation.models.autoencoders import CodeDiscriminator, ConvVAE, Posterior
from candlelight.evaluation.run.batches import Fingerprint
from candlelight.evaluation.training.causal_data import CausalBatches, CausalSettings, foreground_weights
from candlelight.evaluation.training.loop import (
    Optimisation,
    TrainingState,
    describe_rows,
    epoch_stream,
    split_training,
)
from candlelight.evaluation.training.vae_losses import (
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
from candlelight.evaluation.views import Factors, Images
from candlelight.loaders.errors import InputError, argument
from candlelight.loaders.progress_bars import progress_bar


class CausalSteps:
    """An autoencoder, for FactorVAE its discriminator, and the sums of the terms over a block of steps.

    Args:
        settings: the model and its settings.
        network: the autoencoder, which is moved to the device and trained.
        seed: seed of the discriminator's initial weights, and of the noise.
        device: torch device.
    """

    def __init__(
        self, settings: CausalSettings, network: ConvVAE, seed: int, device: str | torch.device
    ) -> None:
        # In this order of memory steps are faster on a CPU, as in the other trainings.
        self.network: ConvVAE = network.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self.settings, self.seed = settings, seed
        self.device = next(network.parameters()).device
        self._optimisations = {"autoencoder": Optimisation(self.network, settings.rate)}
        self.discriminator: CodeDiscriminator | None = None
        if settings.unsupervised == "factor-vae":
            start = epoch_stream(seed, "discriminator", 0).initial_seed()
            self.discriminator = CodeDiscriminator(settings.codes, seed=start).to(device)
            self._optimisations["discriminator"] = Optimisation(self.discriminator, settings.rate)
        self._totals: dict[str, Tensor] = {}
        self._count = 0

    def state(self) -> dict[str, Any]:
        """Return the state of all networks for a `TrainingState`."""
        return {name: one.state() for name, one in self._optimisations.items()}

    def restore(self, state: dict[str, Any] | None) -> defaultdict[str, list[Any]]:
        """Restore a state, and return its learning curves, which are empty without a state."""
        if state is None:
            return defaultdict(list)
        for name, one in self._optimisations.items():
            one.restore(state[name])
        return defaultdict(list, state["curves"])

    def step(self, batch: Mapping[str, Tensor], step: int) -> None:
        """Take one step, and add its terms to those of the block."""
        placed = {name: values.to(self.device, non_blocking=True) for name, values in batch.items()}
        noise = torch.randn(
            len(batch["images"]), self.settings.codes, generator=epoch_stream(self.seed, "noise", step)
        )
        terms, codes = self._terms(placed, noise.to(self.device))
        terms["loss"] = sum(
            (weight * terms[name] for name, weight in self.settings.term_weights().items()), torch.tensor(0.0)
        )
        self._optimisations["autoencoder"].step(terms["loss"])
        if self.discriminator is not None:
            permuted = permute_codes(codes, epoch_stream(self.seed, "permutation", step))
            logits = (self._ratio_logits(some) for some in (codes.detach(), permuted))
            self._optimisations["discriminator"].step(discriminator_loss(*logits).mean())
        for name, value in terms.items():  # added on the device, which is not waited for
            self._totals[name] = self._totals.get(name, torch.zeros_like(value)) + value.detach()
        self._count += 1

    def end_block(self) -> dict[str, float]:
        """Return the mean terms of the block, and begin another."""
        means = {name: total.item() / self._count for name, total in self._totals.items()}
        self._totals, self._count = {}, 0
        return means

    def check_finite(self, loss: float, where: str, kept: TrainingState) -> None:
        """Refuse a training that diverged; see `Optimisation.check_finite`."""
        for one in self._optimisations.values():
            one.check_finite(loss, where, kept)

    def _terms(self, batch: Mapping[str, Tensor], noise: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """Compute the terms of the loss without their weights, and the sampled codes."""
        settings, images = self.settings, batch["images"]
        posterior = self._posterior(images)
        if settings.model == "ada-gvae":
            halves = zip(*(values.chunk(2) for values in posterior), strict=True)
            first, second = share_posterior(*(Posterior(*half) for half in halves))
            posterior = Posterior(*map(torch.cat, zip(first, second, strict=True)))
        codes = posterior.sample(noise)
        with self._autocast():
            logits = self.network.logits(codes)
        weights = None
        if "foreground" in batch:
            weights = foreground_weights(batch["foreground"], settings.foreground)
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
        with self._autocast():
            posterior = self.network.posterior(images.contiguous(memory_format=torch.channels_last))
        return Posterior(*(values.float() for values in posterior))

    def _ratio_logits(self, codes: Tensor) -> Tensor:
        assert self.discriminator is not None
        with self._autocast():
            logits = self.discriminator(codes)
        return logits.float()

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda")

    @torch.no_grad()
    def reconstruction_error(self, batches: CausalBatches, rows: Sequence[int]) -> float:
        """Return the mean squared error of images decoded from the means of their codes."""
        total = 0.0
        for start in range(0, len(rows), self.settings.batch_size):
            images = batches.reader.read(rows[start : start + self.settings.batch_size])[0].to(self.device)
            total += float(
                (self.network.decode(self.network(images)) - images).square().mean((1, 2, 3)).sum()
            )
        return total / len(rows)


_BLOCKS = 100  # of steps, after each of which the state is kept
_SCORED = 256  # held-out images, evenly spaced


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
    settings: CausalSettings,
    *,
    seed: int,
    factors: Factors | None = None,
    rows: Sequence[int] | None = None,
    validation: Sequence[int] = (),
    foreground: Float[Tensor, "rows height width"] | None = None,
    device: str | torch.device = "cpu",
    workers: int = 0,
    state: str | Path | None = None,
) -> tuple[ConvVAE, CausalHistory]:
    """Train an autoencoder whose codes `score_causal` scores.

    Adam minimises the loss of the model, see `causal_settings`, with a constant learning rate. Every step
    draws its images anew, with replacement. Only semi-supervised models and "ada-gvae" need factors: the
    former those of a few images, the latter to draw pairs of images, whose factors it does not see. On a GPU
    the networks run in bfloat16, their losses in float32.

    Args:
        data: images of 32 x 32 or 64 x 64 pixels.
        settings: the model and its settings.
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

    Returns:
        The trained network in evaluation mode, and the learning curves.

    Raises:
        InputError: a row does not exist or is in both lists, images are not sRGB-encoded in [0, 1] or have
            another size, factors are missing, labels or pairs are too few, ``foreground`` does not fit the
            images, ``state`` is of another training or of other data, or the training diverges: a loss or a
            weight becomes nan or infinite, and ``state`` is deleted.

    Example:
        >>> from candlelight.evaluation.training.causal_data import causal_settings
        >>> from candlelight.evaluation.views import DataIdentity
        >>> class Grays:
        ...     identity, ids, groups = DataIdentity("grays", "memory"), ("dark", "light"), ("dark", "light")
        ...     known_ids = frozenset(ids)
        ...     def __len__(self): return 2
        ...     def __getitem__(self, row): return torch.full((3, 32, 32), (0.2, 0.8)[row])
        >>> settings = causal_settings("beta-vae", codes=2, steps=20, batch_size=4, rate=1e-3)
        >>> network, history = train_causal(Grays(), settings, seed=0)
        >>> network.codes, len(history.training)
        (2, 20)
    """
    training, held_out = split_training(len(data), rows, validation)
    batches = CausalBatches(data, training, settings, seed, factors, foreground)
    side = _side(batches, training[0], len(data), foreground)
    run = CausalSteps(settings, ConvVAE(codes=settings.codes, side=side, seed=seed), seed, device)
    used: dict[str, Any] = {**asdict(settings), "seed": seed} | describe_rows(data, training, held_out)
    if state is not None:
        fingerprint = Fingerprint()
        fingerprint.add("images", batches.reader.sha256([*training, *held_out]))
        fingerprint.add("factors", None if factors is None else np.asarray(factors.table))
        fingerprint.add("foreground", foreground)
        used["content of the data"] = fingerprint.hexdigest()
    kept = TrainingState(None if state is None else Path(state), used)
    scored = held_out[:: -(-len(held_out) // _SCORED) or 1]
    curves = run.restore(kept.read())
    done = curves["steps"][-1] if curves["steps"] else 0
    block = -(-settings.steps // _BLOCKS)
    bar = progress_bar(total=settings.steps, desc="train", unit="step", initial=done)
    for step, batch in enumerate(_read_ahead(batches, range(done, settings.steps), workers, run), done + 1):
        run.step(batch, step - 1)
        bar.update()
        if step % block and step < settings.steps:
            continue
        terms = run.end_block()
        run.check_finite(terms["loss"], f"step {step}", kept)
        curves["steps"].append(step)
        for name, value in terms.items():
            curves[name].append(value)
        if scored:
            curves["error"].append(run.reconstruction_error(batches, scored))
        kept.write(run.state() | {"curves": dict(curves)})
        bar.set_postfix(loss=terms["loss"], refresh=False)
    bar.close()
    return run.network.eval(), _history(settings, curves, batches, scored)


def _side(
    batches: CausalBatches, row: int, count: int, foreground: Float[Tensor, "rows height width"] | None
) -> int:
    """Return the side of the images, and check that the foreground fits them."""
    height, width = batches.reader.read([row])[0].shape[2:]
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


def _read_ahead(
    batches: CausalBatches, steps: range, workers: int, run: CausalSteps
) -> DataLoader[dict[str, Tensor]]:
    """Read the batches of steps in order."""
    return DataLoader(
        batches,  # type: ignore[arg-type]
        batch_size=None,
        sampler=steps,
        num_workers=workers,
        pin_memory=run.device.type == "cuda",
    )


def _history(
    settings: CausalSettings, curves: dict[str, list[Any]], batches: CausalBatches, scored: Sequence[int]
) -> CausalHistory:
    images = batches.reader.read(scored)[0] if scored else None
    return CausalHistory(
        tuple(curves["steps"]),
        tuple(curves["loss"]),
        {name: tuple(curves[name]) for name in settings.term_weights()},
        tuple(curves["error"]),
        None if images is None else float((images - images.mean(0)).square().mean()),
        batches.targets,
    )
