"""Sphinx: Markdown pages by MyST, the API from docstrings."""

import re

import graphzero

project = "GraphZero"
author = "The GraphZero developers"
release = version = graphzero.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"GraphZero {version}"
source_suffix = {".md": "markdown"}
exclude_patterns = ["requirements.txt"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
nitpicky = False
suppress_warnings = ["ref.python"]  # FeatureStore is ours, and PyG's over our files: a hint names it without its module
# Docstrings are written in Markdown habits: single backticks are code.
default_role = "code"


def _bullets(app, what, name, obj, options, lines):
    """Show `argument: what it does` paragraphs of a docstring (or `one, other: ...`), up to a blank line, as a list."""
    shown = []
    inside = False
    for line in lines:
        field = re.match(r"([a-z][a-z_]*(?:, [a-z][a-z_]*)*): (.*)", line)
        if field:
            if not inside and shown and shown[-1]:
                shown.append("")
            shown.append(f"- `{field[1]}`: {field[2]}")
            inside = True
        elif inside and line.strip():
            shown.append("  " + line.strip())
        else:
            inside = False
            shown.append(line)
    lines[:] = shown


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _bullets)
