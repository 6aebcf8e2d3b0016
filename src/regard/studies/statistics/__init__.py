"""Statistics of a study: paired tests over seeds, bootstrap over items, power."""
