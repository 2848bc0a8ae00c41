"""Assets of a user's own: meshes made into them, and folders of them scanned."""
