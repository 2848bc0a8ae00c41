"""The steps of the training of an autoencoder: its loss, and the discriminator's."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from candlelight.evaluation.models.autoencoders import CodeDiscriminator, ConvVAE
from candlelight.evaluation.models.autoencoders.conv_vae import Posterior
from candlelight.evaluation.training.causal_batches import CausalBatches
from candlelight.evaluation.training.causal_settings import CausalSettings
from candlelight.evaluation.training.code_supervision import supervised_codes_loss
from candlelight.evaluation.training.density_ratio import density_ratio, discriminator_loss, permute_codes
from candlelight.evaluation.training.dip_penalty import dip_penalty
from candlelight.evaluation.training.epoch_stream import epoch_stream
from candlelight.evaluation.training.foreground import foreground_weights
from candlelight.evaluation.training.optimisation import Optimisation
from candlelight.evaluation.training.shared_posterior import share_posterior
from candlelight.evaluation.training.total_correlation import total_correlation
from candlelight.evaluation.training.training_state import TrainingState
from candlelight.evaluation.training.vae_losses import bernoulli_error, gaussian_kl


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
