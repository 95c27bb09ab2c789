"""dragoman: train, search, inspect and serve the Transformer of "Attention Is All You Need" on an ordinary computer.

Importing this package imports no torch; what needs it is loaded on first use.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["Translator", "__version__", "load"]

if TYPE_CHECKING:
    from dragoman.engine.loading import load
    from dragoman.engine.translator import Translator


def __getattr__(name: str) -> Any:
    if name == "load":
        from dragoman.engine.loading import load

        return load
    if name == "Translator":
        from dragoman.engine.translator import Translator

        return Translator
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
