"""From traced passes to the layers of a frame: decomposition, denoising, rounding."""
