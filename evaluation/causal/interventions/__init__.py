"""Metrics of decoded images after interventions on codes."""
