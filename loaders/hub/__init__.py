"""Image sets as Hugging Face data sets: Parquet shards, card, Croissant, upload to the Hub."""
