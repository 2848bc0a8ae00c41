"""The scene of a sample in numbers: objects, materials, lights, environment, camera."""
