"""What is a URL, and what is a folder of this machine."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from loaders.errors import InputError


def is_url(path: str | Path) -> bool:
    """Tell a URL from a path, even a URL that was taken for a `Path` and has lost a slash by that.

    Example:
        >>> is_url("s3://bucket/frames"), is_url(Path("s3://bucket/frames")), is_url("frames/s3")
        (True, True, False)
    """
    return re.match(r"[A-Za-z][\w+.-]+(::[A-Za-z][\w+.-]+)*:/", str(path)) is not None


def is_elsewhere(path: str | Path) -> bool:
    """Tell a URL that is not ``file://`` and a path.

    Example:
        >>> is_elsewhere("s3://bucket/frames"), is_elsewhere("file:///frames"), is_elsewhere("/frames")
        (True, False, False)
    """
    return is_url(path) and not str(path).lower().startswith("file:/")


def without_password(url: str) -> str:
    """Name a URL in messages and logs, which others may read.

    Example:
        >>> without_password("sftp://me:secret@host/frames"), without_password("s3://bucket/a:b@c")
        ('sftp://me:***@host/frames', 's3://bucket/a:b@c')
    """
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", url)


def local_folder(path: str | Path) -> Path:
    """Name a folder of this machine, given as a path or as ``file://`` and a path.

    Raises:
        InputError: it is the URL of something else.

    Example:
        >>> local_folder("file:///data/my%20frames").as_posix(), local_folder("frames").as_posix()
        ('/data/my frames', 'frames')
    """
    if not is_url(path):
        return Path(path)
    # A Path has one slash where a URL has several.
    url = str(path) if isinstance(path, str) else re.sub("^([^/]*:)/", r"\1//", str(path))
    parts = urlsplit(url)
    if not is_elsewhere(path) and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    url = without_password(url)
    raise InputError(
        f"{url}: expected a local folder; only `render` and `info` take URLs; copy what lies there: "
        f'python -c "import fsspec; fs, path = fsspec.url_to_fs({url!r}); '
        "fs.get(path, 'frames', recursive=True)\""
    )
