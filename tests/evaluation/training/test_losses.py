import numpy as np
import pytest
import torch

from candlelight.evaluation.intrinsic.ground_truth import GroundTruth
from candlelight.evaluation.training.losses import (
    consistency_loss,
    content_error,
    reconstruction_error,
    style_content_loss,
    style_distance,
)

EVERYWHERE = torch.ones(4, 16, 16, dtype=torch.bool)


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def lit_scenes() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two scenes of coloured patches, each under two smooth lights."""
    patches = torch.rand(2, 3, 4, 4, generator=draws()) * 0.8 + 0.1
    reflectance = patches.repeat_interleave(4, 2).repeat_interleave(4, 3).repeat_interleave(2, 0)
    slope = torch.linspace(0.5, 1, 16)
    shading = torch.stack([slope.expand(16, 16), slope.flip(0).expand(16, 16)]).repeat(2, 1, 1)
    return reflectance, shading[:, None].expand(4, 3, 16, 16), torch.tensor([5, 5, 2, 2])


def slow_consistency(reflectance, shading, image, mask, scenes) -> float:
    """Restate the five terms pixel by pixel."""
    log = {
        name: np.log(part.numpy().astype(float) + 0.01)
        for name, part in {"r": reflectance, "i": image, "rs": reflectance * shading}.items()
    }
    total = 0.0
    for row in range(len(image)):
        same = [other for other in range(len(image)) if scenes[other] == scenes[row]]
        mean = np.mean([log["r"][other] for other in same], 0)
        chroma = np.mean([log["i"][other] - log["i"][other].mean(0) for other in same], 0)
        inside = mask[row].numpy()
        terms = np.zeros(5)
        terms[0] = np.abs(log["rs"] - log["i"])[row][:, inside].mean()
        terms[1] = np.abs(log["r"][row] - mean)[:, inside].mean()
        for step in ((0, 1), (1, 0)):
            found: list[list[float]] = [[], [], []]
            for y, x in np.argwhere(inside):
                below = (y + step[0], x + step[1])
                if max(below) >= 16 or not inside[below]:
                    continue
                left = log["i"][row] - log["r"][row]
                light = left[:, *below] - left[:, y, x]
                found[0].append(abs(light.mean()))
                found[1].extend(np.abs(light - light.mean()))
                edge = chroma[:, *below] - chroma[:, y, x]
                weight = np.exp(-(edge**2).sum() / (2 * 0.03**2))
                found[2].extend(weight * np.abs(log["r"][row][:, *below] - log["r"][row][:, y, x]))
            terms[2:] += [np.mean(values) for values in found]
        total += terms @ [2, 1, 1, 5, 1]
    return total / len(image)


def test_consistency_equals_a_loop_over_pixels() -> None:
    reflectance, shading, image = torch.rand(3, 4, 3, 16, 16, generator=draws(1))
    mask = torch.rand(4, 16, 16, generator=draws(2)) < 0.8
    scenes = torch.tensor([3, 0, 3, 3])
    image[2] = image[0] * 0.5  # equal chroma
    found = consistency_loss(reflectance, shading, image, mask, scenes)
    assert found.item() == pytest.approx(
        slow_consistency(reflectance, shading, image, mask, scenes), rel=1e-4
    )


def test_the_truth_has_a_lower_consistency_loss_than_trivial_decompositions() -> None:
    reflectance, shading, scenes = lit_scenes()
    image = reflectance * shading
    gray = torch.full_like(image, 0.5)
    losses = [
        consistency_loss(*parts, image, EVERYWHERE, scenes).item()
        for parts in ((reflectance, shading), (gray, image / gray), (image / 0.5, gray))
    ]
    assert losses[0] < min(losses[1:])


def test_style_distance_of_shifted_images_is_the_shift() -> None:
    # Of images that are constant, a projection is the sum of the direction times the log.
    low, high = torch.full((4, 3, 16, 16), 0.19), torch.full((4, 3, 16, 16), 0.39)  # logs of 0.2 and 0.4
    found = style_distance(low, EVERYWHERE, high, EVERYWHERE, draws())
    directions, generator = [], draws()
    for _ in range(2):  # 16 and 8 pixels wide; at 4 no patch fits
        some = torch.randn(8, 3, 5, 5, generator=generator).flatten(1)
        directions.append((some / some.norm(dim=1, keepdim=True)).sum(1).abs().mean())
        torch.randint(4 * 12 * 12, (2048,), generator=generator)  # the patches of either side
        torch.randint(4 * 12 * 12, (2048,), generator=generator)
    assert found.item() == pytest.approx(np.log(2) * sum(map(float, directions)) / 3, rel=1e-4)


def test_style_ignores_places_and_what_lies_outside_the_masks() -> None:
    image = torch.rand(4, 3, 16, 16, generator=draws())
    mask = EVERYWHERE.clone()
    mask[:, :3] = False
    spoilt = image.clone()
    spoilt[:, :, :3] = 7
    one, other = (style_distance(some, mask, image, EVERYWHERE, draws(3)) for some in (image, spoilt))
    assert one == other
    shuffled = style_distance(image.flip(0), EVERYWHERE, image, EVERYWHERE, draws(3))
    assert shuffled < 0.3 * style_distance(image.square(), EVERYWHERE, image, EVERYWHERE, draws(3))


@pytest.mark.parametrize("side", [1, 4])
def test_style_of_images_smaller_than_a_patch_is_zero(side: int) -> None:
    image, mask = torch.rand(2, 3, side, side), torch.ones(2, side, side, dtype=torch.bool)
    assert style_distance(image, mask, image, mask, draws()) == 0


def test_content_counts_the_excess_of_edges() -> None:
    image = torch.full((1, 3, 1, 3), 0.49)  # log 0.5
    part = torch.tensor([0.49, 0.99, 0.99]).expand(1, 3, 1, 3)  # one edge of log 2 among two pairs
    mask = torch.ones(1, 1, 3, dtype=torch.bool)
    assert content_error(part, image, mask).item() == pytest.approx(np.log(2) / 2)
    assert content_error(image, part, mask).item() == 0


def test_reconstruction_counts_pixels_of_the_mask() -> None:
    image = torch.full((1, 3, 1, 2), 0.49)
    mask = torch.tensor([[[True, False]]])
    found = reconstruction_error(
        torch.tensor([0.99, 5.0]).expand_as(image), torch.ones_like(image), image, mask
    )
    assert found.item() == pytest.approx(np.log(2))


def test_gradients_are_finite_at_black_and_in_empty_masks() -> None:
    parts = torch.zeros(2, 4, 3, 16, 16, requires_grad=True)
    image, scenes = torch.zeros(4, 3, 16, 16), torch.tensor([0, 0, 1, 1])
    mask = EVERYWHERE.clone()
    mask[3] = False
    truth = GroundTruth(image, image + 0.5, image + 0.5, EVERYWHERE)
    loss = consistency_loss(*parts, image, mask, scenes)
    loss = loss + style_content_loss(*parts, image, mask, truth, draws())
    loss.backward()
    assert parts.grad is not None
    assert parts.grad.isfinite().all()
