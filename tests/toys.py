"""Small things to try laws on: models in every variant, a tokenizer, sentences."""

from functools import lru_cache
from itertools import product
from typing import Any

import torch
from torch import nn

from dragoman.config import ModelConfig
from dragoman.model.build import build, initialize
from dragoman.model.families import EncoderDecoder
from dragoman.text.tokenizer import Tokenizer

VOCAB = 13

POSITIONS = ("sinusoidal", "sinusoidal_half", "sinusoidal_half_inclusive", "learned")
ACTIVATIONS = ("relu", "gelu", "swiglu", "geglu")
TIED = ("three-way", "output", "none")

ALL_VARIANTS = [
    {"norm_first": norm_first, "positions": positions, "tied": tied, "activation": activation}
    for norm_first, positions, tied, activation in product((False, True), POSITIONS, TIED, ACTIVATIONS)
]
"""Every combination of what a model can be told."""

VARIANTS = [
    {"norm_first": bool((i + j // 2) % 2), "positions": positions, "tied": TIED[(i + j) % 3], "activation": activation}
    for (i, positions), (j, activation) in product(enumerate(POSITIONS), enumerate(ACTIVATIONS))
]
"""Every *pair* of choices at least once; enough where a law is expensive."""


def name_of(variant: dict[str, Any]) -> str:
    """A test's name for a variant."""
    norm = "pre" if variant["norm_first"] else "post"
    return f"{norm}-{variant['positions']}-{variant['tied']}-{variant['activation']}"


def toy_config(**changes: Any) -> ModelConfig:
    """Sizes that differ wherever they may, so that no two are mistaken for each other."""
    sizes = {"d_model": 8, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 1, "d_ff": 10}
    return ModelConfig(**{**sizes, "dropout": 0.0, "max_positions": 40, **changes})


def enliven(model: EncoderDecoder) -> None:
    """Undo what `initialize` makes smaller in post-norm stacks: random weights shall answer to what they read."""
    with torch.no_grad():
        for stack in (model.encoder, model.decoder):
            grown = (12 * len(stack.layers)) ** 0.25 if isinstance(stack.norm, nn.Identity) else 1.0
            for name, weight in stack.named_parameters():
                if name.endswith(("attention.output.weight", "inner.weight", "outer.weight")):
                    weight.mul_(grown)
                elif name.endswith("key_value.weight"):
                    weight.chunk(2)[1].mul_(grown)


def toy_model(dtype: torch.dtype = torch.float64, seed: int = 1, **changes: Any) -> EncoderDecoder:
    """A model in evaluation mode whose every number, biases and norms too, is random."""
    model = build(toy_config(**changes), VOCAB, VOCAB).to(dtype)
    initialize(model, seed)
    enliven(model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=dtype)
    return model.eval()


LINES = [
    "The cat is on the mat. The dog isn't; it's under the table!",
    "Le chat est sur le tapis, n'est-ce pas ? « Peut-être », dit-elle.",
    "我喜欢学习编程，你呢？学习编程很有意思。",
    "Straße, naïve, Übergröße, łódź, İstanbul, Ελλάδα, Москва, עברית, العربية",
    "12 345,67 € = 3.14 × 10^5; see https://example.org/?q=1&r=2",
    "👩‍👩‍👧 🇫🇷 👍🏽 café cafe\u0301 ﬁ ① ２０％",
]


@lru_cache
def toy_tokenizer(vocab_size: int = 500) -> Tokenizer:
    """Learned from a few lines in many scripts."""
    words = [" ".join(line.split()[: 1 + place % 9]) for line in LINES for place in range(9)]
    return Tokenizer.learn([*LINES, *LINES, *words], vocab_size)


NASTY = [
    "",
    " ",
    "  ",
    " a",
    "a ",
    "a  b",
    "\t",
    "\n",
    "a\nb\r\nc\rd",
    "\x00\x01\x1b\x7f\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e",
    "\u2581",
    "\u2581a\u2581 b",
    "<pad>",
    "<bos> <eos>",
    "<pad><bos><eos></s><unk><0x41>",
    "Ġ Ċ Āā",
    "hello !",
    "a , b",
    "25.\u00a0September 2024",
    " do not  ",
    "测试，和,！？：；（）２０％ﷺ①ﬁ…",
    "\ufe30 \ufdfa",
    "👨‍👩‍👧‍👦 🏳️‍🌈 🇫🇷🇩🇪 👍🏽",
    "e\u0301 \u00e9 \u212b \u2126 \u1100\u1161\u11a8",
    "\u0301 leading mark",
    "a\u0315\u0300\u05ae b",
    "Z\u0351\u036b\u0343\u036a\u0302",
    "שָׁלוֹם مَرْحَبًا",
    "\u202eabc\u202c \u200b\u200d\ufeff",
    "\ufffd \ufffe \uffff",
    "\U00010348 \U0001f600 \U000e0041 \U000f0000 \U0010ffff",
    "don't DON'T 'tis rock'n'roll x'sd",
    "abc123def 1,000.00",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ﬀ ﬁ ﬂ",
    "a" * 300,
    "的" * 100,
]
"""Texts that have broken somebody's tokenizer."""
