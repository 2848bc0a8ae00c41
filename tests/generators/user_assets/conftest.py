"""The one Blender of `tests/generators/conftest.py` answers most requests of these tests."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from candlelight.generators.engine.helper_process import HelperOutput
from candlelight.generators.user_assets import asset_folders, import_meshes


@pytest.fixture(scope="session")
def ask_helper(ask_blender, tmp_path_factory) -> Callable[..., HelperOutput]:
    """Return a function in place of `run_helper`, which starts no process."""
    replies = tmp_path_factory.mktemp("one_blender") / "replies"

    def run_helper(module: str, request: Any, time_limit: float, late: str) -> HelperOutput:
        ask_blender("run_module", module, json.dumps(request), replies)
        lines = replies.read_text(encoding="utf-8").splitlines()
        return HelperOutput(tuple(map(json.loads, lines)), 0, "")

    return run_helper


@pytest.fixture
def one_blender(ask_helper, monkeypatch) -> Callable[..., HelperOutput]:
    """Let one Blender answer in place of a helper process for each request."""
    for module in (asset_folders, import_meshes):
        monkeypatch.setattr(module, "run_helper", ask_helper)
    return ask_helper
