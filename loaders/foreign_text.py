"""Show text from elsewhere, such as names in a data set, without letting it control what shows it."""

import re
import unicodedata

# Control characters and escape sequences, marks of direction, surrogates, separators of lines.
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = "\u200c\u200d"  # zero width, but part of words in many scripts, and of emoji
_MARKUP = re.compile(r"[\\`*\[\]<>&~$]|\b_|_\b")
_FIRST = re.compile(r"^(?:(?:#+|[+-]|\d+[.)])(?=\s)|-(?=--))")  # of a heading, list or rule


def printable(text: str) -> str:
    r"""Replace characters that move the cursor, reverse the line or do not show by their escapes.

    Line breaks are replaced too, so that a text cannot add lines of its own: call it on single lines. In a
    line of JSON, the escapes mean the same.

    Example:
        >>> printable("red\x1b[2J\nset forged"), printable("blå 赤 🟥")
        ('red\\u001b[2J\\u000aset forged', 'blå 赤 🟥')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escape(char) if unicodedata.category(char) in _HIDDEN and char not in _JOINERS else char
        for char in text
    )


def _escape(char: str) -> str:
    """Write a character as JSON does: a number for each 16 bits."""
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def as_markdown(text: object) -> str:
    r"""Escape text for a paragraph, heading or table cell of Markdown: it is shown as it is, in one line.

    Example:
        >>> as_markdown("<script>alert(1)</script>"), as_markdown("![x](https://a.b/c.png)")
        ('\\<script\\>alert(1)\\</script\\>', '!\\[x\\](https://a.b/c.png)')
        >>> as_markdown("# light_azimuth\n_2_"), as_markdown(-0.5)
        ('\\# light_azimuth \\_2\\_', '-0.5')
    """
    if not isinstance(text, str):
        return str(text)
    escaped = _MARKUP.sub(r"\\\g<0>", printable(" ".join(text.split())))
    return _FIRST.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", escaped)


def as_code(text: str) -> str:
    """Write a name as code of Markdown, which shows it as it is.

    Example:
        >>> as_code("light_azimuth")
        '`light_azimuth`'
    """
    return f"`{printable(' '.join(text.split())).replace('`', chr(39))}`"
