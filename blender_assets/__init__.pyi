from .asset_kinds import ASSET_SUFFIXES as ASSET_SUFFIXES
from .asset_kinds import IMAGE_FILES as IMAGE_FILES
from .asset_kinds import REFERRED_FILES as REFERRED_FILES
from .library import AssetLibrary as AssetLibrary
from .library import accompanying_files as accompanying_files
from .library import check_inside as check_inside
from .library import manifest as manifest
from .library import shipped as shipped
