from .generators import do as do
from .generators import load_recipe as load_recipe
from .generators import make_plan as make_plan
from .generators import render as render
from .loaders import open_frames as open_frames
from .loaders import pack_hdf5 as pack_hdf5
from .loaders import pack_hub as pack_hub

__version__: str
