"""A set as one HDF5 file that h5py alone reads: written, read, and checked byte by byte."""
