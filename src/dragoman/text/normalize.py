"""The one change that is made to a text before it is cut into pieces."""

import unicodedata

from dragoman.errors import RequestError


def normalize(text: str) -> str:
    """``text`` in Unicode's composed form (NFC); nothing else is altered.

    Compatibility characters (full-width punctuation, ligatures, superscripts) stay what they are: folding them (NFKC)
    would make them impossible to produce.

    Raises:
        RequestError: the text holds half of a surrogate pair, which no valid Unicode text does.
    """
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            code = ord(text[error.start])
            raise RequestError(
                f"the text has a lone surrogate U+{code:04X} at character {error.start}; send valid Unicode"
            ) from None
        return unicodedata.normalize("NFC", text)
    return text
