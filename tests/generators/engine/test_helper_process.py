"""Helper processes that run a module of the test."""

import pytest

from candlelight.generators.engine.helper_process import run_helper
from tests.refusals import refused

COUNT = """
import os, sys
from candlelight.generators.engine.helper_process import answer_request

def reply(request):
    print("chatter")
    for number in range(request["count"]):
        yield {"number": number}
    if request["then"] == "die":
        print("warning\\nno such driver", file=sys.stderr, flush=True)
        os.kill(os.getpid(), 11)

if __name__ == "__main__":
    answer_request(reply)
"""


@pytest.fixture(autouse=True)
def path(tmp_path, monkeypatch):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "counting.py").write_text(COUNT)
    (tmp_path / "modules" / "hanging.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"), prepend=":")
    return tmp_path


def test_replies_come_in_order_without_other_output_and_modules_of_the_current_folder(path, monkeypatch):
    for name in ("json.py", "bpy.py", "counting.py"):
        (path / name).write_text("raise SystemExit('of the current folder')")
    monkeypatch.chdir(path)
    output = run_helper("counting", {"count": 3, "then": "end"}, 60.0, "late")
    assert (output.replies, output.status) == (tuple({"number": i} for i in range(3)), 0)


def test_a_crash_keeps_earlier_replies_and_the_last_line_of_the_log():
    output = run_helper("counting", {"count": 2, "then": "die"}, 60.0, "late")
    assert (len(output.replies), output.status, output.last) == (2, -11, "no such driver")


def test_a_process_that_hangs_is_killed():
    with refused(r"^it hangs$"):
        run_helper("hanging", {}, 0.5, "it hangs")
