"""Run the scene function of an image set: from the values of one sample to its layout in numbers."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from candlelight.blender_assets import AssetLibrary
from candlelight.generators.language.field_types import references
from candlelight.generators.language.layout import Scene
from candlelight.generators.language.lights_and_camera import ENVIRONMENT_LIGHT
from candlelight.generators.language.load_recipe import first_error
from candlelight.generators.language.overrides import copy_apart
from candlelight.generators.language.scene_code import SceneCode, find_scene_function
from candlelight.generators.scenes.layout_inputs import LayoutInputs
from candlelight.loaders.errors import InputError, did_you_mean
from candlelight.loaders.files.python_files import exception_reason
from candlelight.loaders.schema import LIGHT_PREFIX, FactorValue


class SampleFactors:
    """Factors and variables of one sample, by name: as attributes and in brackets.

    Example:
        >>> SampleFactors({"twist": 0.5}).twist
        0.5
    """

    def __init__(self, values: Mapping[str, FactorValue]) -> None:
        self._values = dict(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> FactorValue:
        if name not in self._values:
            known = ", ".join(self._values) or "none"
            near = did_you_mean(name, self._values)
            raise InputError(f"`{name}` is no factor or variable; expected one of: {known}{near}")
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


SceneFunction = Callable[[SampleFactors, Callable[[str], np.random.Generator]], Any]


class SceneMaker:
    """Makes the layouts of the samples of an image set with its scene function.

    Args:
        scene: the entry in the recipe.
        library: where the function is found.

    Raises:
        InputError: as `candlelight.generators.language.scene_code.find_scene_function`.
    """

    def __init__(self, scene: SceneCode, library: AssetLibrary) -> None:
        self.scene = scene
        self.function: SceneFunction = find_scene_function(scene, library)

    def layout(self, inputs: LayoutInputs, sample: str) -> Scene:
        """Call the function for one sample, and check the scene that it returns.

        The function takes the factors and ``draw``; ``draw(name)`` is the random stream of that name of the
        sample's unit, from its start. It returns a `Scene`, or its fields as a mapping.

        Args:
            inputs: values and streams of the sample.
            sample: id of the sample, for messages.

        Raises:
            InputError: the function raised an exception, or returned no valid scene; the message names the
                file, the line, the sample and the field.
        """
        try:
            made = self.function(SampleFactors(inputs.values), lambda name: inputs.stream(f"scene/{name}"))
            if not isinstance(made, Scene | Mapping):
                raise InputError(f"expected a scene or a mapping of its fields, got {type(made).__name__}")
            layout = Scene.model_validate(copy_apart(made) if isinstance(made, Mapping) else made)
            _check(layout, self.scene, inputs)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the user's code runs and may raise any exception
            reason = first_error(error) if isinstance(error, ValidationError) else exception_reason(error)
            raise InputError(f"{self.where(sample, error)}: {reason}") from error
        return layout

    def where(self, sample: str, error: BaseException | None = None) -> str:
        """Name file, line, function and sample for a message; the line is that of an error in the file."""
        code = getattr(self.function, "__code__", None)
        file, _, name = self.scene.code.partition(":")
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(None if error is None else error.__traceback__)
            if code is not None and frame.filename == code.co_filename
        ]
        line = lines[-1] if lines else getattr(code, "co_firstlineno", 1)
        return f"scene {file}:{line} ({name}), sample {sample}"


def _check(layout: Scene, scene: SceneCode, inputs: LayoutInputs) -> None:
    if not layout.traced:
        raise InputError("expected a scene to trace, got dead leaves; write them into a layout")
    for reference in references(layout):
        if reference not in inputs.values:
            raise InputError(f"`${reference}` is no factor or variable; take numbers from `factors`")
    if scene.lights:
        _check_lights(layout, scene, inputs)


def _check_lights(layout: Scene, scene: SceneCode, inputs: LayoutInputs) -> None:
    """Refuse a scene whose lights are not those that the recipe names for light layers."""
    if layout.has_catcher:
        raise InputError(f"`{LIGHT_PREFIX}*` layers are black on a shadow catcher; use a plain floor")
    lights, _ = inputs.chosen(layout.lights, "lights")
    names = [light.layer_name for light in lights]
    if layout.environment is not None:
        names.append(ENVIRONMENT_LIGHT)
    if sorted(names) != sorted(scene.lights):
        raise InputError(f"expected the lights {', '.join(scene.lights)}, got {', '.join(names) or 'none'}")
