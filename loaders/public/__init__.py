"""Public data sets as they lie on disk: each class reads one from the folder that its archive unpacks to."""
