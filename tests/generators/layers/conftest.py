from collections.abc import Callable

import numpy as np
import pytest
from numpy import ndarray

from candlelight.generators.language.lights_and_camera import PlacedCamera
from candlelight.generators.layers.decompose_trace import TracedLayers, decompose_trace

CAMERA = PlacedCamera(location=(1, 4, 2), look_at=(0, 0, 0.5), field_of_view=40)
HEIGHT, WIDTH = 6, 8
CLOSURES = ("Diffuse", "Glossy", "Transmission")


def _sum_of_passes(passes: dict[str, ndarray]) -> ndarray:
    total = np.zeros((HEIGHT, WIDTH, 3))
    for closure in CLOSURES:
        light = passes[f"{closure} Direct"] + passes[f"{closure} Indirect"]
        total += passes[f"{closure} Color"].astype(float) * light
    for name in ("Volume Direct", "Volume Indirect", "Emission", "Environment"):
        total += passes[name]
    return total.astype(np.float32)


@pytest.fixture
def sum_of_passes() -> Callable[..., ndarray]:
    """Compute Combined from the light passes."""
    return _sum_of_passes


@pytest.fixture
def make_passes() -> Callable[..., dict[str, ndarray]]:
    """Make random passes that add up as Cycles' passes do, 6 x 8 pixels, with a first row of sky."""

    def make(lights: tuple[str, ...] = ()) -> dict[str, ndarray]:
        rng = np.random.default_rng(0)

        def rgb(high: float = 1.0) -> ndarray:
            return rng.uniform(0, high, (HEIGHT, WIDTH, 3)).astype(np.float32)

        def plane() -> ndarray:
            return rng.random((HEIGHT, WIDTH)).astype(np.float32)

        passes = {
            f"{closure} {share}": rgb() for closure in CLOSURES for share in ("Direct", "Indirect", "Color")
        }
        passes |= {name: rgb(0.1) for name in ("Volume Direct", "Volume Indirect", "Emission", "Environment")}
        # Cycles' own diffuse colour is not the albedo, because it depends on the view.
        passes["albedo"] = np.clip(passes["Diffuse Color"] * 1.2, 0, 1)
        passes["albedo"][0] = 0.0
        passes["Diffuse Color"][0] = 0.0
        passes["Combined"] = _sum_of_passes(passes)
        passes["Depth"] = rng.uniform(1, 9, (HEIGHT, WIDTH)).astype(np.float32)
        passes["Depth"][0] = 1e10
        passes["normal"] = rng.normal(size=(HEIGHT, WIDTH, 3)).astype(np.float32)
        passes["normal"][0] = 0.0
        passes["Denoising Normal"], passes["Denoising Albedo"] = passes["normal"], rgb()
        passes["Object Index"] = rng.integers(0, 3, (HEIGHT, WIDTH)).astype(np.float32)
        passes["Material Index"] = rng.integers(0, 2, (HEIGHT, WIDTH)).astype(np.float32)
        passes["Position"] = rng.normal(size=(HEIGHT, WIDTH, 3)).astype(np.float32)
        passes |= {name: plane() for name in ("roughness", "metallic")}
        passes["coverage"] = (passes["albedo"].max(axis=-1) > 0).astype(np.float32)
        shares = rng.dirichlet(np.ones(max(len(lights), 1)))
        return passes | {
            f"Combined_{name}": (passes["Combined"] * share).astype(np.float32)
            for name, share in zip(lights, shares, strict=False)
        }

    return make


@pytest.fixture
def decomposed() -> Callable[..., TracedLayers]:
    """Decompose passes with the camera of these tests."""

    def decompose(passes: dict[str, ndarray], *, catcher: bool = False, split: bool = False) -> TracedLayers:
        return decompose_trace(passes, camera=CAMERA, catcher=catcher, split=split)

    return decompose
