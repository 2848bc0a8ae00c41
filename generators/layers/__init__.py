"""Image layers from the passes that Cycles traced: decomposition, denoising and rounding, in numpy."""
