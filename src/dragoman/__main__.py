"""`python -m dragoman`."""

from dragoman.cli.main import run

if __name__ == "__main__":
    run()
