import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from torch import nn

from candlelight.evaluation.models import ColourRetinex, GrayRetinex, IntrinsicNet, Weiss, save_model
from candlelight.evaluation.models.build_backbone import build_backbone
from candlelight.evaluation.models.classifiers import save_classifier
from candlelight.evaluation.models.model_spec import (
    SHIPPED,
    ModelIdentity,
    open_model,
    open_models,
    split_spec,
)
from candlelight.evaluation.models.retinex import BASELINES
from candlelight.loaders.errors import InputError
from candlelight.loaders.verification.checksums import file_sha256
from candlelight.version import RELEASE
from tests.refusals import refused


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_shipped_models_are_the_baselines_retinex_and_weiss_by_name() -> None:
    assert SHIPPED == {
        "retinex": ColourRetinex(),
        "gray-retinex": GrayRetinex(),
        "weiss": Weiss(),
        **BASELINES,
    }
    for name, model in SHIPPED.items():
        found = open_model(name)
        assert found.identity == ModelIdentity(name, "shipped", f"candlelight {RELEASE}", None)
        assert found.model is model
        assert found.colour_space == "linear"


def test_weights_are_identified_by_their_hash(tmp_path: Path, monkeypatch) -> None:
    path = save_model(IntrinsicNet(width=2, seed=0), tmp_path / "lr=0.1.pt")
    found = open_model(f"mine={path}")
    assert found.identity == ModelIdentity("mine", "weights", None, file_sha256(path))
    assert found.model.width == 2
    assert not found.model.training
    assert found.colour_space == "linear"
    monkeypatch.chdir(tmp_path)
    assert open_model("lr=0.1.pt").identity.name == "lr=0.1"  # its "=" follows no name


def test_classifiers_take_srgb_images(tmp_path: Path) -> None:
    path = save_classifier(build_backbone("resnet_small", 3, seed=0), ["a", "b", "c"], tmp_path / "kinds.pt")
    found = open_model(str(path))
    assert found.identity == ModelIdentity("kinds", "weights", None, file_sha256(path))
    assert found.colour_space == "srgb"
    assert found.model(torch.zeros(2, 3, 32, 32)).shape == (2, 3)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("a=b", ("a", "b")),
        ("colour Retinex=retinex", ("colour Retinex", "retinex")),
        ("a=b=c", ("a", "b=c")),
        ("runs/lr=0.1/net.pt", (None, "runs/lr=0.1/net.pt")),
        ("package.models:make", (None, "package.models:make")),
        ("hf:owner/name", (None, "hf:owner/name")),
        ("vit=hf:owner/name", ("vit", "hf:owner/name")),
        ("=retinex", (None, "=retinex")),
    ],
)
def test_name_and_spec_are_split(spec: str, expected: tuple[str | None, str]) -> None:
    assert split_spec(spec) == expected


MODELS = """
import torch
from torch import nn

class Net(nn.Module):
    colour_space = "srgb"
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Conv2d(3, width, 1)
    def forward(self, image):
        return self.layer(image)

class Wide(nn.Module):
    def __init__(self, width):
        super().__init__()

class Halves:
    def __call__(self, image):
        return image / 2, image / 2

def make(width=8):
    return Net(width)

def model(image):
    return image, image

def broken():
    return 3

def odd(image): ...
odd.colour_space = "sRGB"

ready = Halves()
number = 4
"""


def test_a_class_and_a_function_without_arguments_make_the_model(tmp_path: Path) -> None:
    path = write(tmp_path / "models.py", MODELS)
    net, made = open_model(f"{path}:Net"), open_model(f"{path}:make")
    assert net.identity == ModelIdentity("models.py:Net", "callable", "models.py:Net", file_sha256(path))
    assert net.colour_space == made.colour_space == "srgb"
    assert not net.model.training
    assert (net.model.layer.out_channels, made.model.layer.out_channels) == (4, 8)


def test_any_other_callable_is_the_model(tmp_path: Path) -> None:
    path = write(tmp_path / "models.py", MODELS)
    function, ready = open_model(f"{path}:model"), open_model(f"halves={path}:ready", default_space="srgb")
    assert function.model.__name__ == "model"
    assert function.colour_space == "linear"
    assert (ready.identity.name, ready.identity.version) == ("halves", "models.py:ready")
    assert ready.colour_space == "srgb"
    assert torch.equal(ready.model(torch.ones(1))[0], torch.tensor([0.5]))


def test_a_module_is_identified_by_the_version_of_its_distribution() -> None:
    found = open_model("torch.nn:Identity")
    what = f"torch.nn:Identity of torch {version('torch')}"
    assert found.identity == ModelIdentity(
        "torch.nn:Identity", "callable", what, file_sha256(Path(nn.__file__))
    )
    assert isinstance(found.model, nn.Identity)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Nett", "expected a callable `Nett` in the module, found none; did you mean `Net`"),
        ("number", "expected a callable `number` in the module, found int"),
        ("Wide", r"the class needs arguments \(width\); write a function without parameters"),
        ("broken", "expected it to make a callable, it made int"),
        ("odd", r"models.py:odd.colour_space` must be one of: linear, srgb; got sRGB"),
    ],
)
def test_invalid_models_are_named(tmp_path: Path, name: str, message: str) -> None:
    path = write(tmp_path / "models.py", MODELS)
    with refused(message):
        open_model(f"{path}:{name}")


NETWORK_OF_PARTS = """
import parts

def make():
    import parts as late
    return lambda: (parts.VALUE, late.VALUE)
"""


def test_files_with_the_same_name_in_two_folders_are_distinct(tmp_path: Path) -> None:
    for folder, value in (("a", 1), ("b", 2)):
        write(tmp_path / folder / "parts.py", f"VALUE = {value}\n")
        write(tmp_path / folder / "net.py", NETWORK_OF_PARTS)
    before = list(sys.path)
    try:
        models = open_models([f"{name}={tmp_path / name / 'net.py'}:make" for name in "ab"])
        again = open_model(f"{tmp_path / 'a' / 'net.py'}:make")
    finally:
        sys.modules.pop("parts", None)
    assert [models[name].model() for name in "ab"] == [(1, 1), (2, 2)]
    assert again.model() == (1, 1)
    assert sys.path == before


def test_a_module_of_the_standard_library_is_not_replaced(tmp_path: Path) -> None:
    import json

    write(tmp_path / "json.py", "raise RuntimeError\n")
    path = write(tmp_path / "net.py", "import json\ndef make():\n    return json.dumps\n")
    assert open_model(f"{path}:make").model is json.dumps


@pytest.mark.parametrize(
    ("text", "cause", "message"),
    [
        ("import no_such_module", ModuleNotFoundError, "net.py: cannot be imported: No module named"),
        ("def make(:\n", SyntaxError, r"net.py: cannot be imported: .*net.py, line 1"),
        ("1 / 0\n", ZeroDivisionError, "cannot be imported: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(0)\n", SystemExit, "cannot be imported: SystemExit"),
    ],
)
def test_an_error_of_the_users_code_is_one_line_with_its_cause(
    tmp_path: Path, text: str, cause: type[BaseException], message: str
) -> None:
    before = list(sys.path)
    with pytest.raises(InputError, match=message) as caught:
        open_model(f"{write(tmp_path / 'net.py', text)}:make")
    assert isinstance(caught.value.__cause__, cause)
    assert "\n" not in str(caught.value)
    assert sys.path == before


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("retinx", "one of retinex, gray-retinex, weiss, constant-reflectance, .*did you mean `retinex`"),
        ("constant shading", "did you mean `constant-shading`"),
        ("no_such_package.models:make", "cannot import `no_such_package.models`: No module named"),
        (".models:make", r"cannot import `.models`"),
        (":make", "cannot import ``"),
        ("nowhere.py:make", "expected a file of Python, there is no nowhere.py"),
    ],
)
def test_an_unknown_model_is_one_line(spec: str, message: str) -> None:
    with refused(rf"\A.*{message}.*\Z"):
        open_model(spec)


def test_a_file_of_python_without_a_callable_and_a_folder_without_a_model(tmp_path: Path) -> None:
    path = write(tmp_path / "net.py", "")
    with refused(r"name a callable of this file: .*net.py:CALLABLE"):
        open_model(str(path))
    with refused(r"there is no config.json in it"):
        open_model(str(tmp_path))


def test_two_models_of_one_name_are_refused() -> None:
    with refused("two models are named `retinex`; give another name: NAME=retinex"):
        open_models(["retinex", "constant-shading", "retinex"])
    assert list(open_models(["b=retinex", "a=retinex"])) == ["b", "a"]
    with refused(r"expected a printable text, got 'a.udcff=retinex'"):
        open_models(["a\udcff=retinex"])
