"""Plots of pages, as SVG that takes its colours from the page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import escape
from typing import Any

__all__ = ["INK", "SERIES", "figure_of", "legend_above", "require_plots"]

# Placeholder colours, which become CSS variables in the page: one SVG serves light and dark.
INK, _GRID = "#010203", "#040506"
SERIES = ["#a10001", "#a10002", "#a10003", "#a10004", "#a10005"]


def require_plots() -> None:
    """Raise ImportError, with the command that helps, when matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("a report needs matplotlib: pip install 'graphzero[report]'") from error


def figure_of(title: str, note: str, draw: Callable[[Any, Any], None], of: Any) -> str:
    """Draw one figure, with its caption."""
    import matplotlib
    from cycler import cycler
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: Any = {
        "svg.fonttype": "none",  # text stays text: it takes the page's font and colour
        "svg.hashsalt": title,  # ids must differ between the plots of one page
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": _GRID,
        "xtick.color": INK,
        "ytick.color": INK,
        "grid.color": _GRID,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=SERIES),
        "legend.frameon": False,
        "font.size": 10,
        "lines.linewidth": 1.8,
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(5.4, 3.0), layout="constrained")
        figure.patch.set_alpha(0)
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes, of)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    for colour, variable in [(INK, "--ink"), (_GRID, "--grid"), *((c, f"--s{i}") for i, c in enumerate(SERIES))]:
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'font: ([\d.]+)px [^;"]*', r"font-size: \1px", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
    return f"<figure><figcaption><b>{escape(title)}</b><span>{escape(note)}</span></figcaption>{svg}</figure>"


def legend_above(axes: Any, columns: int) -> None:
    """Put the legend above the plot."""
    axes.legend(ncols=columns, loc="lower center", bbox_to_anchor=(0.5, 1.0), columnspacing=1.2, handlelength=1.2)
