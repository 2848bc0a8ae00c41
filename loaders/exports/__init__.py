"""Write frames in the file layouts of published data sets and of other tools."""

from candlelight.loaders.exports.export_candle import export_candle as export_candle
from candlelight.loaders.exports.export_coco import export_coco as export_coco
from candlelight.loaders.exports.export_colmap import export_colmap as export_colmap
from candlelight.loaders.exports.export_concepts import export_concepts as export_concepts
from candlelight.loaders.exports.export_exr import export_exr as export_exr
from candlelight.loaders.exports.export_mit import export_mit as export_mit
from candlelight.loaders.exports.export_nerfstudio import export_nerfstudio as export_nerfstudio
from candlelight.loaders.exports.export_png import export_png as export_png
from candlelight.loaders.exports.export_webdataset import export_webdataset as export_webdataset
