"""Assets of users: import meshes as objects, and write manifests for folders of .blend files."""
