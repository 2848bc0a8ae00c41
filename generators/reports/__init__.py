"""Report on a plan before it is rendered: marginals, causal graph, cost and preview."""
