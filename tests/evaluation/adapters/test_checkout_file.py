import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from candlelight.evaluation.models.published_methods import run_checkout_file
from candlelight.loaders.errors import InputError
from tests.refusals import refused


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_sys_path_and_modules_and_random_numbers_end_as_they_were(tmp_path: Path, monkeypatch) -> None:
    other = ModuleType("models")
    monkeypatch.setitem(sys.modules, "models", other)
    monkeypatch.setitem(sys.modules, "models.parts", ModuleType("models.parts"))
    folder = write(
        tmp_path / "checkout",
        models__net="import torch\nfrom models import parts\nimport models.deep.one as one\n"
        "torch.manual_seed(3)\nclass Net:\n    def __init__(self, value):\n        torch.rand(4)\n"
        "        self.found = parts.VALUE, one.VALUE, value\n",
        models__parts="VALUE = 1\n",
        models__deep__one="VALUE = 2\n",
        models__unused="raise RuntimeError\n",
    )
    path, modules, state = list(sys.path), dict(sys.modules), torch.random.get_rng_state()
    code = run_checkout_file(folder, "models/net.py", siblings=True)
    made = code.make("Net", 3)
    assert made.found == (1, 2, 3)
    assert sys.path == path
    assert {name for name in sys.modules if name not in modules} == set()
    assert all(sys.modules[name] is one for name, one in modules.items())
    assert torch.equal(torch.random.get_rng_state(), state)
    assert set(code.files) == {"models/net.py", "models/parts.py", "models/deep/one.py"}


def test_two_checkouts_keep_their_own_modules(tmp_path: Path) -> None:
    for name in "ab":
        text = f"VALUE = {name!r}\n"
        write(tmp_path / name, models__net="from models.parts import VALUE\n", models__parts=text)
    first, second, again = (
        run_checkout_file(tmp_path / name, "models/net.py", siblings=True).module.VALUE for name in "aba"
    )
    assert (first, second, again) == ("a", "b", "a")
    assert "models" not in sys.modules


def test_modules_end_as_they_were_after_an_exception(tmp_path: Path) -> None:
    folder = write(tmp_path, models__net="from models import parts\n1 / 0\n", models__parts="")
    modules = set(sys.modules)
    with refused(r"net.py: cannot be imported: ZeroDivisionError: division by zero; "):
        run_checkout_file(folder, "models/net.py", siblings=True)
    assert set(sys.modules) == modules


def test_the_source_is_edited_in_memory_alone(tmp_path: Path) -> None:
    folder = write(tmp_path, net="VALUE = 4/2\nOTHER = 4//2\n")
    code = run_checkout_file(folder, "net.py", edit=(b"4/2", b"4//2"))
    assert [type(code.module.VALUE), type(code.module.OTHER)] == [int, int]
    assert (folder / "net.py").read_text(encoding="utf-8") == "VALUE = 4/2\nOTHER = 4//2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module\n", "cannot be imported: No module named 'no_such_module'; docs/others.md"),
        ("from models import gone\n", "cannot be imported: cannot import name 'gone' from 'models'"),
        ("def f(:\n", "cannot be imported: invalid syntax"),
        ("import sys\nsys.exit(1)\n", "cannot be imported: SystemExit: 1"),
        ("class Network: ...\n", "expected a class `Net`, there is none; did you mean `Network`"),
        ("class Net:\n    def __init__(self, one): ...\n", "`Net` cannot be made: TypeError: .*missing 1"),
        ("def Net():\n    raise ValueError('a\\nb')\n", "`Net` cannot be made: ValueError: a b; docs"),
    ],
)
def test_exceptions_of_the_code_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    folder = write(tmp_path, models__net=text)
    with pytest.raises(InputError, match=message) as caught:
        run_checkout_file(folder, "models/net.py", siblings=True).make("Net")
    assert str(folder / "models" / "net.py") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_folders_and_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "NIID-Net").mkdir()
    with refused(r"expected the folder of a checkout, .*; did you mean `NIID-Net`\?"):
        run_checkout_file(tmp_path / "NIID-Nte", "net.py")
    with refused(r"NIID-Net: expected a checkout with the file models/net.py, there"):
        run_checkout_file(tmp_path / "NIID-Net", "models/net.py")
