"""Common parts of HDF5 and Hugging Face packs: splits, resuming, the manifest."""
