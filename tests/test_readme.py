"""README.md lists every recipe, and its example runs unchanged."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from candlelight.generators.language.load_recipe import shipped_recipes

README = Path(__file__).parent.parent / "README.md"


def test_every_recipe_is_listed():
    rows = re.findall(r"^\| (.*?) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`([a-z-]+)`", row)]
    assert sorted(listed) == sorted(shipped_recipes())


@pytest.mark.blender
@pytest.mark.slow
@pytest.mark.skipif(find_spec("bpy") is None, reason="renders with bpy, which is not installed")
def test_python_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(example.splitlines()) <= 25
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(README.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    factors, features, *result = done.stdout.splitlines()
    assert "'color': 'blue'" in factors
    assert features.endswith("torch.Size([3, 72, 96]) torch.Size([72, 96])")
    assert result[0] == "lmse (version 2) on candle, candle"
    assert re.match(r"retinex +lmse ↓ +0\.\d+ ", result[2])
