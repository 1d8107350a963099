"""Settings that every test shares."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Continuous integration tries the same examples every time; a developer's run looks for new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("repeat", settings.get_profile("explore"), derandomize=True)
settings.load_profile("repeat" if os.environ.get("CI") else "explore")

# A shell that puts a command into the background makes it ignore Ctrl-C, and its children too: some of the tests press
# it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def spawn() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """subprocess.Popen for children that would run for ever: they end with the test, whatever becomes of it."""
    children: list[subprocess.Popen[str]] = []

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[str]:
        children.append(subprocess.Popen(*arguments, text=True, **options))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.communicate()


@pytest.fixture(scope="module")
def one_torch_thread() -> Iterator[None]:
    """Tiny batches gain nothing from more, and lose much on a busy machine."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
