"""Fixtures: generated checkouts with the class names, argument lists, outputs and keys of the published ones.

The networks of USI3D and NIID-Net return a known function of their input. `CGI_UNET` and `BIGTIME_UNET` have
the layers of the published networks, with few channels.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

SIGNATURE = "input_nc, output_nc, num_downs, ngf=64, norm_layer=nn.BatchNorm2d, use_dropout=False, gpu_ids=[]"
USI3D = """
import torch
from torch import nn

class Named(nn.Module):
    def __init__(self, **members):
        super().__init__()
        for name, member in members.items():
            setattr(self, name, member)

def MLP(input_dim, output_dim, dim, n_blk):
    sizes = [input_dim] + [dim] * (n_blk - 1) + [output_dim]
    blocks = [Named(fc=nn.Linear(one, other)) for one, other in zip(sizes, sizes[1:])]
    return Named(model=nn.Sequential(*blocks))

class AdaINGen(nn.Module):
    def __init__(self, input_dim, output_dim, params):
        super(AdaINGen, self).__init__()
        assert params["n_downsample"] == 2 and params["n_res"] == 4
        assert (params["activ"], params["pad_type"]) == ("relu", "reflect")
        self.style_dim = params["style_dim"]
        self.enc_content = Named(model=nn.Sequential(Named(conv=nn.Conv2d(input_dim, params["dim"], 7))))
        self.dec = Named(model=nn.Sequential(nn.Conv2d(3, 3, 1)))
        self.mlp = MLP(params["style_dim"], 4, params["mlp_dim"], 3)

    def encode(self, images):
        self.given = images
        style = images.mean((1, 2, 3)).reshape(-1, 1, 1, 1).expand(-1, self.style_dim, 1, 1)
        return images, style

    def decode(self, content, style):
        self.dec.model[0].shift = style.mean(1, keepdim=True)  # a plain attribute, as in AdaIN
        return self.dec.model(content) + self.dec.model[0].shift

class IntrinsicSplitor(nn.Module):
    def __init__(self, feature_len, hidden_dim, n_layers, activ):
        super(IntrinsicSplitor, self).__init__()
        assert activ == "relu"
        self.mlp = MLP(feature_len, 2 * feature_len, hidden_dim, n_layers)

    def forward(self, fea):
        return 0.5 * fea, 0.25 * fea
"""
NIID = """
import torch
import torch.nn as nn

from models import iid_net
import models.Hu_nets.depth_net_from_Hu as normal_estimation_module

class NIIDNet(nn.Module):
    def __init__(self):
        super(NIIDNet, self).__init__()
        self.IID_model = iid_net.IIDNet(3, (256, 512, 1024), 3, 3)
        self.NEM_coarse_model, self.NEM_refine_model = normal_estimation_module.build_model(is_senet=True)
        self.stats_mean = nn.Parameter(torch.zeros(1, 3, 1, 1), requires_grad=False)

    def forward(self, input_srgb, pred_normal, pred_reflect, pred_shading):
        assert pred_normal is True and pred_reflect is True and pred_shading is True
        out_N = self.NEM_refine_model(self.NEM_coarse_model(input_srgb))
        out_R, out_L = self.IID_model(input_srgb)
        out_S = torch.relu((out_N * out_L).sum(1, keepdim=True))
        return out_N, torch.exp(out_R), out_L, out_S, out_S * torch.exp(out_R)
"""
IID = """
import torch.nn as nn

class IIDNet(nn.Module):
    def __init__(self, input_nc, extra_feature_nc, out_R_nc, out_L_nc, ngf=64):
        super(IIDNet, self).__init__()
        self.decoder_R = nn.Conv2d(input_nc, out_R_nc, 1)
        self.decoder_L = nn.Conv2d(input_nc, out_L_nc, 1)

    def forward(self, input):
        return self.decoder_R(input), self.decoder_L(input)
"""
NORMALS = """
from models.Hu_nets import modules

def build_model(is_resnet=False, is_densenet=False, is_senet=False):
    return modules.conv(), modules.conv()
"""
UNET = """
import torch
from torch import nn

class Level(nn.Module):
    def __init__(self, depth, outer_nc, inner_nc):
        super(Level, self).__init__()
        self.depth = depth
        down = nn.Conv2d(outer_nc, inner_nc, 4, 2, 1)
        middle = [nn.LeakyReLU(0.2), down, nn.BatchNorm2d(inner_nc)]
        self.downconv_model = nn.Sequential(*{7: [down], 1: middle[:2]}.get(depth, middle))
        self.submodule = Level(depth - 1, inner_nc, inner_nc) if depth > 1 else None
        wide = inner_nc if depth == 1 else 2 * inner_nc
        if depth == 7:
            ups = [HEAD]
        else:
            ups = [
                [nn.ReLU(), nn.ConvTranspose2d(wide, outer_nc, 4, 2, 1), nn.BatchNorm2d(outer_nc)]
                for channels in (1, 1)
            ]
        self.upconv_model_1, self.upconv_model_2 = (nn.Sequential(*up) for up in ups)
        if depth == 1:
            LIGHT

    def forward(self, x):
        down_x = self.downconv_model(x)
        if self.depth == 1:
            y_1, y_2, rest = down_x, down_x, self.light(down_x)
        else:
            y_1, y_2, rest = self.submodule.forward(down_x)
        y_1, y_2 = self.upconv_model_1(y_1), self.upconv_model_2(y_2)
        if self.depth < 7:
            y_1, y_2 = torch.cat([y_1, x], 1), torch.cat([y_2, x], 1)
        return y_1, y_2, rest

class MultiUnetGenerator(nn.Module):
    def __init__(self, SIGNATURE):
        super(MultiUnetGenerator, self).__init__()
        self.model = Level(num_downs, output_nc, ngf // 32)

    def forward(self, input):
        return self.model(input)OUTPUTS
"""
CGI_UNET = (
    UNET.replace("SIGNATURE", SIGNATURE)
    .replace(
        "[HEAD]",
        "[[nn.ReLU(), nn.ConvTranspose2d(wide, inner_nc, 4, 2, 1), nn.BatchNorm2d(inner_nc), nn.ReLU(), "
        "nn.Conv2d(inner_nc, 1, 1)] for _ in range(2)]",
    )
    .replace("LIGHT", "self.light = lambda features: ()")
    .replace("OUTPUTS", "[:2]")
)
BIGTIME_UNET = (
    UNET.replace("SIGNATURE", SIGNATURE)
    .replace("[HEAD]", "[[nn.ReLU(), nn.ConvTranspose2d(wide, n, 4, 2, 1)] for n in (1, 3)]")
    .replace(
        "LIGHT",
        "self.int_conv = nn.Sequential(nn.AdaptiveAvgPool2d((1, 1)), nn.ReLU(), "
        "nn.Conv2d(inner_nc, inner_nc/2, 3, 1, 1), nn.ReLU())\n"
        "            self.fc = nn.Sequential(nn.Linear(1, 3))\n"
        "            self.light = lambda features: self.fc(self.int_conv(features).flatten(1))",
    )
    .replace("OUTPUTS", "")
)
FILES: dict[str, dict[str, str]] = {
    "cgintrinsics": {
        "models/networks.py": CGI_UNET,
        "models/__init__.py": "import scipy.misc.no_such_module\n",
    },
    "bigtime": {"models/networks.py": BIGTIME_UNET},
    "usi3d": {"networks.py": USI3D, "trainer.py": "raise RuntimeError\n"},
    "niid-net": {
        "models/niid_net.py": NIID,
        "models/iid_net.py": IID,
        "models/Hu_nets/depth_net_from_Hu.py": NORMALS,
        "models/Hu_nets/modules.py": "import torch.nn as nn\n\ndef conv():\n    return nn.Conv2d(3, 3, 1)\n",
        "models/manager.py": "raise RuntimeError\n",
        "test.py": "raise RuntimeError\n",
    },
}


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the files of a checkout."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def conv(weight: list[list[float]], bias: list[float]) -> dict[str, Tensor]:
    """Return the state dict of a convolution with 1x1 pixels."""
    filters = torch.tensor(weight, dtype=torch.float32)[:, :, None, None]
    return {"weight": filters, "bias": torch.tensor(bias, dtype=torch.float32)}


def prefixed(prefix: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: values for name, values in state.items()}


def usi3d_state(style_dim: int = 8, n_layer: int = 3, seed: int = 0) -> dict[str, Any]:
    """Weights of USI3D with 2 and 5 in place of 64 and 256 channels; decoders return 2x - 0.5 and 0.5 - x."""
    draw = torch.Generator().manual_seed(seed)

    def linear(prefix: str, inputs: int, outputs: int) -> dict[str, Tensor]:
        return {
            f"{prefix}.fc.weight": torch.rand(outputs, inputs, generator=draw),
            f"{prefix}.fc.bias": torch.rand(outputs, generator=draw),
        }

    def mlp(sizes: list[int]) -> dict[str, Tensor]:
        pairs = enumerate(pairwise(sizes))
        return {name: one for k, pair in pairs for name, one in linear(f"mlp.model.{k}", *pair).items()}

    def generator(gain: float, offset: float) -> dict[str, Tensor]:
        identity = (gain * torch.eye(3)).tolist()
        return {
            "enc_content.model.0.conv.weight": torch.rand(2, 3, 7, 7, generator=draw),
            "enc_content.model.0.conv.bias": torch.rand(2, generator=draw),
            **prefixed("dec.model.0.", conv(identity, [offset] * 3)),
            **mlp([style_dim, 5, 5, 4]),
        }

    splitor = mlp([style_dim, *[5] * (n_layer - 1), 2 * style_dim])
    merger = mlp([2 * style_dim, *[5] * (n_layer - 1), style_dim])
    states = {"i": generator(1, 0), "r": generator(2, -0.5), "s": generator(-1, 0.5)}
    return {**states, "fs": splitor, "fm": merger, "best_result": 0.25}


def niid_state() -> dict[str, Any]:
    """Weights of NIID-Net: log reflectance -x, lighting x + 1, normals x - 0.5 (0.5 x twice, then - 0.5)."""
    identity = torch.eye(3)
    reflectance, lighting = conv((-identity).tolist(), [0.0] * 3), conv(identity.tolist(), [1.0] * 3)
    return {
        "epoch": 3,
        "NEM_coarse_state_dict": OrderedDict(conv((2 * identity).tolist(), [0.0] * 3)),
        "NEM_refine_state_dict": OrderedDict(conv((0.5 * identity).tolist(), [-0.5] * 3)),
        "IID_state_dict": OrderedDict(prefixed("decoder_R.", reflectance) | prefixed("decoder_L.", lighting)),
        "nyu_val": None,
        "saw_val": 0.9,
    }


def unet_state(code: str) -> dict[str, Tensor]:
    """Random weights of a network of the published layers."""
    scope: dict[str, Any] = {}
    exec(code.replace("inner_nc/2", "inner_nc//2"), scope)
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(1)
        return OrderedDict(scope["MultiUnetGenerator"](3, 3, 7).state_dict())


STATES: dict[str, Callable[[], dict[str, Any]]] = {
    "cgintrinsics": lambda: unet_state(CGI_UNET),
    "bigtime": lambda: unet_state(BIGTIME_UNET),
    "usi3d": usi3d_state,
    "niid-net": niid_state,
}


@pytest.fixture
def published(tmp_path: Path) -> Callable[..., tuple[Path, Path]]:
    """Write the checkout and the weights of a method: its name, other files, and other weights."""

    def make(method: str, files: Mapping[str, str] | None = None, state: object = None) -> tuple[Path, Path]:
        checkout = write(tmp_path / method, {**FILES[method], **(files or {})})
        weights = tmp_path / f"{method}.pth"
        torch.save(STATES[method]() if state is None else state, weights)
        return checkout, weights

    return make


@pytest.fixture
def standin() -> SimpleNamespace:
    """Return what the stand-ins are made of."""
    return SimpleNamespace(
        states=STATES,
        usi3d_state=usi3d_state,
        prefixed=prefixed,
    )
