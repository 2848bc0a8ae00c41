"""The demonstration: packs, a small network trained and scored, lines about them."""
