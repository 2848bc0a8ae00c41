import numpy as np
import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation.models import ColourRetinex
from candlelight.evaluation.run.model_outputs import (
    checked_codes,
    checked_decomposition,
    checked_heatmaps,
    run_intrinsic,
)
from candlelight.loaders.errors import InputError
from tests.refusals import refused

IMAGE = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
GRAY = IMAGE[:, :1]


@pytest.mark.parametrize(
    "output",
    [
        pytest.param((IMAGE, GRAY), id="tuple"),
        pytest.param([IMAGE, GRAY.expand(-1, 3, -1, -1)], id="list, three channels"),
        pytest.param({"shading": GRAY, "reflectance": IMAGE, "other": 3}, id="mapping"),
        pytest.param((IMAGE.numpy(), GRAY.numpy()[:, :, ::-1][:, :, ::-1]), id="numpy, any strides"),
        pytest.param((IMAGE.double(), GRAY.double()), id="float64"),
        pytest.param((nn.Parameter(IMAGE), GRAY), id="with gradient"),
    ],
)
def test_accepted_decompositions(output: object) -> None:
    reflectance, shading, failed = checked_decomposition(output, IMAGE, "mine")
    assert torch.equal(reflectance, IMAGE)
    assert torch.equal(shading, GRAY.expand(-1, 3, -1, -1))
    assert reflectance.dtype == shading.dtype == torch.float32
    assert failed.tolist() == [False, False]


def test_half_floats_are_accepted() -> None:
    reflectance, _, _ = checked_decomposition((IMAGE.half(), GRAY.half()), IMAGE, "mine")
    assert torch.equal(reflectance, IMAGE.half().float())


EXPECTED = r"mine: expected reflectance \[2, 3, 4, 5\] and shading \[2, 3, 4, 5\] or \[2, 1, 4, 5\], .*, got "


@pytest.mark.parametrize(
    ("output", "got"),
    [
        pytest.param(IMAGE, r"float32 \[2, 3, 4, 5\];", id="single tensor"),
        pytest.param((IMAGE, IMAGE, IMAGE), "tuple of float32 .*, float32 .*, float32", id="three"),
        pytest.param((IMAGE[:1], IMAGE), r"tuple of float32 \[1, 3, 4, 5\]", id="batch"),
        pytest.param((IMAGE, GRAY[:, 0]), r"tuple of .*, float32 \[2, 4, 5\];", id="no channel axis"),
        pytest.param((IMAGE, GRAY.int()), r"tuple of .*, int32 \[2, 1, 4, 5\];", id="integers"),
        pytest.param((IMAGE.to(torch.complex64), GRAY), "tuple of complex64", id="complex"),
        pytest.param((IMAGE.numpy().astype(object), GRAY), "tuple of object", id="numpy objects"),
        pytest.param(
            {"reflectance": IMAGE, "albedo": IMAGE}, "{reflectance: float32 .*, albedo:", id="names"
        ),
        pytest.param(None, "NoneType;", id="nothing"),
    ],
)
def test_invalid_outputs_give_one_line(output: object, got: str) -> None:
    with refused(EXPECTED + got):
        checked_decomposition(output, IMAGE, "mine")


@pytest.mark.parametrize(("value", "layer"), [(torch.nan, 0), (-torch.inf, 1)])
def test_a_row_that_is_not_finite_has_failed_and_is_zero(value: float, layer: int) -> None:
    parts = [torch.ones_like(IMAGE), torch.ones_like(GRAY)]
    parts[layer][1, 0, 2, 3] = value
    reflectance, shading, failed = checked_decomposition(parts, IMAGE, "mine")
    assert failed.tolist() == [False, True]
    assert bool((reflectance[0] == 1).all() and (shading[0] == 1).all())
    assert reflectance[1].abs().max() == shading[1].abs().max() == 0


def test_outside_the_mask_nothing_fails_and_all_is_finite() -> None:
    mask = torch.ones(2, 4, 5, dtype=torch.bool)
    mask[:, 2, 3] = False
    reflectance = torch.ones_like(IMAGE)
    reflectance[1, 0, 2, 3] = torch.nan
    found, _, failed = checked_decomposition((reflectance, GRAY), IMAGE, "mine", mask)
    assert not failed.any()
    assert found[1, 0, 2, 3] == 0
    assert found[1].sum() == 3 * 20 - 1
    assert not checked_decomposition((reflectance, GRAY), IMAGE, "mine", mask & False)[2].any()


def test_gradients_pass() -> None:
    image = IMAGE.clone().requires_grad_()
    torch.autograd.backward(checked_decomposition((image, image[:, :1]), IMAGE, "mine")[1].sum())
    assert image.grad is not None
    assert image.grad[:, 0].unique().tolist() == [3.0]


def test_a_model_runs_in_evaluation_mode_without_gradients() -> None:
    class Network(nn.Module):
        def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
            assert not self.training
            assert not torch.is_grad_enabled()
            return image, image[:, :1]

    network = Network()
    assert run_intrinsic(network, IMAGE)[1].shape == IMAGE.shape
    assert network.training


class Masked(nn.Module):
    def forward(self, image: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return image, (torch.zeros_like(image) if mask is None else mask[:, None].float().expand_as(image))


def masked(image: Tensor, *, mask: Tensor) -> tuple[Tensor, Tensor]:
    return image, mask[:, None].float().expand_as(image)


@pytest.mark.parametrize("model", [Masked(), masked])
def test_a_model_with_a_mask_parameter_receives_the_mask(model) -> None:
    mask = torch.zeros(2, 4, 5, dtype=torch.bool)
    mask[0, 1, 2] = True
    assert torch.equal(run_intrinsic(model, IMAGE, mask)[1][:, 0], mask.float())


def test_without_a_mask_the_model_receives_none() -> None:
    assert run_intrinsic(Masked(), IMAGE)[1].max() == 0
    mask = torch.ones(2, 4, 5, dtype=torch.bool)
    run_intrinsic(lambda image: (image, image), IMAGE, mask)
    run_intrinsic(lambda image, **others: (image, image[:, : 1 + len(others)]), IMAGE, mask)


def test_retinex_uses_the_mask_and_zeros_outside_are_no_failure() -> None:
    mask = torch.zeros(2, 4, 5, dtype=torch.bool)
    mask[:, 1:3, 1:4] = True
    reflectance, shading, failed = run_intrinsic(ColourRetinex(), IMAGE, mask)
    assert not failed.any()
    assert (reflectance * ~mask[:, None]).abs().max() == (shading * ~mask[:, None]).abs().max() == 0
    assert bool((reflectance.masked_select(mask[:, None]) > 0).all())


def test_an_exception_of_a_model_is_one_line_with_the_shape_and_the_cause() -> None:
    def model(image: Tensor) -> None:
        raise RuntimeError("size mismatch")

    message = r"model `model` raised RuntimeError: size mismatch \(test_model_outputs.py, line \d+\), given "
    with pytest.raises(InputError, match=message) as caught:
        run_intrinsic(model, IMAGE)
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_heatmaps_with_and_without_an_axis_of_maps() -> None:
    maps = torch.rand(2, 3, 4, 5)
    assert torch.equal(checked_heatmaps(maps, 2)[0], maps)
    assert torch.equal(checked_heatmaps(maps[:, 0].double().numpy(), 2)[0], maps[:, :1])
    maps[1, 2, 3, 4] = torch.nan
    found, failed = checked_heatmaps(maps, 2)
    assert failed.tolist() == [False, True]
    assert found[1].abs().max() == 0


@pytest.mark.parametrize(
    ("output", "got"),
    [
        (torch.zeros(3, 4, 5), r"float32 \[3, 4, 5\]"),
        (torch.zeros(2, 3, 4, 5, dtype=torch.bool), "bool"),
        (torch.zeros(2, 0, 4, 5), r"float32 \[2, 0, 4, 5\]"),
        ([torch.zeros(2, 4, 5)], "list of float32"),
    ],
)
def test_invalid_heatmaps_give_one_line(output: object, got: str) -> None:
    expected = r"expected heatmaps \[2, maps, height, width\] or \[2, height, width\], .*, got "
    with refused(expected + got):
        checked_heatmaps(output, 2)


def test_codes() -> None:
    codes = torch.rand(2, 3, dtype=torch.float64)
    assert torch.equal(checked_codes(codes, 2), codes)
    assert checked_codes(codes.numpy().astype(np.float32), 2).dtype == torch.float32
    assert checked_codes(torch.tensor([[1, 2], [3, 4]]), 2).dtype == torch.float64
    assert checked_codes(torch.tensor([[torch.nan], [1.0]]), 2).isnan().tolist() == [[True], [False]]


@pytest.mark.parametrize(
    ("output", "got"),
    [
        (torch.zeros(2, 8, 7, 7), r"float32 \[2, 8, 7, 7\]; pool the maps: output.mean"),
        (torch.zeros(2, 197, 8), r"float32 \[2, 197, 8\]; pool the tokens: output.mean"),
        (torch.zeros(2, 0), r"float32 \[2, 0\]; name a hidden layer"),
        ((torch.zeros(2, 8), torch.zeros(2, 8)), "tuple of float32"),
    ],
)
def test_invalid_codes_give_one_line(output: object, got: str) -> None:
    with refused(r"mine: expected codes \[2, codes\], real numbers, got " + got):
        checked_codes(output, 2, "mine")
