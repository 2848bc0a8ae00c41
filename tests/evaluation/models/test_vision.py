import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from candlelight.evaluation.models.model_spec import open_model
from candlelight.evaluation.models.vision import read_preprocessing, token_maps
from candlelight.evaluation.run.hidden_layers import run_recorded
from tests.refusals import refused

try:
    import transformers
except ImportError:
    transformers = None

needs_transformers = pytest.mark.skipif(
    transformers is None, reason="the extra `transformers` is not installed"
)
PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "size": {"height": 32, "width": 32},
    "resample": 2,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.5, 0.5, 0.5],
}
IMAGES = torch.rand(2, 3, 40, 24, generator=torch.Generator().manual_seed(0))


def vit_config() -> Any:
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    return transformers.ViTConfig(**sizes, image_size=32, patch_size=8, num_labels=5)


def resnet_config() -> Any:
    return transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[4, 8], depths=[1, 1], layer_type="basic", num_labels=5
    )


def save(folder: Path, network: Any) -> Path:
    torch.manual_seed(0)
    network.init_weights()
    network.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR), encoding="utf-8")
    return folder


def prepared() -> torch.Tensor:
    images = nn.functional.interpolate(IMAGES, (32, 32), mode="bilinear", antialias=True)
    mean = torch.tensor(PROCESSOR["image_mean"])[:, None, None]
    return (images - mean) / 0.5


def run(network: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return network(IMAGES)


def drop(folder: Path, keep: Callable[[str], bool]) -> None:
    """Remove tensors from a weights file."""
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    weights = load_file(path)
    save_file({name: value for name, value in weights.items() if keep(name)}, path, {"format": "pt"})


@needs_transformers
def test_a_vit_gives_logits_and_has_its_layers(tmp_path: Path) -> None:
    plain = transformers.ViTForImageClassification(vit_config()).eval()
    found = open_model(str(save(tmp_path / "vit", plain)))
    assert (found.identity.name, found.identity.source) == ("vit", "transformers")
    assert found.colour_space == "srgb"
    assert not found.model.training
    with torch.no_grad():
        expected = plain(prepared()).logits
    torch.testing.assert_close(run(found.model), expected)
    assert dict(found.model.named_modules()).keys() == dict(plain.named_modules()).keys()
    output, layers = run_recorded(found.model, ["vit.layernorm"], IMAGES)
    tokens = layers["vit.layernorm"]
    assert tokens.shape == (2, 17, 8)
    torch.testing.assert_close(found.model.classifier(tokens[:, 0]), output)
    assert token_maps(tokens).shape == (2, 8, 4, 4)
    assert torch.equal(token_maps(tokens)[1, :, 2, 3], tokens[1, 1 + 2 * 4 + 3])


@needs_transformers
def test_a_resnet_gives_logits_and_maps(tmp_path: Path) -> None:
    plain = transformers.ResNetForImageClassification(resnet_config()).eval()
    found = open_model(f"mine={save(tmp_path / 'resnet', plain)}")
    with torch.no_grad():
        expected = plain(prepared()).logits
    torch.testing.assert_close(run(found.model), expected)
    maps = run_recorded(found.model, ["resnet.encoder.stages.1"], IMAGES)[1]["resnet.encoder.stages.1"]
    assert maps.shape == (2, 8, 4, 4)
    # The same by gradients: hidden layers of the network are reached through the preprocessing.
    images = IMAGES.clone().requires_grad_()
    torch.autograd.backward(found.model(images).sum())
    assert images.grad is not None
    assert images.grad.abs().sum() > 0


@needs_transformers
def test_an_encoder_gives_its_pooled_features(tmp_path: Path) -> None:
    vit = transformers.ViTModel(vit_config()).eval()
    resnet = transformers.ResNetModel(resnet_config()).eval()
    with torch.no_grad():
        found = open_model(str(save(tmp_path / "vit", vit))).model
        tokens, pooled = (vit(prepared())[name] for name in ("last_hidden_state", "pooler_output"))
        torch.testing.assert_close(run(found), pooled)
        found = open_model(str(save(tmp_path / "resnet", resnet))).model
        torch.testing.assert_close(run(found), resnet(prepared()).pooler_output.flatten(1))
    drop(tmp_path / "vit", lambda name: not name.startswith("pooler."))
    torch.testing.assert_close(run(open_model(str(tmp_path / "vit")).model), tokens[:, 0])


@needs_transformers
def test_identity_is_the_hash_of_configuration_and_weights(tmp_path: Path) -> None:
    folder = save(tmp_path / "resnet", transformers.ResNetModel(resnet_config()))
    first = open_model(str(folder)).identity.sha256
    assert first == open_model(f"other={folder}").identity.sha256
    (folder / "README.md").touch()
    assert first == open_model(str(folder)).identity.sha256
    changed = PROCESSOR | {"image_mean": [0.1, 0.1, 0.1]}
    (folder / "preprocessor_config.json").write_text(json.dumps(changed), encoding="utf-8")
    assert first != open_model(str(folder)).identity.sha256


@pytest.fixture
def vit(tmp_path: Path) -> Path:
    return save(tmp_path / "vit", transformers.ViTForImageClassification(vit_config()))


@needs_transformers
def test_half_precision_weights_run_in_float32(tmp_path: Path) -> None:
    folder = save(tmp_path / "vit", transformers.ViTForImageClassification(vit_config()).half())
    assert run(open_model(str(folder)).model).dtype == torch.float32


@needs_transformers
def test_damaged_files_are_one_line(vit: Path) -> None:
    drop(vit, lambda name: not name.startswith("classifier."))
    with refused(r"its weights lack `classifier.bias` and 1 more; save the whole model"):
        open_model(str(vit))
    for name in ("model.safetensors", "config.json"):
        (vit / name).write_bytes((vit / name).read_bytes()[:50])
        with refused(r"\A.*cannot be read as a transformers model.*\Z"):
            open_model(str(vit))


@needs_transformers
def test_a_model_of_texts_is_refused(tmp_path: Path) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    folder = save(tmp_path / "bert", transformers.BertModel(transformers.BertConfig(**sizes, vocab_size=9)))
    with refused("expected a model of images, BertModel takes `input_ids`"):
        open_model(str(folder))
    (folder / "preprocessor_config.json").unlink()
    with refused(r"preprocessor_config.json is missing: expected a vision model"):
        open_model(str(folder))


class Malicious:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("was-run"),))


@needs_transformers
def test_code_of_the_folder_is_not_run(vit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (vit / "model.safetensors").unlink()
    torch.save({"classifier.bias": Malicious()}, vit / "pytorch_model.bin")
    with refused("cannot be read as a transformers model"):
        open_model(str(vit))
    config = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}
    (vit / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (vit / "mine.py").write_text("from pathlib import Path\nPath('was-run').touch()\n", encoding="utf-8")
    with refused("cannot be read as a transformers model"):
        open_model(str(vit))
    assert not Path("was-run").exists()


@needs_transformers
def test_a_model_of_the_hub_is_identified_by_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save(tmp_path / "0123abc", transformers.ResNetModel(resnet_config()))
    asked = []

    def download(name: str, allow_patterns: list[str], **options: Any) -> str:
        asked.append((name, allow_patterns))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    found = open_model("hf:owner/resnet")
    assert (found.identity.name, found.identity.version) == ("owner/resnet", "owner/resnet@0123abc")
    ((name, patterns),) = asked
    assert name == "owner/resnet"
    assert not any(pattern.endswith((".bin", ".py")) for pattern in patterns)


@needs_transformers
def test_a_hub_that_cannot_be_reached_gives_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def download(name: str, **options: Any) -> str:
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    with refused("hf:a/b: cannot be downloaded from the Hugging Face Hub: no route to host"):
        open_model("hf:a/b")


def test_without_transformers_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    for spec in (str(tmp_path), "hf:owner/name"):
        with refused(r'need transformers; .*"candlelight\[transformers\]"`'):
            open_model(spec)


@pytest.mark.parametrize(("count", "first"), [(4, 0), (5, 1), (261, 5)])
def test_tokens_before_the_patches_are_left_out(count: int, first: int) -> None:
    tokens = torch.arange(float(count)).reshape(1, count, 1)
    assert token_maps(tokens).flatten().tolist() == list(range(first, count))


@pytest.mark.parametrize("count", [0, 35])
def test_tokens_that_make_no_square_are_refused(count: int) -> None:
    with refused(f"expected tokens of square images, got {count}"):
        token_maps(torch.zeros(1, count, 1))


@needs_transformers
@pytest.mark.parametrize("kind", ["ViT", "Bit", "CLIP", "ConvNext", "DeiT", "Siglip"])
def test_preprocessing_is_that_of_transformers(tmp_path: Path, kind: str) -> None:
    processor = getattr(transformers, f"{kind}ImageProcessorPil")()
    processor.save_pretrained(tmp_path)
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), np.uint8)
    image = Image.fromarray(noise).resize((300, 260))
    expected = torch.from_numpy(np.stack(processor(images=image)["pixel_values"]))
    prepare = read_preprocessing(tmp_path / "preprocessor_config.json")
    found = prepare(torch.from_numpy(np.array(image)).permute(2, 0, 1)[None] / 255)
    # The processors of transformers round to 8 bits after each axis.
    assert (found - expected).abs().max() * min(prepare.std) * 255 < 1.2
