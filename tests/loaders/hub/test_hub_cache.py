import os

import pytest

from candlelight.loaders.errors import InputError
from candlelight.loaders.hub.hub_cache import check_cache


def test_a_cache_that_can_be_written_is_made(tmp_path):
    check_cache(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_no_folder_is_made_without_a_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="there is no home folder; set HF_HOME to a folder of your own"):
        check_cache("~/.cache/huggingface/hub")
    assert not list(tmp_path.iterdir())


def test_a_cache_of_another_user_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(
        InputError, match=rf"^the cache {tmp_path} cannot be written: no permission; set HF_HOME"
    ):
        check_cache(tmp_path)
