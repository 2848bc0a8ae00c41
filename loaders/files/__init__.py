"""Write files atomically, and read files safely even if they are damaged or hostile."""
