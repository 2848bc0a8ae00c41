"""Caches of the Hugging Face libraries: whether they can be written, and downloads into them."""

import os
from pathlib import Path

from candlelight.loaders.errors import InputError


def check_cache(folder: Path | str) -> None:
    """Refuse a cache that cannot be written, which users without a home folder have.

    Where ``HOME`` is missing and the user has no entry in the system's list, as in containers, the libraries
    would make a folder named ``~`` in the working folder.

    Args:
        folder: folder of the cache, as the library gives it; it is made.

    Raises:
        InputError: the folder cannot be made or written.

    Example:
        >>> check_cache("~/.cache/huggingface/datasets")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: the cache ~/.cache/huggingface/datasets cannot be written: \
there is no home folder; set HF_HOME to a folder of your own
    """
    reason = ""
    if str(folder).startswith("~"):
        reason = "there is no home folder"
    else:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            reason = "" if os.access(folder, os.W_OK | os.X_OK) else "no permission"
    if reason:
        raise InputError(
            f"the cache {folder} cannot be written: {reason}; set HF_HOME to a folder of your own"
        )


def download_snapshot(source: str, name: str, patterns: list[str] | None, kind: str = "model") -> Path:
    """Download files of a repository of the Hugging Face Hub, unless they are in the cache.

    Args:
        source: the repository as the user wrote it, for messages.
        name: OWNER/NAME.
        patterns: patterns of the files; None for all.
        kind: "model" or "dataset".

    Raises:
        InputError: the files cannot be downloaded.
    """
    import huggingface_hub

    try:
        check_cache(huggingface_hub.constants.HF_HUB_CACHE)
        return Path(huggingface_hub.snapshot_download(name, repo_type=kind, allow_patterns=patterns))
    except Exception as error:  # the Hub, the network and the disk raise different errors
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(f"{source}: cannot be downloaded from the Hugging Face Hub: {reason}") from None
