import numpy as np
import pytest
import torch

from candlelight.evaluation.models.published_methods import load_bigtime
from candlelight.evaluation.run.hidden_layers import run_recorded
from candlelight.loaders.errors import InputError

IMAGES = torch.rand(2, 3, 384, 384, generator=torch.Generator().manual_seed(0))


def test_reflectance_and_shading_are_linear_and_not_swapped(published) -> None:
    """The stand-in's log shading is 2 mean(x), its log reflectance -3 x, its log light the mean of x / 2."""
    model = load_bigtime(*published("bigtime"))
    with torch.no_grad():
        reflectance, shading = model(IMAGES)
    srgb = IMAGES.double().numpy()
    light = 0.5 * srgb.mean((2, 3), keepdims=True)
    np.testing.assert_allclose(reflectance.numpy(), np.exp(-3 * srgb), rtol=1e-5)
    np.testing.assert_allclose(shading.numpy(), np.exp(2 * srgb.mean(1, keepdims=True) + light), rtol=1e-5)


def test_the_light_belongs_to_each_image(published) -> None:
    model = load_bigtime(*published("bigtime"))
    pair = torch.stack([torch.full((3, 9, 20), 0.2), torch.full((3, 9, 20), 0.8)])
    with torch.no_grad():
        shading = model(pair)[1]
        alone = model(pair[1:])[1]
    assert model.network.given.shape[2:] == (256, 384)
    assert torch.allclose(shading[1:], alone)
    assert torch.allclose(shading[:, 0, 0, 0], torch.tensor([0.5, 2.0]).exp())


@pytest.mark.parametrize("wrapped", [True, False])
@pytest.mark.parametrize("counters", [True, False])
def test_keys_of_the_published_layers(published, standin, wrapped: bool, counters: bool) -> None:
    scope: dict[str, type[torch.nn.Module]] = {}
    exec(standin.BIGTIME_UNET.replace("inner_nc/2", "inner_nc//2"), scope)
    state = scope["MultiUnetGenerator"](3, 3, 7).state_dict()
    state = {name: one for name, one in state.items() if counters or "num_batches" not in name}
    saved = standin.prefixed("model.", state) if wrapped else state
    checkout, weights = published("bigtime", {"models/networks.py": standin.BIGTIME_UNET}, saved)
    model = load_bigtime(checkout, weights)
    own = model.network.state_dict()
    assert all(torch.equal(own[name], one) for name, one in state.items())
    layers = ["network.model.upconv_model_1", "network.model.upconv_model_2"]
    (reflectance, shading), recorded = run_recorded(model, layers, IMAGES[:, :, :100, :120])
    assert [recorded[layer].shape[1] for layer in layers] == [1, 3]
    assert reflectance.shape == shading.shape == (2, 3, 100, 120)
    assert torch.allclose(recorded[layers[1]].exp().mean((2, 3)), reflectance.mean((2, 3)), rtol=0.01)


def test_a_checkout_of_python_3_is_loaded_too(published, standin) -> None:
    checkout, weights = published("bigtime")
    code = checkout / "models" / "networks.py"
    text = code.read_text(encoding="utf-8")
    assert "inner_nc/2" in text
    load_bigtime(checkout, weights)
    assert code.read_text(encoding="utf-8") == text
    code.write_text(text.replace("inner_nc/2", "inner_nc//2"), encoding="utf-8")
    load_bigtime(checkout, weights)
    code.write_text(text.replace("inner_nc/2", "inner_nc * 0.5"), encoding="utf-8")
    with pytest.raises(InputError, match=r"networks.py: `MultiUnetGenerator` cannot be made: TypeError"):
        load_bigtime(checkout, weights)


def test_weights_of_another_method_are_refused(published) -> None:
    checkout, _ = published("bigtime")
    _, weights = published("usi3d")
    with pytest.raises(InputError, match=r"expected tensors by name, got i of dict"):
        load_bigtime(checkout, weights)
