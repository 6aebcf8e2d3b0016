"""The effect of the penalty on a linear autoencoder: scikit-learn's digits, 6 components.

    python examples/linear_autoencoder.py --out singular-values.svg

Prints, for a range of penalties, the singular values of the encoder and the difference between the two
solvers; without a penalty, the difference from PCA. Plots the singular values.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from regard import LinearAutoencoder
from regard.claims import Curve, CurveFigure
from regard.views import draw_claim

COMPONENTS = 6


def product(model: LinearAutoencoder) -> np.ndarray:
    """W₂ W₁, the map from a row to its reconstruction."""
    return model.decoder_ @ model.components_


def figure(penalties: np.ndarray, fitted: np.ndarray, eigenvalues: np.ndarray) -> CurveFigure:
    """Fitted values as points over the theory, √max(0, 1 − λ/s) (Kunin et al. 2019)."""
    grid = np.geomspace(penalties[0], penalties[-1], 400)
    curves = []
    for values, eigenvalue in zip(fitted.T, eigenvalues, strict=True):
        label, expected = (
            f"eigenvalue {eigenvalue:.3g}",
            np.sqrt(np.maximum(0, 1 - grid / eigenvalue)),
        )
        curves += [
            Curve(label=label, x=tuple(grid), y=tuple(expected)),
            Curve(label=label, x=tuple(penalties), y=tuple(values), points_only=True),
        ]
    return CurveFigure(
        title="singular values of the encoder",
        x_label="penalty λ",
        y_label="singular value",
        curves=tuple(curves),
        x_scale="log",
    )


def main() -> None:
    """Fit, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("singular-values.svg"))
    out = parser.parse_args().out

    digits = load_digits().data
    pca = PCA(n_components=COMPONENTS).fit(digits)
    plain = LinearAutoencoder(n_components=COMPONENTS).fit(digits)
    difference = np.abs(product(plain) - pca.components_.T @ pca.components_).max()
    print(f"eigenvalues  {plain.eigenvalues_.round(1)}")
    print(f"penalty 0    largest difference from PCA's projection {difference:.0e}\n")

    penalties = np.geomspace(2, 1.2 * plain.eigenvalues_[0], 12)
    print("penalty  rank  closed − gradient  singular values")
    fitted = []
    for penalty in penalties:
        closed = LinearAutoencoder(n_components=COMPONENTS, penalty=penalty).fit(digits)
        iterative = LinearAutoencoder(
            n_components=COMPONENTS, penalty=penalty, solver="gradient", tol=1e-7, random_state=0
        ).fit(digits)
        difference = np.abs(product(closed) - product(iterative)).max()
        values = " ".join(f"{value:.3f}" for value in iterative.singular_values_)
        print(f"{penalty:7.1f}  {iterative.rank_:4d}  {difference:17.0e}  {values}")
        fitted.append(iterative.singular_values_)

    draw_claim(figure(penalties, np.array(fitted), plain.eigenvalues_), path=out)
    print(f"\nwrote {out}")


if __name__ == "__main__":
    main()
