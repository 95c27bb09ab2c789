"""`dragoman watch`: a page on this machine that shows a training while it runs, or afterwards."""

from pathlib import Path
from typing import Annotated

import typer


def watch(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder that `dragoman train` writes.")],
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0 is any free one.")] = 8765,
) -> None:
    """Show a training as a page for your browser: progress, curves, translations as they grow. Ctrl-C ends it."""
    from dragoman.serve.server import PageServer, serve
    from dragoman.serve.watch import Watched

    server = PageServer(Watched(folder), port)
    typer.echo(f"{folder} is shown at {server.address} on this machine; Ctrl-C ends it", err=True)
    serve(server)
