"""What a folder of frames or a pack holds: in words, as JSON, and as a contact sheet."""
