"""The commands `pack`, `push` and `export`, and options that several commands share."""
