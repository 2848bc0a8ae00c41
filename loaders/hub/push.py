"""Upload a pack to the Hugging Face Hub; its folder already has the Hub's layout."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from candlelight.loaders.errors import InputError, require_module
from candlelight.loaders.frames import DATASET
from candlelight.loaders.packs.pack_manifest import PACK_MANIFEST, read_pack_manifest
from candlelight.loaders.verification.checksums import SUMS, parse_sums
from candlelight.loaders.verification.verify_pack import verify_pack

_REPO = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
# Files that the Hub or its web page adds to an empty repository.
_FROM_THE_HUB = {".gitattributes", "README.md", "LICENSE"}
_TOKEN = "get one at https://huggingface.co/settings/tokens, then `hf auth login` or HF_TOKEN=..."
_GO_ON = "run the same command again: uploaded files are not sent twice"


@dataclass(frozen=True)
class Pushed:
    """Result of `push_hub`: names of the sent files (with ``dry_run``: to be sent), their bytes, the URL."""

    files: tuple[str, ...]
    bytes: int
    url: str


def push_hub(
    pack: Path | str,
    repo: str,
    private: bool = False,
    revision: str | None = None,
    message: str | None = None,
    dry_run: bool = False,
    advance: Callable[[int], object] | None = None,
) -> Pushed:
    """Check a pack for damage, then upload it as a data set of the Hub.

    Parquet files and pictures of an earlier pack that the new pack lacks are removed from the repository. The
    token comes from the environment or from `hf auth login`.

    Args:
        pack: folder that `pack_hub` wrote.
        repo: ``ORG/NAME``; created if it does not exist.
        private: create a private repository; an existing public repository is refused.
        revision: branch, created if it does not exist; None for ``main``.
        message: message of the commit; None for a hash of the content.
        dry_run: check the pack and send nothing; needs no network.
        advance: called with the number of checked samples, for a progress bar.

    Raises:
        InputError: the pack is damaged, there is no token, permission or network, the repository holds other
            files, or the upload was interrupted.

    Example:
        >>> push_hub(Path("pack"), "no-name")
        Traceback (most recent call last):
        candlelight.loaders.errors.InputError: repository: expected ORG/NAME, got `no-name`
    """
    pack = Path(pack)
    if not _REPO.fullmatch(repo) or ".." in repo or "--" in repo:
        raise InputError(f"repository: expected ORG/NAME, got `{repo}`")
    files = _whole_files(pack, advance)
    sizes = sum((pack / name).stat().st_size for name in files)
    if dry_run:
        return Pushed(files, sizes, f"datasets/{repo}")
    require_module("huggingface_hub")
    import huggingface_hub

    api = huggingface_hub.HfApi()
    content = parse_sums((pack / SUMS).read_bytes())[PACK_MANIFEST][:12]
    with _reaching(repo):
        api.whoami()
        url = api.create_repo(repo, repo_type="dataset", private=private or None, exist_ok=True)
        if private and not api.repo_info(repo, repo_type="dataset").private:
            raise InputError(f"{repo} exists and is public; make it private on the Hub, or name another")
        if revision is not None:
            api.create_branch(repo, branch=revision, repo_type="dataset", exist_ok=True)
        _refuse_foreign(repo, set(api.list_repo_files(repo, repo_type="dataset", revision=revision)), files)
        api.upload_folder(
            repo_id=repo,
            repo_type="dataset",
            folder_path=pack,
            revision=revision,
            commit_message=message or f"candlelight push: {content}",
            allow_patterns=[_literally(name) for name in files],
            delete_patterns=["*.parquet", "assets/*.jpg"],
        )
    return Pushed(files, sizes, str(url))


def _whole_files(pack: Path, advance: Callable[[int], object] | None) -> tuple[str, ...]:
    """Check a pack and name its files.

    Raises:
        InputError: the pack is damaged.
    """
    read_pack_manifest(pack)
    findings = verify_pack(pack, advance)
    if not findings.whole:
        raise InputError(f"{findings.damaged[0]}; pack the frames again, damaged packs are not uploaded")
    return tuple(sorted({SUMS, *parse_sums((pack / SUMS).read_bytes())}))


def _refuse_foreign(repo: str, there: set[str], files: tuple[str, ...]) -> None:
    foreign = sorted(there - set(files) - _FROM_THE_HUB)
    # All three files must exist: other repositories have a `manifest.json` too, and a push removes their
    # Parquet files.
    if foreign and not {PACK_MANIFEST, DATASET, SUMS} <= there:
        raise InputError(
            f"{repo} holds `{foreign[0]}`, which `candlelight push` did not send; name a repository that is "
            "new, empty, or made by `candlelight push`"
        )


def _literally(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


@contextmanager
def _reaching(repo: str) -> Iterator[None]:
    """Turn errors of the Hub and the network into one line."""
    from huggingface_hub.errors import LocalTokenNotFoundError, OfflineModeIsEnabled

    try:
        yield
    except InputError:
        raise
    except LocalTokenNotFoundError:
        raise InputError(f"{repo}: the Hub needs a token; {_TOKEN}") from None
    except OfflineModeIsEnabled:
        raise InputError(f"{repo}: HF_HUB_OFFLINE is set; unset it to upload") from None
    except Exception as error:  # versions of huggingface_hub use different HTTP libraries
        raise InputError(f"{repo}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None and getattr(error, "response", None) is None:
        error = error.__cause__
    response = getattr(error, "response", None)
    status = None if response is None else response.status_code
    if status == 401:
        return f"the Hub does not accept the token; {_TOKEN}"
    if status == 403:
        return "the token may not write there; use a token with write permission, or another name"
    if status == 404:
        return "the Hub has no data set of this name that the token may write to"
    if status is not None and status < 500:
        said = getattr(error, "server_message", None) or f"status {status}"
        return f"the Hub refuses: {' '.join(str(said).split())}"
    why = f"status {status}" if status is not None else " ".join(str(error).split()) or type(error).__name__
    return f"the Hub cannot be reached, or the upload was interrupted ({why}); {_GO_ON}"
