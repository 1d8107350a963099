"""The name that was probably meant where one is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]


def did_you_mean(given: object, known: Iterable[object]) -> str:
    """Return the end of a message, `; did you mean 'train'?`, where a known name is close to `given`, else "".

    A name that begins with `given` is the closest.

    >>> did_you_mean("trian", ["train", "test"]), did_you_mean("x", ["train", "test"])
    ("; did you mean 'train'?", '')
    """
    texts = {_text(name): name for name in known}
    own = _text(given)
    starts = [text for text in texts if len(own) > 1 and text.startswith(own)]
    close = sorted(starts, key=len)[:1] or get_close_matches(own, texts, 1)
    return f"; did you mean {texts[close[0]]!r}?" if close else ""


def _text(name: object) -> str:
    """Return a name for comparison; an edge type is three names."""
    return (" ".join(map(str, name)) if isinstance(name, (tuple, list)) else str(name)).lower()
