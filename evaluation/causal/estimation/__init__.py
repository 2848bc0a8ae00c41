"""Statistics of codes and factors that several metrics use."""
