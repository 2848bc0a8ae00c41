"""Checksums, and finding what is damaged or missing in frames, packs and stores."""
