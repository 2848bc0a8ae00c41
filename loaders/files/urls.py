"""Tell URLs from local paths."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from candlelight.loaders.errors import InputError


def is_url(path: str | Path) -> bool:
    """Tell whether a path is a URL, even a URL that lost a slash when it became a `Path`.

    Example:
        >>> is_url("s3://bucket/frames"), is_url(Path("s3://bucket/frames")), is_url("frames/s3")
        (True, True, False)
    """
    return re.match(r"[A-Za-z][\w+.-]+(::[A-Za-z][\w+.-]+)*:/", str(path)) is not None


def is_elsewhere(path: str | Path) -> bool:
    """Tell whether a path is a URL other than ``file://``.

    Example:
        >>> is_elsewhere("s3://bucket/frames"), is_elsewhere("file:///frames"), is_elsewhere("/frames")
        (True, False, False)
    """
    return is_url(path) and not str(path).lower().startswith("file:/")


def without_password(url: str) -> str:
    """Hide the password of a URL, for messages and logs.

    Example:
        >>> without_password("sftp://me:secret@host/frames"), without_password("s3://bucket/a:b@c")
        ('sftp://me:***@host/frames', 's3://bucket/a:b@c')
    """
    return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:***@", url)


def local_folder(path: str | Path) -> Path:
    """Return a local folder as a `Path`, from a path or a ``file://`` URL.

    Raises:
        InputError: the path is another URL.

    Example:
        >>> local_folder("file:///data/my%20frames").as_posix(), local_folder("frames").as_posix()
        ('/data/my frames', 'frames')
    """
    if not is_url(path):
        return Path(path)
    # A Path keeps one of the two slashes of a URL.
    url = str(path) if isinstance(path, str) else re.sub("^([^/]*:)/", r"\1//", str(path))
    parts = urlsplit(url)
    if not is_elsewhere(path) and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    url = without_password(url)
    raise InputError(
        f"{url}: expected a local folder; only `info` takes URLs; copy the folder first: "
        f'python -c "import fsspec; fs, path = fsspec.url_to_fs({url!r}); '
        "fs.get(path, 'frames', recursive=True)\""
    )
