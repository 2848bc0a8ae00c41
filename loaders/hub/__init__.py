"""A set as a Hugging Face dataset: shards of Parquet, the card, Croissant, and the way to the Hub."""
