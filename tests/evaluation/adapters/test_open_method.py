import re
from pathlib import Path

import pytest
import torch

from candlelight.evaluation import evaluate
from candlelight.evaluation.models.model_spec import PUBLISHED_METHODS, ModelIdentity, open_model, open_models
from candlelight.evaluation.run.model_outputs import run_intrinsic
from candlelight.evaluation.run.steps import model_key
from tests.refusals import refused

PAGE = (Path(__file__).parents[3] / "docs" / "others.md").read_text(encoding="utf-8")
CHECKOUTS = [method for method in PUBLISHED_METHODS if method != "marigold"]


@pytest.fixture
def scenes(decompositions):
    draw = torch.Generator().manual_seed(0)
    reflectance, shading = torch.rand(2, 3, 3, 20, 30, generator=draw)
    return decompositions(reflectance, shading[:, :1])


@pytest.mark.parametrize("method", CHECKOUTS)
def test_methods_are_scored_and_say_in_the_result_what_was_never_run(published, scenes, method: str) -> None:
    checkout, weights = published(method)
    found = open_model(f"theirs={method}:{checkout}:{weights}")
    assert isinstance(found.identity, ModelIdentity)
    assert (found.identity.name, found.identity.source, found.colour_space) == ("theirs", "adapter", "srgb")
    assert "adapter never run with the published weights" in str(found.identity.version)
    assert model_key(found, "cpu") is not None
    result = evaluate("lmse", scenes, {"theirs": found})["theirs"]
    assert result.failed == ()
    assert result.about.model["version"] == found.identity.version
    assert result.about.model["sha256"] == found.identity.sha256


@pytest.mark.parametrize("method", CHECKOUTS)
def test_a_batch_gives_the_same_as_its_images(published, method: str) -> None:
    model = open_model(":".join(map(str, (method, *published(method))))).model
    images = torch.rand(3, 3, 20, 30, generator=torch.Generator().manual_seed(1))
    together = run_intrinsic(model, images)
    for row in range(3):
        for whole, part in zip(together, run_intrinsic(model, images[row : row + 1]), strict=True):
            assert torch.allclose(whole[row : row + 1].float(), part.float(), atol=1e-6)


def test_the_name_is_that_of_the_method(published) -> None:
    specs = [":".join(map(str, (method, *published(method)))) for method in CHECKOUTS]
    assert list(open_models(specs)) == CHECKOUTS


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("bigtime:checkout", "expected bigtime:CHECKOUT:WEIGHTS, got bigtime:checkout"),
        ("bigtime:", "expected bigtime:CHECKOUT:WEIGHTS, got bigtime:$"),
        ("usi3d:checkout:", "expected usi3d:CHECKOUT:WEIGHTS, got usi3d:checkout:"),
        ("niid-net:nowhere:a.pth", "expected the folder of a checkout, there is no nowhere"),
        ("marigold:nowhere", "nowhere: expected a folder of diffusers, there is no model_index.json in it"),
        ("cgintrinsic", "or METHOD:CHECKOUT:WEIGHTS with METHOD cgintrinsics, bigtime, usi3d, niid-net"),
    ],
)
def test_other_texts_are_refused(spec: str, message: str) -> None:
    with refused(message):
        open_model(spec)


def test_exceptions_of_the_network_name_the_file_of_the_checkout(published, scenes) -> None:
    checkout, weights = published("cgintrinsics")
    code = checkout / "models" / "networks.py"
    text = code.read_text(encoding="utf-8").replace(
        "return self.model", "raise KeyError('gone') or self.model"
    )
    code.write_text(text, encoding="utf-8")
    found = open_model(f"cgintrinsics:{checkout}:{weights}")
    with refused(r"raised KeyError: 'gone' \(networks.py, line \d+\), given float32"):
        evaluate("lmse", scenes, {"cgintrinsics": found})


@pytest.mark.parametrize("method", CHECKOUTS)
def test_models_in_the_commands_of_the_page(published, tmp_path: Path, monkeypatch, method: str) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [block for block in re.findall(r"^```\n(.*?)^```$", PAGE, re.M | re.S) if "--model" in block]
    (spec,) = re.findall(rf"--model ({method}:\S+)", "".join(commands))
    for name, path in zip(spec.split(":")[1:], published(method), strict=True):
        path.rename(tmp_path / name)
    assert open_model(spec).identity.name == method


def test_code_of_the_page_compiles_and_imports_what_there_is() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(blocks) == 3
    for block in blocks:
        compile(block, "others.md", "exec")
    for line in re.findall(r"^from evaluation.*$", PAGE, re.M):
        exec(line, {})


@pytest.mark.gpu
@pytest.mark.parametrize("method", CHECKOUTS)
def test_values_on_a_gpu_are_those_of_the_cpu(published, method: str) -> None:
    spec = ":".join(map(str, (method, *published(method))))
    images = torch.rand(2, 3, 20, 30, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = open_model(spec).model(images)
        found = open_model(spec, "cuda").model(images.cuda())
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)
