"""Where lines for people go."""

from rich.console import Console as RichConsole


class Console(RichConsole):
    """Rich's; a pipe that nobody reads is an error like any other there, and :func:`main.run` knows its exit code."""

    def on_broken_pipe(self) -> None:
        """Not the end of the process."""
        raise BrokenPipeError
