"""Charts as SVG, for pages and for files."""
