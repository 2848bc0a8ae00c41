"""Image sets as HDF5 files: write, read and check them."""
