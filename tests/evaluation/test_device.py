"""Whole evaluations on a device: the numbers are those of the CPU, and only what a table needs leaves it.

The device is a simulated one, or CUDA where there is a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from candlelight.evaluation import evaluate
from candlelight.evaluation.perception import PerceptionData, TransformFamily, rmse_distance
from candlelight.evaluation.perception.distances import ssim_distance
from candlelight.evaluation.perception.raid_agreement import DistortedImages
from candlelight.evaluation.views import (
    Comparisons,
    DecomposedImage,
    JudgedImage,
    MovedImages,
    RatedPair,
    RegionImage,
)
from tests.evaluation.test_gpu import Pretended, PretendedGpu

HEIGHT, WIDTH, ROWS = 48, 64, 4
IMAGE_BYTES = 3 * HEIGHT * WIDTH * 4
_READS = (
    Tensor.cpu,
    Tensor.tolist,
    Tensor.item,
    Tensor.__float__,
    Tensor.__int__,
    Tensor.__bool__,
    Tensor.to,
)


class CountedGpu(PretendedGpu):
    """A simulated device that counts the bytes of tensors that are copied to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs)
        given = args[0] if args else None
        leaves = not isinstance(result, Pretended)
        if function in _READS and isinstance(given, Pretended) and leaves:
            with torch._C.DisableTorchFunctionSubclass():
                self.bytes += given.numel() * given.element_size()
        return result


@contextmanager
def counted() -> Iterator[CountedGpu]:
    with CountedGpu() as mode:
        yield mode


def drawn(seed: int, *shape: int) -> Tensor:
    return 0.1 + 0.8 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def decomposed(row: int) -> DecomposedImage:
    reflectance, shading = drawn(row, 3, HEIGHT, WIDTH), drawn(100 + row, 3, HEIGHT, WIDTH)
    mask = torch.ones(HEIGHT, WIDTH, dtype=torch.bool)
    mask[: row + 1] = False
    return DecomposedImage(reflectance * shading, reflectance, shading, mask)


def judged(row: int) -> JudgedImage:
    points = torch.rand(20, 2, 2, generator=torch.Generator().manual_seed(row), dtype=torch.float64)
    made = Comparisons(points, torch.arange(20) % 3, torch.ones(20, dtype=torch.float64))
    labels = torch.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) // 500 % 3
    return JudgedImage(drawn(row, 3, HEIGHT, WIDTH), made, labels)


def painted(row: int) -> RegionImage:
    regions = torch.zeros(HEIGHT, WIDTH, dtype=torch.int64)
    regions[: HEIGHT // 2], regions[HEIGHT // 2 :] = 1, 2
    return RegionImage(
        drawn(row, 3, HEIGHT, WIDTH), regions, torch.tensor([[0.2, 0.4, 0.6], [0.6, 0.3, 0.2]])
    )


def split(image: Tensor) -> tuple[Tensor, Tensor]:
    shading = image.mean(1, keepdim=True)
    return image / shading, shading


CASES = {  # items, members and groups of the view, options, and the share of an image that may cross
    "lmse": (decomposed, {"explains": "image"}, None, {}, 0.05),
    "whdr": (judged, {"origin": "human"}, None, {}, 0.05),
    "saw": (
        judged,
        {"origin": "human"},
        None,
        {"variant": "cgintrinsics2018"},
        0.6,
    ),  # 2400 counts
    "constancy": (painted, {"synthetic": True}, ("room",) * ROWS, {}, 0.05),
    "protocols": (decomposed, {"explains": "image"}, None, {"protocol": ("mit-grosse", "sintel")}, 0.05),
}


@pytest.mark.parametrize("name", CASES)
def test_only_numbers_of_the_table_leave_the_device(memory_view, name) -> None:
    read, members, groups, options, share = CASES[name]
    view = memory_view([read(row) for row in range(ROWS)], groups, **members)
    expected = evaluate(name, view, {"split": split}, device="cpu", **options)
    with counted() as device:
        found = evaluate(name, view, {"split": split}, device="cuda", **options)
    assert list(found) == list(expected)
    for model, result in found.items():
        for column, score in result.scores.items():
            wanted = expected[model].scores[column]
            for part in ("value", "low", "high"):
                assert getattr(score, part) == pytest.approx(
                    getattr(wanted, part), rel=1e-5, abs=1e-9, nan_ok=True
                )
    assert 0 < device.bytes < share * IMAGE_BYTES * ROWS * len(found)


def moved(row: int) -> MovedImages:
    magnitudes = torch.tensor([0.0, 2.0, 6.0]).double()
    turned = torch.stack([drawn(100 + row, 3, HEIGHT, WIDTH).roll(shift, 2) for shift in range(3)])
    return MovedImages(turned[0], turned, "rotation", "degrees", magnitudes, 0 * magnitudes, 29.2)


def of_raid(row: int) -> DistortedImages:
    image = drawn(row, 3, HEIGHT, WIDTH)
    steps = torch.arange(1, 10)[:, None, None, None] / 100
    return DistortedImages(image, image + (1 + row) * steps, "rotation", 0.3 * torch.arange(10).double())


@pytest.mark.parametrize("name", ["transforms", "moved-frames", "raid"])
def test_images_are_transformed_and_compared_on_the_device(memory_view, name) -> None:
    rows = range(ROWS)
    pairs = memory_view(
        [RatedPair(drawn(row, 3, 20, 24), drawn(9, 3, 20, 24), 2.0 * row, 0.1) for row in rows]
    )
    families = [
        TransformFamily(kind, (one, 1.3, 2.0), kernel="cubic")
        for kind, one in {"translation x": 0, "rotation": 0, "scale": 1, "illuminant 510": 0}.items()
    ]
    images = memory_view([drawn(row, 3, HEIGHT, WIDTH) for row in rows])
    data = {
        "transforms": PerceptionData(images, {"image plane": families}, rated=pairs),
        "moved-frames": memory_view([moved(row) for row in rows], pixels_per_degree=(29.2,), incomplete=()),
        "raid": memory_view([of_raid(row) for row in rows]),
    }[name]
    options = {"moves": "both"} if name == "moved-frames" else {}
    metrics = {"rmse": rmse_distance, "ssim": ssim_distance}
    expected = evaluate(name, data, metrics, device="cpu", **options)
    with counted() as device:
        found = evaluate(name, data, metrics, device="cuda", **options)
    for metric, result in found.items():
        values = [score.value for score in result.scores.values()]
        wanted = [expected[metric].scores[score].value for score in result.scores]
        assert values == pytest.approx(wanted, rel=1e-4, nan_ok=True)
    assert 0 < device.bytes < 0.05 * IMAGE_BYTES * ROWS


def test_the_count_sees_an_image_that_leaves() -> None:
    with counted() as device:
        torch.ones(3, 4, device="cuda").cpu()
        torch.ones(5, device="cuda").tolist()
    assert device.bytes == 4 * (12 + 5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", [*CASES, "maw"])
def test_a_gpu_gives_the_numbers_of_the_cpu(memory_view, name) -> None:
    read, members, groups, options, _ = CASES.get(name, (painted, {"synthetic": True}, None, {}, 0))
    view = memory_view([read(row) for row in range(ROWS)], groups, **members)
    cpu, gpu = (
        evaluate(name, view, {"split": split}, device=device, **options) for device in ("cpu", "cuda")
    )
    for model, result in gpu.items():
        for column, score in result.scores.items():
            assert score.value == pytest.approx(
                cpu[model].scores[column].value, rel=1e-4, abs=1e-7, nan_ok=True
            )
