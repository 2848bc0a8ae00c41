"""The kinds of assets, and the files of each."""

# Suffixes of the files of each kind; if several files have one label, the first suffix wins.
ASSET_SUFFIXES = {
    "objects": (".blend",),
    "materials": (".blend",),
    "textures": (".blend",),
    "lights": (".blend",),
    "scenes": (".blend", ".exr", ".hdr"),
}

CODE = "code"  # kind of the user's own Python code, whose labels are FILE.py:FUNCTION

# Suffixes of files that a .blend may refer to: images, fonts, profiles of lights, volumes; no other .blend.
IMAGE_FILES = frozenset(
    ".png .jpg .jpeg .jp2 .j2c .bmp .tga .tif .tiff .webp .exr .hdr .dds .cin .dpx .sgi .rgb .rgba "
    ".psd".split()
)
REFERRED_FILES = IMAGE_FILES | frozenset(".ttf .otf .woff .woff2 .pfb .ies .vdb".split())
