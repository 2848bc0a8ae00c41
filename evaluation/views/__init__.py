"""Views: the part of a data set that an evaluation reads, the same for every kind of data.

`open_data` opens PATH, LAYOUT:PATH, hf:NAME or a reader as one of its contents. Rows are chosen and named
before an image is read.
"""

from candlelight.evaluation.views.concept_sets import match_controls as match_controls
from candlelight.evaluation.views.counterfactual_frames import BACKGROUND_REGION as BACKGROUND_REGION
from candlelight.evaluation.views.counterfactual_frames import CounterfactualImages as CounterfactualImages
from candlelight.evaluation.views.counterfactual_frames import CounterfactualRows as CounterfactualRows
from candlelight.evaluation.views.counterfactual_frames import RegionChange as RegionChange
from candlelight.evaluation.views.data_layouts import LAYOUTS as LAYOUTS
from candlelight.evaluation.views.data_layouts import parse_data as parse_data
from candlelight.evaluation.views.image_contents import PictureGroups as PictureGroups
from candlelight.evaluation.views.image_contents import read_picture_groups as read_picture_groups
from candlelight.evaluation.views.moved_frames import MovedImages as MovedImages
from candlelight.evaluation.views.moved_frames import MovedRows as MovedRows
from candlelight.evaluation.views.named_rows import parse_rows as parse_rows
from candlelight.evaluation.views.open_data import ContentKind as ContentKind
from candlelight.evaluation.views.open_data import open_data as open_data
from candlelight.evaluation.views.open_data import open_secondary as open_secondary
from candlelight.evaluation.views.paint_light_grids import PaintLightGrid as PaintLightGrid
from candlelight.evaluation.views.paint_light_grids import PaintLightGrids as PaintLightGrids
from candlelight.evaluation.views.synthetic_judgements import synthetic_comparisons as synthetic_comparisons
from candlelight.evaluation.views.synthetic_judgements import synthetic_labels as synthetic_labels
from candlelight.evaluation.views.view_types import Comparisons as Comparisons
from candlelight.evaluation.views.view_types import ConceptSet as ConceptSet
from candlelight.evaluation.views.view_types import ConceptSets as ConceptSets
from candlelight.evaluation.views.view_types import DataIdentity as DataIdentity
from candlelight.evaluation.views.view_types import DecomposedImage as DecomposedImage
from candlelight.evaluation.views.view_types import Decompositions as Decompositions
from candlelight.evaluation.views.view_types import Factors as Factors
from candlelight.evaluation.views.view_types import Images as Images
from candlelight.evaluation.views.view_types import JudgedImage as JudgedImage
from candlelight.evaluation.views.view_types import Judgements as Judgements
from candlelight.evaluation.views.view_types import LayerImage as LayerImage
from candlelight.evaluation.views.view_types import PartImage as PartImage
from candlelight.evaluation.views.view_types import Parts as Parts
from candlelight.evaluation.views.view_types import RatedPair as RatedPair
from candlelight.evaluation.views.view_types import RatedPairs as RatedPairs
from candlelight.evaluation.views.view_types import RegionImage as RegionImage
from candlelight.evaluation.views.view_types import Regions as Regions
from candlelight.evaluation.views.view_types import View as View
