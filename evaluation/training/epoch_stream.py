"""One random stream of torch for each use and epoch of a training, so that it can resume anywhere."""

import torch

from candlelight.evaluation.models.named_streams import named_stream


def epoch_stream(seed: int, name: str, epoch: int) -> torch.Generator:
    """Make the stream of one use, such as "order", in one epoch.

    Example:
        >>> one, other = (torch.rand(1, generator=epoch_stream(0, "order", epoch)) for epoch in (0, 1))
        >>> one == other
        tensor([False])
    """
    return torch.Generator().manual_seed(int(named_stream(seed, f"{name} {epoch}").integers(2**63)))
