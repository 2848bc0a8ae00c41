"""All metrics of encoders in one table: factors, controls, conditions, intervals."""
