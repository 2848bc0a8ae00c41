import subprocess
import sys

HEAVY = {"bpy", "datasets", "matplotlib", "pandas", "pyarrow", "scipy", "sklearn", "torch"}
CODE = f"""
import sys
from candlelight.loaders import *
print(*({HEAVY!r} & sys.modules.keys()))
import candlelight.loaders.hub.arrow_tables
print(*({HEAVY!r} & sys.modules.keys()))
"""


def test_the_names_of_loaders_import_no_heavy_packages():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    light, writing_parquet = done.stdout.splitlines()
    assert light == ""
    assert "pyarrow" in writing_parquet.split()  # otherwise the line above could not fail
