import numpy as np
import pytest
import torch

from candlelight.evaluation.models.published_methods import load_usi3d
from candlelight.evaluation.run.hidden_layers import run_recorded
from candlelight.loaders.errors import InputError

IMAGES = torch.rand(2, 3, 300, 304, generator=torch.Generator().manual_seed(0))


def test_outputs_are_clipped_and_linear_and_not_swapped(published) -> None:
    """The stand-in gives 2 x - 0.5 + style / 2 and 0.5 - x + style / 4, where the style is the mean of x."""
    model = load_usi3d(*published("usi3d"))
    with torch.no_grad():
        reflectance, shading = model(IMAGES)
    srgb = IMAGES.double().numpy()
    style = srgb.mean((1, 2, 3), keepdims=True)
    raw = 2 * srgb - 0.5 + 0.5 * style, 0.5 - srgb + 0.25 * style
    assert all(one.min() < -0.1 for one in raw)
    assert raw[0].max() > 1.1
    expected = [np.clip(one, 0, 1) ** 2.2 for one in raw]
    np.testing.assert_allclose(reflectance.numpy(), expected[0], atol=1e-5)
    np.testing.assert_allclose(shading.numpy(), expected[1], atol=1e-5)


@pytest.mark.parametrize(("style_dim", "n_layer"), [(8, 3), (32, 5)])
def test_sizes_are_read_from_the_weights(published, standin, style_dim: int, n_layer: int) -> None:
    state = standin.usi3d_state(style_dim, n_layer)
    model = load_usi3d(*published("usi3d", state=state))
    assert len(model.fea_s.mlp.model) == n_layer
    assert model.gen_r.style_dim == style_dim
    for name, key in (("gen_i", "i"), ("gen_r", "r"), ("gen_s", "s"), ("fea_s", "fs")):
        own = getattr(model, name).state_dict()
        assert own.keys() == state[key].keys()
        assert all(torch.equal(one, state[key][name]) for name, one in own.items())


def test_images_have_a_shorter_side_of_300_or_220(published) -> None:
    checkout, weights = published("usi3d")
    for side, expected in ((300, (300, 400)), (220, (220, 292))):
        model = load_usi3d(checkout, weights, shorter_side=side)
        with torch.no_grad():
            reflectance, shading = model(torch.full((3, 3, 30, 40), 0.5))
        assert model.gen_i.given.shape == (3, 3, *expected)
        assert reflectance.shape == shading.shape == (3, 3, 30, 40)
        assert torch.allclose(reflectance, torch.tensor(0.75**2.2))
        assert torch.allclose(shading, torch.tensor(0.125**2.2))
        assert model.version.startswith(f"USI3D with a shorter side of {side} pixels, adapter never run")
    for side in (0, 222, -4):
        with pytest.raises(InputError, match="`shorter_side` must be a multiple of 4, got"):
            load_usi3d(checkout, weights, shorter_side=side)


def test_layers_of_both_branches(published) -> None:
    model = load_usi3d(*published("usi3d"))
    layers = ["gen_r.dec.model.0", "gen_s.dec.model.0"]
    pair, recorded = run_recorded(model, layers, IMAGES, differentiable=True)
    for branch, layer in enumerate(layers):
        (gradient,) = torch.autograd.grad(pair[branch].sum(), recorded[layer], retain_graph=True)
        assert gradient.abs().sum() > 0


def test_other_files_are_refused(published, standin) -> None:
    state = standin.usi3d_state()
    lacking = {name: one for name, one in state.items() if name != "fs"}
    with pytest.raises(InputError, match="expected an entry `fs`, got i, r, s and 2 more"):
        load_usi3d(*published("usi3d", state=lacking))
    with pytest.raises(InputError, match=r"there is no matrix mlp.model.0.fc.weight or enc_content"):
        load_usi3d(*published("usi3d", state=state | {"r": {"weight": torch.ones(2)}}))
    with pytest.raises(InputError, match=r"there is no matrix mlp.model.0.fc.weight or enc_content"):
        load_usi3d(*published("usi3d", state=state | {"r": None}))
    with pytest.raises(InputError, match=r"`i`: .*other shapes: mlp.model.0.fc.weight \[5, 32\] instead of"):
        load_usi3d(*published("usi3d", state=state | {"i": standin.usi3d_state(32)["i"]}))
    with pytest.raises(InputError, match=r"it holds `numpy.*scalar`, and loading more than tensors"):
        load_usi3d(*published("usi3d", state=state | {"best_result": np.float64(0.2)}))
