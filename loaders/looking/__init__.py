"""Show the content of a folder of frames or a pack: as text, as JSON, and as a contact sheet."""
