"""Recipes: TOML files with the sections of a spec, shipped in the folder `recipes`, or the user's own."""

from __future__ import annotations

from pathlib import Path

from regard.core.shipped_files import ShippedFiles

RECIPES = ShippedFiles("recipe", Path(__file__).parent / "recipes")
shipped_recipes = RECIPES.paths
read_recipe = RECIPES.read
