"""Write frames in the file layouts of published data sets, for code that reads those layouts."""

from loaders.exports.export_candle import export_candle as export_candle
from loaders.exports.export_concepts import export_concepts as export_concepts
from loaders.exports.export_mit import export_mit as export_mit
from loaders.exports.export_webdataset import export_webdataset as export_webdataset
