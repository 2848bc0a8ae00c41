"""Checksums, and checks for damaged and missing files in frames, packs and object stores."""
