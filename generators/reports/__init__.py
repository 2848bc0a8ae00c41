"""Looking at a plan before it is rendered: marginals, the causal graph, costs, previews."""
