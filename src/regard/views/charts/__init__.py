"""Charts, for pages (SVG) and for files (matplotlib)."""
