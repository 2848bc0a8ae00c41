"""The commands of ``candlelight evaluate``, and the options that they share."""
