"""Common parts of HDF5 and Hugging Face packs: splits, the working folder, the manifest."""
