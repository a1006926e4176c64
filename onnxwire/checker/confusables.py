"""Replaces characters that look like ASCII; the result is called the skeleton of a name.

Source: an excerpt of Unicode Technical Standard #39, confusables.txt, for the scripts Cyrillic, Greek, Armenian and
Cherokee, Latin extensions, punctuation and symbols; compatibility forms such as full-width letters are from the tables
of Python's unicodedata.
"""

from __future__ import annotations

import unicodedata

# Tables by ASCII character: the code points of characters that look like it, in hexadecimal.
_CYRILLIC_CONFUSABLES = {
    "a": "0430", "c": "0441", "e": "0435", "o": "043e", "p": "0440", "x": "0445", "y": "0443", "i": "0456",
    "j": "0458", "s": "0455", "h": "04bb", "d": "0501", "q": "051b", "w": "051d 0461", "l": "04cf", "v": "0475",
    "A": "0410", "B": "0412", "C": "0421", "E": "0415", "H": "041d", "I": "0406", "J": "0408", "K": "041a",
    "M": "041c", "O": "041e", "P": "0420", "S": "0405", "T": "0422", "X": "0425", "Y": "04ae", "G": "050c",
}  # fmt: skip
_OTHER_CONFUSABLES = {
    # Greek, Armenian, Latin extensions, Cherokee, punctuation and symbols
    "a": "03b1 0251", "i": "03b9 0131", "o": "03bf 0585", "v": "03bd", "p": "03c1", "u": "03c5 057d", "y": "03b3",
    "g": "0581 0261", "h": "0570", "n": "0578 057c", "q": "0566", "k": "03ba", "x": "03c7", "w": "03c9",
    "A": "0391 13aa", "B": "0392 13f4", "E": "0395 13ac", "Z": "0396 13c3", "H": "0397 13bb", "I": "0399",
    "K": "039a 13e6", "M": "039c 13b7", "N": "039d", "O": "039f 0555", "P": "03a1 13e2", "T": "03a4 13a2",
    "Y": "03a5", "X": "03a7", "L": "13de", "R": "13a1", "S": "054f 13da", "G": "13c0", "C": "13df", "D": "13a0",
    "J": "13ab", "W": "13b3", "V": "13d9", "U": "054d", "-": "2010 2011 2012 2013 2212", "_": "02cd",
    ".": "2024 06d4", "/": "2044 2215", "l": "01c0 2223", ":": "a789 02d0",
}  # fmt: skip
_TABLE = {
    int(code, 16): letter
    for table in (_CYRILLIC_CONFUSABLES, _OTHER_CONFUSABLES)
    for letter, codes in table.items()
    for code in codes.split()
}
# One representative for ASCII characters that look alike.
_ASCII = str.maketrans({"0": "o", "O": "o", "1": "l", "I": "l", "|": "l", "5": "s", "$": "s"})


def skeleton(text: str) -> str:
    """Return a name with look-alikes replaced by ASCII, and without accents, control and format characters."""
    if text.isascii() and text.isprintable():
        return text
    folded = unicodedata.normalize("NFKC", text).translate(_TABLE)
    decomposed = unicodedata.normalize("NFKD", folded)
    return "".join(letter for letter in decomposed if unicodedata.category(letter) not in ("Mn", "Cf", "Cc"))


def ascii_skeleton(text: str) -> str:
    """Return a skeleton in lower case that is equal for ASCII look-alikes, too, such as 1 and l, or rn and m."""
    return skeleton(text).translate(_ASCII).lower().replace("rn", "m").replace("vv", "w")


def has_mixed_scripts(text: str) -> bool:
    """Return whether a text has letters of ASCII and letters of `_TABLE`; compatibility forms are not counted."""
    has_ascii = any("a" <= letter <= "z" or "A" <= letter <= "Z" for letter in text)
    return has_ascii and any(ord(letter) in _TABLE and letter.isalpha() for letter in text)
