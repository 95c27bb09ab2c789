"""The model card: what a model is, where it comes from and how good it is, as Markdown made from plain facts."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataFact:
    """One corpus: what it was used for (train, valid, test), its files as ``name -> sha256``, its pairs in use."""

    role: str
    files: Mapping[str, str]
    pairs: int


@dataclass(frozen=True)
class ScoreFact:
    """One measurement: on what, by which metric, its value and the signature that says how it was computed."""

    data: str
    metric: str
    value: float
    signature: str = ""


@dataclass(frozen=True)
class CardFacts:
    """Everything a card tells; the strings may hold anything, they are shown literally."""

    name: str
    version: str
    src_lang: str = ""
    tgt_lang: str = ""
    licence: str = ""
    "As the user states it; empty is shown as not stated."
    data: Sequence[DataFact] = ()
    sizes: Mapping[str, str | int] = field(default_factory=dict)
    "Such as parameters, vocabulary, layers; in the order given."
    scores: Sequence[ScoreFact] = ()
    command: Sequence[str] = ()
    "The training command, one string an argument."
    seconds: float | None = None
    "How long the training took."


def render(facts: CardFacts) -> str:
    """The card as Markdown, ending with a newline; equal facts give equal text."""
    parts = [_head(facts), _use(facts), _sizes(facts), _scores(facts), _data(facts), _origin(facts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(facts: CardFacts) -> str:
    languages = f"{_plain(facts.src_lang or 'unknown')} -> {_plain(facts.tgt_lang or 'unknown')}"
    licence = _plain(facts.licence) if facts.licence.strip() else "not stated"
    return f"# {_plain(facts.name)}\n\nA translation model. Languages: {languages}. Licence: {licence}."


def _use(facts: CardFacts) -> str:
    folder = _one_line(shlex.quote(facts.name))
    src, tgt = (_one_line(shlex.quote(lang)) for lang in (facts.src_lang or "src", facts.tgt_lang or "tgt"))
    return f"""## How to use

    dragoman translate --model {folder} < input.txt > output.txt
    dragoman evaluate --model {folder} test.{src} test.{tgt}

To make one of your own:

    dragoman check train.{src} train.{tgt}
    dragoman train train.{src} train.{tgt} --valid valid.{src} valid.{tgt} --out my-model"""


def _sizes(facts: CardFacts) -> str:
    return _table("Size", ("what", "value"), [(name, _number(value)) for name, value in facts.sizes.items()])


def _scores(facts: CardFacts) -> str:
    rows = [(score.data, score.metric, f"{score.value:.2f}", score.signature) for score in facts.scores]
    return _table("Scores", ("data", "metric", "value", "signature"), rows)


def _data(facts: CardFacts) -> str:
    rows = [
        (corpus.role, _number(corpus.pairs), name, sha256)
        for corpus in facts.data
        for name, sha256 in corpus.files.items()
    ]
    return _table("Data", ("role", "pairs", "file", "SHA-256"), rows)


def _origin(facts: CardFacts) -> str:
    lines = [f"Made with dragoman {_plain(facts.version)}."]
    if facts.seconds is not None:
        lines.append(f"The training took {_duration(facts.seconds)}.")
    if facts.command:
        lines.append(f"The command was\n\n    {_one_line(shlex.join(facts.command))}")
    return "## Origin\n\n" + " ".join(lines)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *([_plain(cell) for cell in row] for row in rows)]
    return f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _one_line(text: str) -> str:
    """``text`` with everything that ends a line or cannot be seen as an escape."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _plain(text: str) -> str:
    """``text`` so that Markdown and HTML show it literally, on one line."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|&#" else char for char in _one_line(text))


def _number(value: str | int) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def _duration(seconds: float) -> str:
    minutes = round(max(seconds, 0.0) / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
