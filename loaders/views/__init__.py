"""Views: the small part of a data set that one kind of evaluation reads, the same whatever the data lie in.

Each function opens PATH, LAYOUT:PATH, hf:NAME or a reader. Rows are chosen and named before an image is read.
"""

from loaders.views.concepts import open_concepts as open_concepts
from loaders.views.decompositions import open_decompositions as open_decompositions
from loaders.views.factors import open_factors as open_factors
from loaders.views.images import open_images as open_images
from loaders.views.items import Comparisons as Comparisons
from loaders.views.items import ConceptSet as ConceptSet
from loaders.views.items import DataIdentity as DataIdentity
from loaders.views.items import Decomposition as Decomposition
from loaders.views.items import JudgedImage as JudgedImage
from loaders.views.items import PartImage as PartImage
from loaders.views.items import RatedPair as RatedPair
from loaders.views.judgements import open_judgements as open_judgements
from loaders.views.pairs import open_pairs as open_pairs
from loaders.views.parts import open_parts as open_parts
from loaders.views.protocols import ConceptSets as ConceptSets
from loaders.views.protocols import Decompositions as Decompositions
from loaders.views.protocols import Factors as Factors
from loaders.views.protocols import Images as Images
from loaders.views.protocols import Judgements as Judgements
from loaders.views.protocols import Parts as Parts
from loaders.views.protocols import RatedPairs as RatedPairs
from loaders.views.protocols import View as View
from loaders.views.public_rows import LAYOUTS as LAYOUTS
from loaders.views.rows import parse_rows as parse_rows
from loaders.views.source import parse_data as parse_data
from loaders.views.source import split_secondary as split_secondary
