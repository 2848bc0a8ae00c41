import sys

import numpy as np
import pytest
import torch

from candlelight.evaluation.models.published_methods import load_niid_net
from candlelight.evaluation.run.hidden_layers import run_recorded
from candlelight.loaders.errors import InputError

IMAGES = torch.rand(3, 3, 20, 30, generator=torch.Generator().manual_seed(0))
PARTS = ("NEM_coarse_state_dict", "NEM_refine_state_dict", "IID_state_dict")


def test_reflectance_and_shading_are_those_of_the_network(published) -> None:
    """The stand-in's log reflectance is -x, its normals x - 0.5, its lighting x + 1."""
    model = load_niid_net(*published("niid-net"))
    with torch.no_grad():
        reflectance, shading = model(IMAGES)
    srgb = IMAGES.double().numpy()
    np.testing.assert_allclose(reflectance.numpy(), np.exp(-srgb), rtol=1e-5)
    expected = np.maximum(((srgb - 0.5) * (srgb + 1)).sum(1, keepdims=True), 0)
    np.testing.assert_allclose(shading.numpy(), expected, atol=1e-5)
    assert (expected == 0).mean() > 0.1
    assert model.version.startswith("NIID-Net, adapter never run")


def test_modules_of_the_checkout_are_forgotten_and_hashed(published) -> None:
    before = set(sys.modules)
    checkout, weights = published("niid-net")
    first = load_niid_net(checkout, weights)
    assert set(sys.modules) == before
    path = checkout / "models" / "Hu_nets" / "modules.py"
    path.write_text(path.read_text(encoding="utf-8") + "# one more line\n", encoding="utf-8")
    changed = load_niid_net(checkout, weights)
    unused = checkout / "models" / "manager.py"
    unused.write_text("", encoding="utf-8")
    again = load_niid_net(checkout, weights)
    assert first.sha256 != changed.sha256 == again.sha256


def test_layers_of_both_decoders(published) -> None:
    model = load_niid_net(*published("niid-net"))
    layers = ["network.IID_model.decoder_R", "network.IID_model.decoder_L"]
    (reflectance, _), recorded = run_recorded(model, layers, IMAGES)
    assert torch.allclose(recorded[layers[0]].exp(), reflectance)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_has_to_be_there(published, standin, part: str) -> None:
    state = standin.states["niid-net"]()
    wrong = state | {part: standin.prefixed("net.", state[part])}
    with pytest.raises(InputError, match=f"niid-net.pth: `{part}`: .*missing: .*; unexpected: net."):
        load_niid_net(*published("niid-net", state=wrong))
    del state[part]
    with pytest.raises(InputError, match=f"expected an entry `{part}`, got epoch, "):
        load_niid_net(*published("niid-net", state=state))


def test_missing_files_of_the_checkout_are_named(published) -> None:
    checkout, weights = published("niid-net")
    (checkout / "models" / "Hu_nets" / "modules.py").unlink()
    with pytest.raises(
        InputError, match=r"niid_net.py: cannot be imported: cannot import name 'modules' from"
    ):
        load_niid_net(checkout, weights)
    (checkout / "models" / "niid_net.py").unlink()
    with pytest.raises(InputError, match=r"niid-net: expected a checkout with the file models/niid_net.py"):
        load_niid_net(checkout, weights)
