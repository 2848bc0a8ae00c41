"""Readers of public data sets: each class reads a data set from the folder of its unpacked archive."""

from candlelight.loaders.public.arap import ARAP as ARAP
from candlelight.loaders.public.candle import Candle as Candle
from candlelight.loaders.public.celebamask import CelebAMaskHQ as CelebAMaskHQ
from candlelight.loaders.public.cub import CUB70 as CUB70
from candlelight.loaders.public.cub import CUB200 as CUB200
from candlelight.loaders.public.dtd import DTD as DTD
from candlelight.loaders.public.fivek import open_fivek as open_fivek
from candlelight.loaders.public.grid_images import MPI3D as MPI3D
from candlelight.loaders.public.grid_images import DSprites as DSprites
from candlelight.loaders.public.grid_images import Shapes3D as Shapes3D
from candlelight.loaders.public.hypersim import Hypersim as Hypersim
from candlelight.loaders.public.iiw import IIW as IIW
from candlelight.loaders.public.interiorverse import InteriorVerse as InteriorVerse
from candlelight.loaders.public.maw import MAW as MAW
from candlelight.loaders.public.mit import MITIntrinsic as MITIntrinsic
from candlelight.loaders.public.multi_illumination import MIDIntrinsics as MIDIntrinsics
from candlelight.loaders.public.multi_illumination import MultiIllumination as MultiIllumination
from candlelight.loaders.public.photometric_stereo import PhotometricStereo as PhotometricStereo
from candlelight.loaders.public.raid import read_raid_responses as read_raid_responses
from candlelight.loaders.public.raid import read_raid_trials as read_raid_trials
from candlelight.loaders.public.saw import SAW as SAW
from candlelight.loaders.public.sintel import Sintel as Sintel
from candlelight.loaders.public.stanford_orb import StanfordORB as StanfordORB
from candlelight.loaders.public.tid2013 import TID2013 as TID2013
