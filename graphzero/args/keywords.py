"""Rejects unknown keyword arguments and suggests the one that was probably meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

from .suggest import did_you_mean

_Init = TypeVar("_Init", bound=Callable[..., None])

# The names that PyG's loaders use.
_OF_PYG = {
    "num_neighbors": "fanouts",
    "input_nodes": "seeds",
    "input_time": "time",
    "edge_label_index": "edges",
    "edge_label": "labels",
    "edge_label_time": "time",
    "temporal_strategy": "temporal",
    "neg_sampling_ratio": "neg_ratio",
    "num_workers": "num_threads",
}


def known_keywords(*others: Callable[..., Any]) -> Callable[[_Init], _Init]:
    """Make an `__init__` reject unknown keyword arguments; those of `others`, which it forwards to, are known."""

    def decorate(init: _Init) -> _Init:
        @wraps(init)
        def checked(self: Any, *args: Any, **kwargs: Any) -> None:
            check_keywords(kwargs, type(self).__name__, init, *others)
            init(self, *args, **kwargs)

        return checked  # type: ignore[return-value]

    return decorate


def check_keywords(given: Iterable[str], function: str, *callables: Callable[..., Any]) -> None:
    """Raise TypeError for a name that none of `callables` takes; `function` is the one that was called."""
    known = _names_of(callables)
    for name in given:
        if name in known:
            continue
        hint = did_you_mean(_OF_PYG[name] if _OF_PYG.get(name) in known else name, known)
        hint = hint or f", expected one of {', '.join(known)}"
        raise TypeError(f"{function}() got an unexpected keyword argument {name!r}{hint}")


@lru_cache
def _names_of(callables: tuple[Callable[..., Any], ...]) -> list[str]:
    names = [name for of in callables for name, p in signature(of).parameters.items() if _is_named(p)]
    return list(dict.fromkeys(names))


def _is_named(parameter: Parameter) -> bool:
    return parameter.name != "self" and parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
