from collections import OrderedDict

import numpy as np
import pytest
import torch

from candlelight.evaluation.models.published_methods import load_cgintrinsics
from candlelight.evaluation.run.hidden_layers import run_recorded
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError

IMAGES = torch.rand(2, 3, 384, 384, generator=torch.Generator().manual_seed(0))


def reference(images: torch.Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Reflectance and shading of the stand-in, whose logarithms are 2 mean(x) and -3 x_red."""
    srgb = images.double().numpy()
    linear = np.maximum(srgb_to_linear(srgb), 1e-4)
    chromaticity = linear / (linear.sum(1, keepdims=True) + 1e-6)
    return chromaticity * np.exp(2 * srgb.mean(1, keepdims=True)), np.exp(-3 * srgb[:, :1])


def test_reflectance_and_shading_are_linear_and_not_swapped(published) -> None:
    model = load_cgintrinsics(*published("cgintrinsics"))
    with torch.no_grad():
        found = model(IMAGES)
    for one, expected in zip(found, reference(IMAGES), strict=True):
        assert one.shape == expected.shape
        np.testing.assert_allclose(one.numpy(), expected, rtol=1e-5)
    assert not model.training
    assert model.colour_space == "srgb"


def test_each_size_of_image_gets_its_size_back(published) -> None:
    model = load_cgintrinsics(*published("cgintrinsics"))
    colour = torch.tensor([0.5, 0.25, 0.125])[None, :, None, None]
    for height, width, given in ((60, 80, (384, 512)), (30, 10, (512, 256)), (500, 500, (384, 384))):
        with torch.no_grad():
            reflectance, shading = model(colour.expand(3, 3, height, width))
        assert model.network.given.shape == (3, 3, *given)
        expected = reference(colour)
        np.testing.assert_allclose(reflectance, np.tile(expected[0], (3, 1, height, width)), rtol=1e-5)
        np.testing.assert_allclose(shading, np.tile(expected[1], (3, 1, height, width)), rtol=1e-5)


def test_black_and_white_images_are_finite(published) -> None:
    model = load_cgintrinsics(*published("cgintrinsics"))
    for value in (0.0, 1.0):
        reflectance, shading = model(torch.full((1, 3, 8, 8), value))
        assert torch.allclose(reflectance, torch.tensor(np.exp(2 * value) / 3).float(), rtol=0.01)
        assert shading.isfinite().all()


@pytest.mark.parametrize("counters", [True, False])
def test_keys_of_the_published_layers(published, standin, counters: bool) -> None:
    torch.manual_seed(1)
    scope: dict[str, type[torch.nn.Module]] = {}
    exec(standin.CGI_UNET, scope)
    state = OrderedDict(scope["MultiUnetGenerator"](3, 3, 7).state_dict())
    assert len(state) == 141
    if not counters:
        state = OrderedDict((name, one) for name, one in state.items() if "num_batches" not in name)
        assert len(state) == 122
    model = load_cgintrinsics(*published("cgintrinsics", {"models/networks.py": standin.CGI_UNET}, state))
    name = "model.submodule.submodule.submodule.upconv_model_2.1.weight"
    assert torch.equal(model.network.state_dict()[name], state[name])
    layers = ["network.model.upconv_model_1", "network.model.upconv_model_2"]
    (reflectance, shading), recorded = run_recorded(model, layers, IMAGES[:, :, :100, :120])
    assert recorded[layers[0]].shape == (2, 1, 384, 512)
    assert torch.allclose(recorded[layers[1]].exp().mean((2, 3)), shading.mean((2, 3)), rtol=0.01)
    alone = model(IMAGES[1:, :, :100, :120])
    assert torch.allclose(alone[0], reflectance[1:], atol=1e-5)


def test_gradients_of_hidden_layers(published, standin) -> None:
    scope: dict[str, type[torch.nn.Module]] = {}
    exec(standin.CGI_UNET, scope)
    state = scope["MultiUnetGenerator"](3, 3, 7).state_dict()
    model = load_cgintrinsics(*published("cgintrinsics", {"models/networks.py": standin.CGI_UNET}, state))
    layer = "network.model.upconv_model_1"
    (reflectance, shading), recorded = run_recorded(
        model, [layer], IMAGES[:1, :, :9, :9], differentiable=True
    )
    (gradient,) = torch.autograd.grad(reflectance.sum(), recorded[layer], retain_graph=True)
    assert gradient.abs().sum() > 0
    assert torch.autograd.grad(shading.sum(), recorded[layer], allow_unused=True) == (None,)


def test_weights_of_another_method_are_refused(published, standin) -> None:
    checkout, _ = published("cgintrinsics")
    _, weights = published("bigtime")
    with pytest.raises(
        InputError, match=r"other shapes: model.weight \[3, 256\] instead of \[1, 2\]; give the"
    ):
        load_cgintrinsics(checkout, weights)
    wrapped = standin.prefixed("module.", standin.states["cgintrinsics"]())
    load_cgintrinsics(*published("cgintrinsics", state=wrapped))


def test_the_identity_depends_on_code_and_weights_and_says_what_was_never_run(published, standin) -> None:
    checkout, weights = published("cgintrinsics")
    first = load_cgintrinsics(checkout, weights)
    assert first.version == "CGIntrinsics, adapter never run with the published weights"
    assert load_cgintrinsics(checkout, weights).sha256 == first.sha256
    code = checkout / "models" / "networks.py"
    code.write_text(code.read_text(encoding="utf-8") + "# one more line\n", encoding="utf-8")
    changed = load_cgintrinsics(checkout, weights)
    torch.save({"model.weight": torch.tensor([[1.0, 1.0]])}, weights)
    assert len({first.sha256, changed.sha256, load_cgintrinsics(checkout, weights).sha256}) == 3
