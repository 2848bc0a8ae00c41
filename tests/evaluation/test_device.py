"""Whole evaluations on a device: the numbers are those of the CPU, and only what a table needs leaves it.

The device is a simulated one, which counts the bytes that leave it, and the GPU where there is one.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import astuple
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from candlelight.evaluation import evaluate
from candlelight.evaluation.catalogue.record import make_options
from candlelight.evaluation.concepts import CSMData, TCAVData
from candlelight.evaluation.concepts.concepts_pictures import CSM_PAGE
from candlelight.evaluation.concepts.score_csm import CONCEPT_SENSITIVITY
from candlelight.evaluation.coverage import MASK_CONTROLS, ExplainedImages, thresholds
from candlelight.evaluation.perception import PerceptionData, TransformFamily, rmse_distance
from candlelight.evaluation.perception.distances import ssim_distance
from candlelight.evaluation.perception.raid_agreement import DistortedImages
from candlelight.evaluation.run.batches import repeatable
from candlelight.evaluation.run.evaluate import score as score_run
from candlelight.evaluation.run.evaluate import start
from candlelight.evaluation.run.intervals import resampled_interval
from candlelight.evaluation.run.json_values import to_json_values
from candlelight.evaluation.views import (
    BACKGROUND_REGION,
    Comparisons,
    ConceptSet,
    CounterfactualImages,
    DecomposedImage,
    JudgedImage,
    MovedImages,
    PaintLightGrid,
    PartImage,
    RatedPair,
    RegionImage,
)
from candlelight.loaders.schema import FactorInfo
from tests.evaluation.coverage.test_score_removal import item
from tests.evaluation.pretended_gpu import Pretended, PretendedGpu

HEIGHT, WIDTH, ROWS = 48, 64, 2
IMAGE_BYTES = 3 * HEIGHT * WIDTH * 4
_READS = {
    Tensor.cpu,
    Tensor.tolist,
    Tensor.item,
    Tensor.__float__,
    Tensor.__int__,
    Tensor.__bool__,
    Tensor.to,
}


# Each resample is as many operations as the whole table: a few show that they are the same on the device.
_RESAMPLING = (
    "intrinsic.score_protocols",
    "intrinsic.intrinsic_records",
    "concepts.csm",
    "concepts.score_csm",
    "coverage.score_causal_check",
    "coverage.score_coverage",
    "perception.raid_agreement",
    "perception.score_perception",
    "causal.measure_codes",
    "causal.score_counterfactuals",
)


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch) -> None:
    def few(*args, **named):
        return resampled_interval(*args[:3], **{**named, "resamples": 2})

    for name in _RESAMPLING:
        monkeypatch.setattr(import_module(f"candlelight.evaluation.{name}"), "resampled_interval", few)


class CountedGpu(PretendedGpu):
    """A simulated device that counts the bytes of tensors that are copied to the host."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs)
        given = args[0] if args else None
        leaves = not isinstance(result, Pretended)
        if function in _READS and isinstance(given, Pretended) and leaves:
            with torch._C.DisableTorchFunctionSubclass():
                self.bytes += given.numel() * given.element_size()
        return result


@pytest.fixture(params=["simulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request) -> Callable[[], AbstractContextManager[CountedGpu | None]]:
    """A context in which the device ``cuda`` exists; its value is None for a GPU."""
    return CountedGpu if request.param == "simulated" else nullcontext


def check_alike(found: object, wanted: object, rel: float) -> None:
    """Compare nested numbers; a rounded colour may mark a point more or less on the device."""
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        found, wanted = list(found.values()), list(wanted.values())
    if isinstance(wanted, list):
        for one, other in zip(found, wanted, strict=True):
            check_alike(one, other, rel)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=rel, abs=1e-6, nan_ok=True)
    else:
        assert found == wanted


@pytest.fixture
def check_device(device) -> Callable[..., None]:
    """Check that results on the device are those of the CPU, and that fewer bytes than a limit leave it."""

    def numbers(results):
        return to_json_values(
            {
                name: [{column: astuple(score) for column, score in one.scores.items()}, one.details]
                for name, one in results.items()
            }
        )

    def check(name, data, models, limit: float, rel: float = 1e-4, **options) -> None:
        expected = evaluate(name, data, models, device="cpu", **options)
        with device() as counted:
            found = evaluate(name, data, models, device="cuda", **options)
        check_alike(numbers(found), numbers(expected), rel)
        assert counted is None or 0 < counted.bytes < limit * len(found)

    return check


def drawn(seed: int, *shape: int) -> Tensor:
    return 0.1 + 0.8 * torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def decomposed(row: int) -> DecomposedImage:
    reflectance, shading = drawn(row, 3, HEIGHT, WIDTH), drawn(100 + row, 3, HEIGHT, WIDTH)
    mask = torch.ones(HEIGHT, WIDTH, dtype=torch.bool)
    mask[: row + 1] = False
    return DecomposedImage(reflectance * shading, reflectance, shading, mask)


def judged(row: int) -> JudgedImage:
    points = torch.rand(20, 2, 2, generator=torch.Generator().manual_seed(row), dtype=torch.float64)
    made = Comparisons(points, torch.arange(20) % 3, torch.ones(20, dtype=torch.float64))
    labels = torch.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) // 500 % 3
    return JudgedImage(drawn(row, 3, HEIGHT, WIDTH), made, labels)


def painted(row: int) -> RegionImage:
    regions = torch.zeros(HEIGHT, WIDTH, dtype=torch.int64)
    regions[: HEIGHT // 2], regions[HEIGHT // 2 :] = 1, 2
    return RegionImage(
        drawn(row, 3, HEIGHT, WIDTH), regions, torch.tensor([[0.2, 0.4, 0.6], [0.6, 0.3, 0.2]])
    )


def gridded(row: int) -> PaintLightGrid:
    layers = [drawn(100 * place + row, 2, 3, 3, HEIGHT, WIDTH) for place in range(3)]
    mask = drawn(row, HEIGHT, WIDTH) > 0.3
    return PaintLightGrid(*layers, mask, tuple(f"{row}-{cell}" for cell in range(6)))


def parts_of(row: int) -> dict[str, Tensor]:
    masks = {name: torch.zeros(HEIGHT, WIDTH, dtype=torch.bool) for name in ("head", "tail")}
    masks["head"][4:20, 6 + row : 30], masks["tail"][24:40, 30:60] = True, True
    return masks


def annotated(row: int) -> PartImage:
    return PartImage(drawn(row, 3, HEIGHT, WIDTH), parts_of(row))


def recoloured(row: int) -> CounterfactualImages:
    masks, image = parts_of(row), drawn(row, 3, HEIGHT, WIDTH)
    masks[BACKGROUND_REGION] = ~(masks["head"] | masks["tail"])
    changed = {name: torch.where(mask, 1 - image, image)[None] for name, mask in masks.items()}
    return CounterfactualImages(image, masks, None, changed)


def coarse(images: Tensor) -> Tensor:
    return torch.nn.functional.avg_pool2d(images, 8)


def means(images: Tensor) -> Tensor:
    return 9 * images[:, :2, :24].mean((2, 3))


def split(image: Tensor) -> tuple[Tensor, Tensor]:
    shading = image.mean(1, keepdim=True)
    return image / shading, shading


# One protocol of each kind; test_metrics.py has their metrics.
PROTOCOLS = ("mit-barron", "sintel", "hypersim-marigold", "interiorverse-scaled", "stanford-orb")
CASES = {  # items, members and groups of the view, options, and the share of an image that may cross
    "lmse": (decomposed, {"explains": "image"}, None, {}, 0.05),
    "whdr": (judged, {"origin": "human"}, None, {}, 0.05),
    # 2400 counts leave the device.
    "saw": (judged, {"origin": "human"}, None, {"variant": "cgintrinsics2018"}, 0.6),
    "maw": (painted, {"synthetic": True}, None, {}, 4),  # Pillow scales the prediction to 640 pixels
    "constancy": (painted, {"synthetic": True}, ("room",) * ROWS, {}, 0.05),
    "leaks": (gridded, {}, None, {}, 0.05),
    "protocols": (decomposed, {"explains": "image"}, None, {"protocol": PROTOCOLS}, 0.05),
    "methods": (decomposed, {"explains": "image"}, None, {"methods": "BAS,GR-RET"}, 0.05),
}


@pytest.mark.parametrize("name", CASES)
def test_only_numbers_of_the_table_leave_the_device(check_device, memory_view, name) -> None:
    read, members, groups, options, share = CASES[name]
    view = memory_view([read(row) for row in range(ROWS)], groups, **members)
    check_device(name, view, {"split": split}, share * IMAGE_BYTES * ROWS, 1e-5, **options)


class Squares(nn.Module):
    """A network without weights; the layer `hidden` gives the squares of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Identity()

    def forward(self, image: Tensor) -> Tensor:
        return self.hidden(image.square()).sqrt().mean((2, 3))


def concept_views(memory_view) -> tuple[CSMData, TCAVData]:
    """Make sets of images that differ in brightness, negatives, controls and test images."""

    def images(name, seed, count=24, **members):
        level = torch.linspace(0.3, 1, count)[:, None, None, None]
        some = level * drawn(seed, count, 3, HEIGHT, WIDTH)
        return memory_view(list(some), name=name, **members)

    sets = (ConceptSet({"scene": "room"}, tuple(range(24))),)
    albedo = images("albedo", 1, sets=sets, varies="albedo")
    lit = images("lit", 2, sets=sets, varies="illumination")
    control = images("control", 3, sets=sets, varies="pose")
    negatives = images("negative", 4, 50)
    test = memory_view([decomposed(row) for row in range(ROWS)], name="test", explains="image")
    csm = CSMData(test, negatives, albedo, lit, {"albedo": control})
    return csm, TCAVData(images("shown", 5, ROWS), negatives, {"bright": albedo}, {"bright": control})


CONCEPTS = {
    "csm": (split, {"permutations": 19, "significance": "permutation"}),
    "tcav": (Squares(), {"permutations": 19, "layer": ["hidden"], "target": "logit:0"}),
}


@pytest.mark.parametrize("name", CONCEPTS)
def test_vectors_and_gradients_stay_on_the_device(check_device, memory_view, name) -> None:
    model, options = CONCEPTS[name]
    data = dict(zip(("csm", "tcav"), concept_views(memory_view), strict=True))[name]
    # Scores of runs, exchanges and resamples leave it, as many for images of any size; a batch has 16 images.
    check_device(name, data, {"m": model}, 8 * IMAGE_BYTES, runs=3, **options)


def test_pictures_of_concept_sets_are_those_of_the_cpu(device, memory_view) -> None:
    data, _ = concept_views(memory_view)
    options = make_options(CONCEPT_SENSITIVITY.options, {"runs": 2, "permutations": 19})

    def pictures(device):
        run = start(CONCEPT_SENSITIVITY, options, {"data": data}, {"m": split}, device)
        return CSM_PAGE.pictures(run, score_run(run))

    expected = pictures("cpu")
    with device():
        found = pictures("cuda")
    assert found == expected


class Flat(nn.Module):
    """Codes are means of the channels; the decoder fills an image with them."""

    def forward(self, image: Tensor) -> Tensor:
        return image.mean((2, 3))

    def decode(self, codes: Tensor) -> Tensor:
        return codes[:, :, None, None].expand(-1, -1, HEIGHT, WIDTH).clamp(0, 1)


def told(images: Tensor) -> list[Tensor]:
    shares = torch.sigmoid(50 * (images[:, :2, 0, 0] - 0.5)).unbind(1)
    return [torch.stack([1 - share, share], dim=1).log() for share in shares]


@pytest.mark.parametrize("name", ["codes", "generativeness", "counterfactuals", "axioms"])
def test_codes_stay_on_the_device(check_device, memory_view, monkeypatch, name) -> None:
    classes = torch.cartesian_prod(torch.arange(2), torch.arange(2)).repeat(6, 1)
    images = torch.stack([drawn(row, 3, HEIGHT, WIDTH) for row in range(len(classes))]) / 9
    images[:, :2] += 0.2 + 0.5 * classes[:, :, None, None]
    infos = tuple(FactorInfo(name=one, kind="categorical", values=(1, 2)) for one in ("red", "green"))
    view = memory_view(list(images), factors=infos, table=classes.double().numpy())
    # A network, as a control, cannot be moved to this device.
    options = {"controls": False, "splits": 2, "metrics": ["all"]} if name == "codes" else {}
    heads = SimpleNamespace(heads=told, accuracy={"red": 1.0, "green": 1.0})
    generativeness = import_module("candlelight.evaluation.causal.score_generativeness")
    monkeypatch.setattr(generativeness, "supervise", lambda encoded, notes: heads)
    monkeypatch.setattr(import_module("candlelight.evaluation.causal.score_codes"), "SMALL_TABLE", 0)
    # The libraries for the CPU read the codes for each split and resample.
    limit = (2 if name == "codes" else 0.05) * images.numel() * 4
    check_device(name, view, {"flat": Flat()}, limit, **options)


@pytest.mark.parametrize(
    ("name", "options", "share"),
    [
        ("coverage", {"quick": True, "k": 2}, 0.05),
        ("coverage", {"pooling": "image"}, 0.25),  # the hash of noise
        ("causal-check", {"pixels": "region"}, 0.05),
    ],
)
def test_explanations_stay_on_the_device(
    check_device, memory_view, monkeypatch, name, options, share
) -> None:
    monkeypatch.setattr(thresholds, "POINTS_IN_MEMORY", 2 * HEIGHT * WIDTH)  # sets are counted in passes
    view = memory_view([(recoloured if name == "causal-check" else annotated)(row) for row in range(6)])
    data = ExplainedImages(view, means, [0, 1] * 3)
    models = {"coarse": coarse, "areas": MASK_CONTROLS["part areas"]}
    check_device(name, data, models, share * IMAGE_BYTES * len(view), 1e-3, **options)


def test_removal_stays_on_the_device(check_device, memory_view) -> None:
    view = memory_view([item(0), item(1)])
    data = ExplainedImages(view, rounded_means, [0, 1])
    # The hash of noise leaves it, and numbers of parts, which many sets look up. Equal edges have any order.
    check_device("removal", data, {"coarse": coarse}, 2 * 80_000, 0.05)


def rounded_means(images: Tensor) -> Tensor:
    # Effects that are equal but for the last digit have other ranks on a device.
    return torch.cat([means(images), 1 - means(images)], 1).round(decimals=2)


def moved(row: int) -> MovedImages:
    magnitudes = torch.tensor([0.0, 2.0, 6.0]).double()
    turned = torch.stack([drawn(100 + row, 3, HEIGHT, WIDTH).roll(shift, 2) for shift in range(3)])
    return MovedImages(turned[0], turned, "rotation", "degrees", magnitudes, 0 * magnitudes, 29.2)


def of_raid(row: int) -> DistortedImages:
    image = drawn(row, 3, HEIGHT, WIDTH)
    steps = torch.arange(1, 10)[:, None, None, None] / 100
    return DistortedImages(image, image + (1 + row) * steps, "rotation", 0.3 * torch.arange(10).double())


@pytest.mark.parametrize("name", ["transforms", "moved-frames", "raid"])
def test_images_are_transformed_and_compared_on_the_device(check_device, memory_view, name) -> None:
    rows = range(ROWS)
    pairs = memory_view(
        [RatedPair(drawn(row, 3, 20, 24), drawn(9, 3, 20, 24), 2.0 * row, 0.1) for row in range(4)]
    )
    families = [
        TransformFamily(kind, (one, 1.3, 2.0), kernel="cubic")
        for kind, one in {"translation x": 0, "rotation": 0, "scale": 1, "illuminant 510": 0}.items()
    ]
    images = memory_view([drawn(row, 3, HEIGHT, WIDTH) for row in rows])
    data = {
        "transforms": PerceptionData(images, {"image plane": families}, rated=pairs),
        "moved-frames": memory_view([moved(row) for row in rows], pixels_per_degree=(29.2,), incomplete=()),
        "raid": memory_view([of_raid(row) for row in rows]),
    }[name]
    options = {"moves": "both"} if name == "moved-frames" else {}
    metrics = {"rmse": rmse_distance, "ssim": ssim_distance}
    check_device(name, data, metrics, 0.025 * IMAGE_BYTES * ROWS, **options)


def test_the_count_sees_an_image_that_leaves() -> None:
    with CountedGpu() as device:
        torch.ones(3, 4, device="cuda").cpu()
        torch.ones(5, device="cuda").tolist()
    assert device.bytes == 4 * (12 + 5)


@pytest.mark.parametrize(
    ("careless", "message"),
    [
        (lambda image: image * torch.ones(3, 1, 1), "same device"),
        (lambda image: image[:, torch.arange(2, device="cuda")] @ torch.ones(4), "same device"),
        (lambda image: torch.ones(9)[(image > 0).sum((1, 2, 3)).clamp(max=1)], "same device"),
        (lambda image: image.numpy(), "can't convert cuda"),
        (lambda image: image + torch.rand(4, generator=torch.Generator()), "same device"),
        (lambda image: torch.cat([image, torch.zeros(1, 3, 4, 4)]), "same device"),
    ],
)
def test_the_stand_in_refuses_what_cuda_refuses(careless, message: str) -> None:
    with PretendedGpu(), pytest.raises((RuntimeError, TypeError), match=message):
        careless(torch.ones(2, 3, 4, 4, device="cuda"))


@pytest.mark.gpu
def test_a_gpu_computes_in_full_precision_and_repeats_itself(memory_view) -> None:
    torch.manual_seed(0)
    network = nn.Conv2d(3, 4, 3, padding=1)
    pixels = drawn(0, 2, 3, HEIGHT, WIDTH)
    with torch.no_grad(), repeatable("cuda"):
        found = network.cuda()(pixels.cuda()).cpu()
        torch.testing.assert_close(found, network.cpu()(pixels), rtol=1e-5, atol=1e-6)
    assert not torch.are_deterministic_algorithms_enabled()
    view = memory_view([annotated(row) for row in range(10)])
    first, second = (
        evaluate("coverage", ExplainedImages(view, means, [0, 1] * 5), {"coarse": coarse}, device="cuda")
        for _ in range(2)
    )
    assert to_json_values(first["coarse"].details) == to_json_values(second["coarse"].details)
    assert first["coarse"].scores == second["coarse"].scores
