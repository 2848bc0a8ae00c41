"""Exports: folders of frames written as the published data sets lie on disk, for code that reads those."""

from loaders.exports.candle import export_candle as export_candle
from loaders.exports.concepts import export_concepts as export_concepts
from loaders.exports.mit import export_mit as export_mit
from loaders.exports.webdataset import export_webdataset as export_webdataset
