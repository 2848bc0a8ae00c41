"""Adapters of published methods: their units, sizes, layers and weights, on generated checkouts."""

import sys
from collections import OrderedDict

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from candlelight.evaluation.models.published_methods import (
    _SIZES,
    CGI_SIZES,
    SQUARE,
    choose_size,
    decode_srgb,
    load_bigtime,
    load_cgintrinsics,
    load_niid_net,
    load_usi3d,
    resize_bilinear,
    shorter_side_size,
)
from candlelight.evaluation.run.hidden_layers import run_recorded
from candlelight.loaders.colour import srgb_to_linear
from tests.refusals import refused

SQUARES = torch.rand(2, 3, 384, 384, generator=torch.Generator().manual_seed(0))
# Height and width of an image, its size for CGIntrinsics, and for BigTime.
TABLE = [
    ((174, 100), (512, 256), (384, 256)),
    ((173, 100), (384, 256), (384, 256)),
    ((142, 100), (384, 256), (384, 256)),
    ((141, 100), (512, 384), (512, 384)),
    ((116, 100), (512, 384), (512, 384)),
    ((115, 100), (384, 384), (384, 384)),
    ((100, 114), (384, 384), (384, 384)),
    ((100, 116), (384, 512), (384, 512)),
    ((341, 512), (256, 384), (256, 384)),
    ((100, 172), (256, 384), (256, 384)),
    ((100, 174), (256, 512), (256, 384)),
    ((1, 50), (256, 512), (256, 384)),
]


@pytest.mark.parametrize(("image", "cgintrinsics", "bigtime"), TABLE)
def test_sizes_by_the_aspect_ratio(image, cgintrinsics, bigtime) -> None:
    assert choose_size(*image, CGI_SIZES, SQUARE) == cgintrinsics
    assert choose_size(*image, _SIZES, SQUARE) == bigtime


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_all_sizes_are_multiples_of_128_in_the_direction_of_the_image(height: int, width: int) -> None:
    for sizes in (CGI_SIZES, _SIZES):
        rows, columns = choose_size(height, width, sizes, SQUARE)
        assert rows % 128 == columns % 128 == 0
        assert (rows - columns) * (height - width) >= 0


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ((480, 640), (300, 400)),
        ((640, 480), (400, 300)),
        ((300, 402), (300, 400)),  # the network itself would cut 2 columns
        ((60, 60), (300, 300)),
        ((341, 512), (300, 448)),  # 450.4, rounded down to a multiple of 4
    ],
)
def test_shorter_side_of_300(image, expected) -> None:
    assert shorter_side_size(*image, 300) == expected


def test_resized_images_are_those_of_torch_and_the_identity() -> None:
    images = torch.rand(2, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    assert resize_bilinear(images, (5, 7)) is images
    doubled = resize_bilinear(images, (10, 14))
    weights = torch.tensor([9.0, 3.0, 3.0, 1.0]) / 16
    assert torch.allclose(doubled[..., 1, 1], images[..., :2, :2].flatten(2) @ weights)


def test_shrunk_images_do_not_alias() -> None:
    stripes = torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(16).expand(1, 1, 8, 64)
    quarter = resize_bilinear(stripes, (2, 16))[..., 2:-2]
    assert torch.allclose(quarter, torch.tensor(0.25), atol=0.1)
    assert quarter.min() > 0.15  # neighbours of the sampled points alone would give 0


def test_srgb_is_decoded_as_by_the_loaders_and_has_gradients() -> None:
    encoded = torch.cat([torch.linspace(0, 1, 1001), torch.tensor([0.04045, 0.040451])]).requires_grad_()
    linear = decode_srgb(encoded)
    expected = srgb_to_linear(encoded.detach().double().numpy())
    np.testing.assert_allclose(linear.detach().numpy(), expected, rtol=1e-5, atol=1e-8)
    (gradient,) = torch.autograd.grad(linear.sum(), encoded)
    assert gradient.isfinite().all()
    assert gradient.min() > 0.07


def seen_by(network: torch.nn.Module) -> list[tuple[torch.Tensor, tuple[torch.Tensor, ...]]]:
    """Note input and output of each call of a network."""
    seen = []
    network.register_forward_hook(lambda module, given, output: seen.append((given[0], output)))
    return seen


def test_units_of_cgintrinsics(published) -> None:
    """The network gives logarithms of a gray reflectance and of shading; the image gives the chromaticity."""
    model = load_cgintrinsics(*published("cgintrinsics"))
    seen = seen_by(model.network)
    with torch.no_grad():
        reflectance, shading = model(SQUARES)
    [(given, (one, other))] = seen
    assert torch.equal(given, SQUARES)
    linear = np.maximum(srgb_to_linear(SQUARES.double().numpy()), 1e-4)
    chromaticity = linear / (linear.sum(1, keepdims=True) + 1e-6)
    np.testing.assert_allclose(reflectance, chromaticity * one.exp().numpy(), rtol=1e-5)
    np.testing.assert_allclose(shading, other.exp().numpy(), rtol=1e-5)
    assert (model.training, model.colour_space) == (False, "srgb")
    for value in (0.0, 1.0):  # black and white images
        assert all(layer.isfinite().all() for layer in model(torch.full((1, 3, 8, 8), value)))


def test_units_of_bigtime(published) -> None:
    """The network gives logarithms of shading, of reflectance, and of the colour of the light."""
    model = load_bigtime(*published("bigtime"))
    seen = seen_by(model.network)
    with torch.no_grad():
        reflectance, shading = model(SQUARES)
    [(_, (one, other, light))] = seen
    assert light.std() > 1e-5  # it belongs to each image
    np.testing.assert_allclose(reflectance, other.exp().numpy(), rtol=1e-5)
    np.testing.assert_allclose(shading, (one + light[..., None, None]).exp().numpy(), rtol=1e-5)


def usi3d(srgb: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The stand-in gives 2 x - 0.5 + style / 2 and 0.5 - x + style / 4, where the style is the mean of x."""
    style = srgb.mean((1, 2, 3), keepdims=True)
    raw = 2 * srgb - 0.5 + 0.5 * style, 0.5 - srgb + 0.25 * style
    assert all(one.min() < -0.1 for one in raw)
    assert raw[0].max() > 1.1
    reflectance, shading = (np.clip(one, 0, 1) ** 2.2 for one in raw)
    return reflectance, shading


def niid_net(srgb: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The log reflectance of the stand-in is -x, its normals x - 0.5, its lighting x + 1."""
    shading = np.maximum(((srgb - 0.5) * (srgb + 1)).sum(1, keepdims=True), 0)
    assert (shading == 0).mean() > 0.1
    return np.exp(-srgb), shading


@pytest.mark.parametrize(
    ("method", "load", "expected", "size"),
    [
        ("usi3d", load_usi3d, usi3d, (300, 304)),
        ("niid-net", load_niid_net, niid_net, (20, 30)),
    ],
)
def test_reflectance_and_shading_are_linear_and_not_swapped(published, method, load, expected, size) -> None:
    images = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(0))
    model = load(*published(method))
    with torch.no_grad():
        found = model(images)
    for one, wanted in zip(found, expected(images.double().numpy()), strict=True):
        np.testing.assert_allclose(one.numpy(), wanted, rtol=1e-5, atol=1e-5)
    assert (model.training, model.colour_space) == (False, "srgb")


@pytest.mark.parametrize(
    ("method", "load", "size", "given"),
    [
        ("cgintrinsics", load_cgintrinsics, (60, 80), (384, 512)),
        ("cgintrinsics", load_cgintrinsics, (30, 10), (512, 256)),
        ("cgintrinsics", load_cgintrinsics, (500, 500), (384, 384)),
        ("bigtime", load_bigtime, (9, 20), (256, 384)),
    ],
)
def test_each_size_of_image_gets_its_size_back(published, method, load, size, given) -> None:
    model = load(*published(method))
    seen = seen_by(model.network)
    with torch.no_grad():
        found = model(torch.rand(2, 3, *size))
    assert seen[0][0].shape == (2, 3, *given)
    assert [layer.shape[2:] for layer in found] == [size, size]


@pytest.mark.parametrize("counters", [True, False])
@pytest.mark.parametrize("method", ["cgintrinsics", "bigtime"])
def test_keys_and_layers_of_the_published_networks(published, standin, method: str, counters: bool) -> None:
    load = {"cgintrinsics": load_cgintrinsics, "bigtime": load_bigtime}[method]
    state = standin.states[method]()
    assert method == "bigtime" or len(state) == 141
    if not counters:
        state = OrderedDict((name, one) for name, one in state.items() if "num_batches" not in name)
        assert method == "bigtime" or len(state) == 122
    # BigTime wraps its network; the names of both kinds of files are read.
    saved = standin.prefixed("model.", state) if method == "bigtime" and counters else state
    model = load(*published(method, state=saved))
    own = model.network.state_dict()
    assert all(torch.equal(own[name], one) for name, one in state.items())
    layers = ["network.model.upconv_model_1", "network.model.upconv_model_2"]
    (reflectance, shading), recorded = run_recorded(
        model, layers, SQUARES[:1, :, :100, :120], differentiable=True
    )
    assert [recorded[layer].shape[1] for layer in layers] == ([1, 1] if method == "cgintrinsics" else [1, 3])
    assert reflectance.shape[2:] == shading.shape[2:] == (100, 120)
    last = shading if method == "cgintrinsics" else reflectance
    assert torch.allclose(recorded[layers[1]].exp().mean((2, 3)), last.mean((2, 3)), rtol=0.01)
    # The decoder of a layer leads to one of the two images alone.
    other = reflectance if method == "cgintrinsics" else shading
    (gradient,) = torch.autograd.grad(other.sum(), recorded[layers[0]], retain_graph=True)
    assert gradient.abs().sum() > 0
    assert torch.autograd.grad(other.sum(), recorded[layers[1]], allow_unused=True) == (None,)


def test_a_checkout_of_python_3_is_loaded_too(published) -> None:
    checkout, weights = published("bigtime")
    code = checkout / "models" / "networks.py"
    text = code.read_text(encoding="utf-8")
    assert "inner_nc/2" in text
    load_bigtime(checkout, weights)
    assert code.read_text(encoding="utf-8") == text
    code.write_text(text.replace("inner_nc/2", "inner_nc//2"), encoding="utf-8")
    load_bigtime(checkout, weights)
    code.write_text(text.replace("inner_nc/2", "inner_nc * 0.5"), encoding="utf-8")
    with refused(r"networks.py: `MultiUnetGenerator` cannot be made: TypeError"):
        load_bigtime(checkout, weights)


def test_weights_of_another_method_are_refused(published, standin) -> None:
    files = {method: published(method) for method in ("cgintrinsics", "bigtime")}
    with refused(r"expected the weights of MultiUnetGenerator; missing: .*; unexpected: .*; give"):
        load_cgintrinsics(files["cgintrinsics"][0], files["bigtime"][1])
    wrapped = standin.prefixed("module.", standin.states["cgintrinsics"]())
    load_cgintrinsics(*published("cgintrinsics", state=wrapped))


@pytest.mark.parametrize(
    ("method", "load", "used", "unused"),
    [
        ("cgintrinsics", load_cgintrinsics, "models/networks.py", "models/__init__.py"),
        ("niid-net", load_niid_net, "models/Hu_nets/modules.py", "models/manager.py"),
    ],
)
def test_the_identity_depends_on_the_code_that_is_run_and_on_weights(
    published, standin, method, load, used, unused
) -> None:
    before = set(sys.modules)
    checkout, weights = published(method)
    first = load(checkout, weights)
    assert set(sys.modules) == before
    assert "adapter never run with the published weights" in first.version
    for name in (unused, used):
        path = checkout / name
        path.write_text(path.read_text(encoding="utf-8") + "# one more line\n", encoding="utf-8")
        changed = load(checkout, weights)
        assert (changed.sha256 == first.sha256) == (name == unused)
    state = standin.states[method]()
    next(iter((state["IID_state_dict"] if method == "niid-net" else state).values())).add_(1)
    torch.save(state, weights)
    assert len({first.sha256, changed.sha256, load(checkout, weights).sha256}) == 3


@pytest.mark.parametrize(("style_dim", "n_layer"), [(8, 3), (32, 5)])
def test_sizes_of_usi3d_are_read_from_the_weights(published, standin, style_dim: int, n_layer: int) -> None:
    state = standin.usi3d_state(style_dim, n_layer)
    model = load_usi3d(*published("usi3d", state=state))
    assert len(model.fea_s.mlp.model) == n_layer
    assert model.gen_r.style_dim == style_dim
    for name, key in (("gen_i", "i"), ("gen_r", "r"), ("gen_s", "s"), ("fea_s", "fs")):
        own = getattr(model, name).state_dict()
        assert own.keys() == state[key].keys()
        assert all(torch.equal(one, state[key][name]) for name, one in own.items())


def test_images_of_usi3d_have_a_shorter_side_of_300_or_220(published) -> None:
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
        with refused("`shorter_side` must be a multiple of 4, got"):
            load_usi3d(checkout, weights, shorter_side=side)


def test_layers_of_both_branches_of_usi3d(published) -> None:
    model = load_usi3d(*published("usi3d"))
    layers = ["gen_r.dec.model.0", "gen_s.dec.model.0"]
    pair, recorded = run_recorded(model, layers, SQUARES[:, :, :40, :44], differentiable=True)
    for branch, layer in enumerate(layers):
        (gradient,) = torch.autograd.grad(pair[branch].sum(), recorded[layer], retain_graph=True)
        assert gradient.abs().sum() > 0


def test_other_weights_of_usi3d_are_refused(published, standin) -> None:
    state = standin.usi3d_state()
    for changed, message in (
        (
            state | {"r": {"weight": torch.ones(2)}},
            "there is no matrix mlp.model.0.fc.weight or enc_content",
        ),
        (state | {"r": None}, "there is no matrix mlp.model.0.fc.weight or enc_content"),
        (
            state | {"i": standin.usi3d_state(32)["i"]},
            r"`i`: .*other shapes: mlp.model.0.fc.weight \[5, 32\] instead of",
        ),
    ):
        with refused(message):
            load_usi3d(*published("usi3d", state=changed))


def test_layers_of_both_decoders_of_niid_net(published) -> None:
    model = load_niid_net(*published("niid-net"))
    layers = ["network.IID_model.decoder_R", "network.IID_model.decoder_L"]
    (reflectance, _), recorded = run_recorded(model, layers, SQUARES[:, :, :20, :30])
    assert torch.allclose(recorded[layers[0]].exp(), reflectance)


@pytest.mark.parametrize("part", ["NEM_coarse_state_dict", "NEM_refine_state_dict", "IID_state_dict"])
def test_each_part_of_niid_net_has_to_be_there(published, standin, part: str) -> None:
    state = standin.states["niid-net"]()
    wrong = state | {part: standin.prefixed("net.", state[part])}
    with refused(f"niid-net.pth: `{part}`: .*missing: .*; unexpected: net."):
        load_niid_net(*published("niid-net", state=wrong))
    del state[part]
    with refused(f"expected an entry `{part}`, got epoch, "):
        load_niid_net(*published("niid-net", state=state))
