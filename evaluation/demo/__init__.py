"""The demonstration: packs, and a small network that is trained and scored."""
