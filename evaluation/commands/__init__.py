"""The commands of candlelight evaluate."""
