"""The commands that pack, export and publish, and options that commands share."""
