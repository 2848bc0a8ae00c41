"""From the values of a sample to its scene in numbers: objects, materials, lights, camera."""
