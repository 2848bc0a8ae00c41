"""Readers of public data sets: each class reads a data set from the folder of its unpacked archive."""

from loaders.public.arap import ARAP as ARAP
from loaders.public.candle import Candle as Candle
from loaders.public.celebamask import CelebAMaskHQ as CelebAMaskHQ
from loaders.public.cub70 import CUB70 as CUB70
from loaders.public.cub200 import CUB200 as CUB200
from loaders.public.dsprites import DSprites as DSprites
from loaders.public.dtd import DTD as DTD
from loaders.public.fivek import open_fivek as open_fivek
from loaders.public.hypersim import Hypersim as Hypersim
from loaders.public.iiw import IIW as IIW
from loaders.public.maw import MAW as MAW
from loaders.public.mit import MITIntrinsic as MITIntrinsic
from loaders.public.mpi3d import MPI3D as MPI3D
from loaders.public.multi_illumination import MultiIllumination as MultiIllumination
from loaders.public.photometric_stereo import PhotometricStereo as PhotometricStereo
from loaders.public.raid import read_raid_responses as read_raid_responses
from loaders.public.raid import read_raid_trials as read_raid_trials
from loaders.public.saw import SAW as SAW
from loaders.public.shapes3d import Shapes3D as Shapes3D
from loaders.public.tid2013 import TID2013 as TID2013
