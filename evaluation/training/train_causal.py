"""Train a variational autoencoder for the causal metrics."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import DataLoader

from candlelight.evaluation.models.autoencoders import ConvVAE
from candlelight.evaluation.running.batches import Fingerprint
from candlelight.evaluation.training.causal_batches import CausalBatches
from candlelight.evaluation.training.causal_settings import CausalSettings
from candlelight.evaluation.training.causal_steps import CausalSteps
from candlelight.evaluation.training.split_training import split_training
from candlelight.evaluation.training.training_state import TrainingState, describe_rows
from candlelight.loaders.errors import InputError
from candlelight.loaders.progress_bar import progress_bar
from candlelight.loaders.views import Factors, Images

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
        >>> from candlelight.evaluation.training.causal_settings import causal_settings
        >>> from candlelight.loaders.views import DataIdentity
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
        raise InputError(f"expected square images, got {height} x {width}; resize them (--size)")
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
