"""Sphinx: Markdown pages and notebooks by MyST, the API from docstrings."""

import re
import shutil
from pathlib import Path

import graphzero

project = "GraphZero"
author = "The GraphZero developers"
release = version = graphzero.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
html_theme = "furo"
html_title = f"GraphZero {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["requirements.txt"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are stored with their outputs; tests execute them
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autoclass_content = "both"  # arguments are described in __init__
autodoc_default_options = {"members": True}
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


def _copy_notebooks(app):
    """Copy the notebooks of examples/ next to the pages, since Sphinx reads one folder."""
    here = Path(app.srcdir)
    (here / "notebooks").mkdir(exist_ok=True)
    for notebook in (here.parent / "examples").glob("*.ipynb"):
        shutil.copyfile(notebook, here / "notebooks" / notebook.name)


def setup(app):
    """Called by Sphinx."""
    app.connect("builder-inited", _copy_notebooks)
    app.connect("autodoc-process-docstring", _bullets)
