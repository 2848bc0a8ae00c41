"""The kinds of assets, and the files of each."""

import re

# Suffixes of the files of each kind; if several files have one label, the first suffix wins.
ASSET_SUFFIXES = {
    "objects": (".blend",),
    "materials": (".blend",),
    "textures": (".blend",),
    "lights": (".blend",),
    "scenes": (".blend", ".exr", ".hdr"),
}

CODE = "code"  # kind of the user's own Python code, whose labels are FILE.py:FUNCTION
_CODE_LABEL = re.compile(r"[^:]+\.py:[A-Za-z_]\w*")

# Suffixes of files that a .blend may refer to: images, fonts, profiles of lights, volumes; no other .blend.
IMAGE_FILES = frozenset(
    ".png .jpg .jpeg .jp2 .j2c .bmp .tga .tif .tiff .webp .exr .hdr .dds .cin .dpx .sgi .rgb .rgba "
    ".psd".split()
)
REFERRED_FILES = IMAGE_FILES | frozenset(".ttf .otf .woff .woff2 .pfb .ies .vdb".split())


def is_code_label(text: str) -> bool:
    """Tell whether a text has the form of a label of code.

    Example:
        >>> is_code_label("knots.py:trefoil"), is_code_label("red")
        (True, False)
    """
    return _CODE_LABEL.fullmatch(text) is not None
