"""The language of recipes: fields as pydantic models, expressions, reading, extending and overriding."""
