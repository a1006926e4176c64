"""Tests the bytes of all strings of a document at once, so that rules match regular expressions with few strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnxwire.checker.facts import Facts, Rows

NON_ASCII = bytes(range(128, 256))
_FACTOR = 0x9E3779B97F4A7C15  # an odd number near 2**64 divided by the golden ratio, for hashes


class TextBytes:
    """Columns by the ids of strings. `facts.derive(TextBytes)` returns the object.

    lengths: the number of bytes of each string.
    """

    def __init__(self, facts: Facts) -> None:
        arena, starts = facts.columns.text_arena()
        self._bytes = np.frombuffer(arena, np.uint8)
        self._starts = np.frombuffer(starts, np.int64)
        self.lengths: Rows = np.diff(self._starts)

    def have(self, members: bytes) -> Rows:
        """Return whether each string has one of some bytes."""
        result = np.zeros(len(self.lengths), bool)
        rows = self.lengths.nonzero()[0]
        if len(rows):
            result[rows] = np.logical_or.reduceat(_is_member(members)[self._bytes], self._starts[rows])
        return result

    def have_at(self, index: int, members: bytes) -> Rows:
        """Return whether each string has one of some bytes at an index; False for a string that is too short."""
        result = np.zeros(len(self.lengths), bool)
        rows = (self.lengths > index).nonzero()[0]
        result[rows] = _is_member(members)[self._bytes[self._starts[rows] + index]]
        return result

    def hashes(self, ids: Rows, translation: bytes, n: int) -> Rows:
        """Return a 64-bit number for each of some strings of at most n bytes, by its bytes after a translation.

        Strings with equal translations have equal numbers, and others rarely have. translation: the new value of each
        of the 256 bytes.
        """
        result = np.zeros(len(ids), np.uint64)
        table = np.frombuffer(translation, np.uint8)
        factor = 1
        for index in range(n):
            rows = (self.lengths[ids] > index).nonzero()[0]
            if not len(rows):
                break
            factor = factor * _FACTOR % (1 << 64)
            letters = table[self._bytes[self._starts[ids[rows]] + index]].astype(np.uint64)
            result[rows] += (letters + np.uint64(1)) * np.uint64(factor)
        return result

    def contain(self, words: Iterable[bytes]) -> Rows:
        """Return whether each string contains one of some lower case words; the case of the string is ignored."""
        result = np.zeros(len(self.lengths), bool)
        text = self._bytes.tobytes().lower()
        for word in words:
            start = text.find(word)
            while start >= 0:
                id = int(np.searchsorted(self._starts, start, "right")) - 1
                stop = int(self._starts[id + 1])
                result[id] |= start + len(word) <= stop
                start = text.find(word, max(stop - len(word) + 1, start + 1))
        return result

    def begin_like(self, words: Iterable[bytes]) -> Rows:
        """Return whether each string begins with one of some words of ASCII characters; case is ignored."""
        result = np.zeros(len(self.lengths), bool)
        for word in words:
            is_match = self.have_at(0, word[:1].lower() + word[:1].upper())
            for i, letter in enumerate(word[1:], 1):
                if not is_match.any():
                    break
                is_match &= self.have_at(i, bytes([letter]).lower() + bytes([letter]).upper())
            result |= is_match
        return result


def _is_member(members: bytes) -> Rows:
    """Return whether each of the 256 bytes is one of some bytes."""
    table = np.zeros(256, bool)
    table[list(members)] = True
    return table
