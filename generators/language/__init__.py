"""The language of recipes: their fields as pydantic models, expressions, reading and overriding."""
