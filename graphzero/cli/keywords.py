"""The library's messages in the words of the command line: `overwrite=True` becomes `--overwrite`."""

from __future__ import annotations

import functools
import re
import shlex

from typer.core import TyperOption
from typer.main import get_command

_ALIASES = {"num_threads": "threads", "num_classes": "classes", "directed": "undirected", "on_error": "skip_bad_lines"}
_KEYWORD = re.compile(
    r"""(?<![\w./-])([a-z][a-z_]*)=(True\b|False\b|'[^']*'|"[^"]*"|\d+(?:\.\d+)?[A-Za-z]*\b|(?=[\s,.;:)]|$))"""
)
_VERBS = r"\b(raise|lower|smaller|larger|or(?= fanouts)|set(?= memory)) ([a-z][a-z_]*)\b"
_ADVICE = re.compile(_VERBS + r"""|(?<![\w'"./-])()([a-z]+_[a-z_]+)\b(?![='"(/-]|\.\w)""")
_SUBJECT = re.compile(r"^([a-z][a-z_]*)(?= (?:is|hold|has|must)\b)")


def as_options(text: str) -> str:
    """Return `text` with the keyword arguments that are options of a command written as those options.

    >>> as_options("a run is saved here: overwrite=True replaces it")
    'a run is saved here: --overwrite replaces it'
    """
    known = _options()

    def option_of(name: str) -> TyperOption | None:
        return known.get(_ALIASES.get(name, name))

    def replace(match: re.Match[str]) -> str:
        name, value = match.groups()
        option = option_of(name)
        if option is None:
            return match[0]
        on, off = option.opts[0], (option.secondary_opts or [f"{option.opts[0]} no"])[0]
        if name == "directed":
            on, off = off, on
        if value in ("True", "False"):
            return on if value == "True" else off
        if not value or option.is_flag:  # on_error='skip' is a flag of the command line
            return on
        return f"{on} {shlex.quote(value.strip(chr(39) + chr(34)))}"

    def advise(match: re.Match[str]) -> str:
        verb, name = match[1] or "", match[2] or match[4]
        option = option_of(name)
        return match[0] if option is None else f"{verb} {option.opts[0]}".lstrip()

    text = _ADVICE.sub(advise, _KEYWORD.sub(replace, text))
    subject = _SUBJECT.match(text)
    option = option_of(subject[1]) if subject is not None else None
    return f"{option.opts[0]}{text[subject.end() :]}" if subject is not None and option is not None else text


@functools.cache
def _options() -> dict[str, TyperOption]:
    """Return the options of all commands by the names of their keyword arguments."""
    from .app import app

    commands = getattr(get_command(app), "commands", {}).values()
    return {str(one.name): one for command in commands for one in command.params if isinstance(one, TyperOption)}
