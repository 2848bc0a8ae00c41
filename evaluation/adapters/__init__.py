"""Published methods of others, by a checkout of their repository and a file of weights that the user gives.

Never run with the published weights: docs/others.md says what was checked.
"""

from candlelight.loaders.errors import require_module

require_module("torch")

from candlelight.evaluation.adapters.bigtime import load_bigtime as load_bigtime
from candlelight.evaluation.adapters.cgintrinsics import load_cgintrinsics as load_cgintrinsics
from candlelight.evaluation.adapters.marigold import load_marigold as load_marigold
from candlelight.evaluation.adapters.niid_net import load_niid_net as load_niid_net
from candlelight.evaluation.adapters.usi3d import load_usi3d as load_usi3d
