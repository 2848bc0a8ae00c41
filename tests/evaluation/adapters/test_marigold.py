"""Marigold-IID with tiny random weights, which the classes of diffusers made and saved."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import huggingface_hub
import numpy as np
import pytest
import torch

from candlelight.evaluation.models.marigold import MarigoldIID, load_marigold
from candlelight.evaluation.models.model_spec import open_model
from candlelight.evaluation.models.published_methods import decode_srgb
from candlelight.loaders.colour import srgb_to_linear
from candlelight.loaders.errors import InputError
from tests.refusals import refused


@pytest.fixture(scope="module", autouse=True)
def packages() -> None:
    """Import it where these tests run alone: it takes seconds."""
    pytest.importorskip("diffusers")
    pytest.importorskip("transformers")


LINEAR = {"prediction_space": "linear", "up_to_scale": True}
LIGHTING = {
    "target_names": ["albedo", "shading", "residual"],
    "albedo": {"prediction_space": "linear", "up_to_scale": False},
    **{"shading": LINEAR, "residual": LINEAR},
}
APPEARANCE = {
    "target_names": ["albedo", "material"],
    "albedo": {"prediction_space": "srgb", "up_to_scale": False},
    "material": {"prediction_space": "stack", "sub_target_names": ["roughness", "metallicity", None]},
}
IMAGES = torch.rand(2, 3, 20, 30, generator=torch.Generator().manual_seed(0))
WORDS = {"<|startoftext|>": 0, "<|endoftext|>": 1}


def save(folder: Path, targets: dict[str, Any]) -> Path:
    """Save a pipeline in the layout of the published ones, with at most 16 channels."""
    import diffusers
    import transformers

    torch.manual_seed(0)
    count = len(targets["target_names"])
    unet = diffusers.UNet2DConditionModel(
        in_channels=4 * (1 + count),
        out_channels=4 * count,
        block_out_channels=(8, 16),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        cross_attention_dim=8,
        attention_head_dim=4,
        norm_num_groups=4,
    )
    vae = diffusers.AutoencoderKL(
        block_out_channels=(4, 8),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
    )
    text = transformers.CLIPTextModel(
        transformers.CLIPTextConfig(
            vocab_size=len(WORDS),
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            bos_token_id=0,
            eos_token_id=1,
        )
    )
    words = {"vocab.json": json.dumps(WORDS), "merges.txt": "#version: 0.2\n"}
    tokenizer = folder.parent / "tokenizer"
    tokenizer.mkdir(exist_ok=True)
    for name, content in words.items():
        (tokenizer / name).write_text(content, encoding="utf-8")
    diffusers.MarigoldIntrinsicsPipeline(
        unet,
        vae,
        diffusers.DDIMScheduler(prediction_type="v_prediction", timestep_spacing="trailing"),
        text,
        transformers.CLIPTokenizer.from_pretrained(tokenizer, model_max_length=77),
        prediction_type="intrinsics",
        target_properties=targets,
        default_denoising_steps=2,
        default_processing_resolution=16,
    ).save_pretrained(folder)
    # The published tokenizers are in the older layout of transformers.
    (folder / "tokenizer" / "tokenizer.json").unlink()
    for name, content in words.items():
        (folder / "tokenizer" / name).write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("marigold")
    return {
        name: save(root / name, targets)
        for name, targets in (("lighting", LIGHTING), ("appearance", APPEARANCE))
    }


@pytest.fixture(scope="module")
def lighting(saved) -> MarigoldIID:
    return load_marigold(saved["lighting"])


def predicted(model: MarigoldIID, image: torch.Tensor) -> torch.Tensor:
    """Call the pipeline as its documentation shows."""
    noise = torch.Generator().manual_seed(0)
    found = model.pipeline(image, generator=noise).prediction
    return torch.from_numpy(found).permute(0, 3, 1, 2)


def test_lighting_gives_linear_albedo_and_shading(lighting) -> None:
    reflectance, shading = lighting(IMAGES)
    assert reflectance.shape == shading.shape == IMAGES.shape
    for row in range(2):
        albedo, light, residual = predicted(lighting, IMAGES[row : row + 1])
        assert torch.equal(reflectance[row], albedo)
        assert torch.equal(shading[row], light)
        assert not torch.allclose(light, residual, atol=0.01)
    assert reflectance.std() > 0.01


def test_appearance_gives_linear_albedo_and_the_quotient(saved) -> None:
    model = load_marigold(saved["appearance"])
    reflectance, shading = model(IMAGES)
    encoded = predicted(model, IMAGES[:1])[0].double().numpy()
    np.testing.assert_allclose(reflectance[0], srgb_to_linear(encoded), rtol=1e-4)
    expected = srgb_to_linear(IMAGES.double().numpy()) * (reflectance / reflectance.clamp(min=1e-3)).numpy()
    np.testing.assert_allclose((reflectance * shading).numpy(), expected, rtol=1e-4)
    assert (reflectance > 1e-3).float().mean() > 0.9


def test_images_and_calls_do_not_depend_on_others(lighting) -> None:
    state = torch.random.get_rng_state()
    together = lighting(IMAGES)
    alone = lighting(IMAGES[1:])
    assert torch.equal(together[0][1:], alone[0])
    assert torch.equal(together[1][1:], alone[1])
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize("size", [(1, 1), (8, 40), (33, 17)])
def test_sizes_of_images(lighting, size: tuple[int, int]) -> None:
    reflectance, shading = lighting(torch.full((1, 3, *size), 0.5))
    assert reflectance.shape == shading.shape == (1, 3, *size)
    assert reflectance.isfinite().all()


def test_targets_are_taken_by_name_and_dark_albedo_divides_nothing() -> None:
    """A stand-in for a pipeline, with targets in another order and known values."""

    def call(image: torch.Tensor, **options: object) -> SimpleNamespace:
        assert options["output_type"] == "pt"
        return SimpleNamespace(prediction=torch.stack([image[0] / 4, image[0] / 2]))

    def pipeline(names: list[str], spaces: list[str]) -> Any:
        class Standin:
            unet = vae = text_encoder = None
            target_properties = {  # noqa: RUF012
                "target_names": names,
                **{name: {"prediction_space": space} for name, space in zip(names, spaces, strict=True)},
            }

            def set_progress_bar_config(self, disable: bool) -> None: ...

            def __call__(self, image: torch.Tensor, **options: object) -> SimpleNamespace:
                return call(image, **options)

        return Standin()

    model = MarigoldIID(pipeline(["shading", "albedo"], ["linear", "srgb"]), {}, None)
    reflectance, shading = model(IMAGES)
    expected = srgb_to_linear((IMAGES / 2).double().numpy())
    np.testing.assert_allclose(reflectance.numpy(), expected, rtol=1e-4)
    assert torch.equal(shading, IMAGES / 4)
    model = MarigoldIID(pipeline(["albedo", "material"], ["linear", "stack"]), {}, None)
    reflectance, shading = model(torch.cat([torch.zeros(1, 3, 1, 1), IMAGES[:1, :, :1, :1]], 3))
    assert shading[..., 0].tolist() == [[[0.0]] * 3]
    assert torch.allclose(shading[..., 1], decode_srgb(IMAGES[:1, :, :1, 0]) / (IMAGES[:1, :, :1, 0] / 4))


def test_the_identity_names_diffusers_and_the_files(saved, tmp_path: Path, lighting) -> None:
    found = open_model(f"marigold:{saved['lighting']}")
    assert found.identity.name == "marigold"
    assert found.identity.source == "adapter"
    assert "Marigold-IID by diffusers 0." in str(found.identity.version)
    assert "adapter never run with the published weights" in str(found.identity.version)
    assert found.identity.sha256 == lighting.sha256
    assert found.colour_space == "srgb"
    other = shutil.copytree(saved["lighting"], tmp_path / "other")
    replace(other / "model_index.json", '"albedo"', ' "albedo"')
    assert load_marigold(other).sha256 != lighting.sha256


def test_names_of_the_hub_are_downloaded(saved, monkeypatch) -> None:
    asked: dict[str, Any] = {}

    def download(name: str, **options: Any) -> str:
        asked.update(name=name, **options)
        if "gone" in name:
            raise OSError("no route\nto host")
        return str(saved["appearance"])

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    found = open_model("mine=marigold:prs-eth/marigold-iid-appearance-v1-1")
    assert asked["name"] == "prs-eth/marigold-iid-appearance-v1-1"
    assert "*/diffusion_pytorch_model.safetensors" in asked["allow_patterns"]
    assert found.identity.name == "mine"
    assert str(found.identity.version).startswith(
        "prs-eth/marigold-iid-appearance-v1-1@appearance by diffusers"
    )
    with refused(r"marigold:a/gone: there is no such folder: cannot be downloaded .*: no route to host"):
        open_model("marigold:a/gone")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "model_index.json").unlink(), "there is no model_index.json in it"),
        (
            lambda folder: (folder / "model_index.json").write_text("{"),
            "model_index.json: cannot be read as JSON",
        ),
        (
            lambda folder: (folder / "model_index.json").write_text(
                '{"_class_name": "StableDiffusionPipeline"}'
            ),
            "expected a model of MarigoldIntrinsicsPipeline, got StableDiffusionPipeline",
        ),
        (
            lambda folder: (folder / "unet" / "diffusion_pytorch_model.safetensors").unlink(),
            "cannot be read as a Marigold model: .*diffusion_pytorch_model",
        ),
        (
            lambda folder: (folder / "vae" / "diffusion_pytorch_model.safetensors").write_bytes(b"\0" * 20),
            "cannot be read as a Marigold model: ",
        ),
        (
            lambda folder: replace(folder / "model_index.json", '"albedo"', '"colour"'),
            "expected a model that predicts `albedo`, it predicts colour, material",
        ),
    ],
)
def test_other_folders_are_refused(saved, tmp_path: Path, change: Callable[[Path], object], message) -> None:
    folder = shutil.copytree(saved["appearance"], tmp_path / "model")
    change(folder)
    with pytest.raises(InputError, match=message) as caught:
        load_marigold(folder)
    assert "\n" not in str(caught.value)


def replace(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")


def test_a_missing_package_is_named(saved, monkeypatch) -> None:
    import candlelight.evaluation.models.marigold as module

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", missing)
    with refused(r'Marigold needs diffusers; .*"candlelight\[diffusers\]"`'):
        load_marigold(saved["lighting"])
    with refused("marigold:a/b: Marigold needs diffusers"):
        open_model("marigold:a/b")
    with refused(r"expected a folder of diffusers, .*; did you mean `lighting`\?"):
        load_marigold(saved["lighting"].with_name("lightning"))
