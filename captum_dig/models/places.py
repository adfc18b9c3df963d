"""Places: the span of each token in a text, for tokenizers that do not report it.

Takes a text and the pieces of a tokenizer in pure Python; gives start and end of each piece.
`captum_dig.models.encoding` uses them like the offsets of fast tokenizers.
"""

import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

Span = tuple[int, int]

# Marks of WordPiece, SentencePiece and two kinds of byte-pair encoding: a piece begins, continues or ends a word.
_MARKS = re.compile(r"^(?:##|▁+|Ġ)(?=.)|(?:@@|</w>)$|^(?:▁+|Ġ)$")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Places:
    """The spans of the pieces of a text.

    Attributes:
        spans: Start and end of each piece. A piece that was not found has the text between its neighbours, at most
            white space.
        lost: The pieces that were not found.
    """

    spans: tuple[Span, ...]
    lost: tuple[str, ...]


def find_places(text: str, pieces: Sequence[str], split: Callable[[str], Sequence[str]]) -> Places:
    """Find the span of each piece, although the tokenizer may have rewritten the text.

    Where the pieces spell the text, up to white space, case and accents, each piece has the span of its letters.
    Elsewhere every word is tokenized alone, and its pieces are searched in it. A piece that is not found gets the text
    between its neighbours: the token for unknown words gets the unknown word.

    Args:
        text: The text.
        pieces: The pieces of the tokenizer, in order.
        split: Cuts a text into pieces.

    Returns:
        The places.

    Example:
        >>> find_places("Café noir", ["cafe", "no", "##ir"], str.split).spans
        ((0, 4), (5, 7), (7, 9))
    """
    found = _spell(text, (0, len(text)), pieces)
    if found is None:
        found = [None] * len(pieces)
        done, last = 0, (0, 0)
        for word, group, own in _regions(text, pieces, split):
            # Pieces that were found end before this place.
            region = max(word[0], last[1]), word[1]
            inside = pieces[done : done + group]
            places = _spell(text, region, inside) or _search(text, region, inside)
            last = next((span for span in reversed(places) if span), last)
            found[done : done + group] = _fill(text, region, places) if own else places
            done += group
    spans = _fill(text, (0, len(text)), found)
    lost = tuple(
        piece
        for piece, (start, end) in zip(pieces, spans, strict=True)
        if not text[start:end].strip() and _unmarked(piece).strip()
    )
    return Places(tuple(spans), lost)


def _regions(text: str, pieces: Sequence[str], split: Callable[[str], Sequence[str]]) -> list[tuple[Span, int, bool]]:
    """Match runs of pieces with parts of the text, by tokenizing each word alone.

    Returns:
        For each part its start and end, its number of pieces, and whether it is one word, which they fill.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    alone = [(piece, number) for number, (start, end) in enumerate(words) for piece in split(text[start:end])]
    numbers: list[int | None] = [None] * len(pieces)
    matcher = SequenceMatcher(None, [piece for piece, _ in alone], pieces, autojunk=False)
    for a, b, size in matcher.get_matching_blocks():
        numbers[b : b + size] = [number for _, number in alone[a : a + size]]
    runs = [(number, len(list(run))) for number, run in groupby(numbers)]
    regions: list[tuple[Span, int, bool]] = []
    for k, (number, size) in enumerate(runs):
        if number is not None:
            regions.append((words[number], size, True))
            continue
        # Tokenized differently in the text: a region from the word before to the word after, both included.
        before = runs[k - 1][0] if k else None
        after = runs[k + 1][0] if k + 1 < len(runs) else None
        start = 0 if before is None else words[before][0]
        regions.append(((start, len(text) if after is None else words[after][1]), size, False))
    return regions


def _spell(text: str, region: Span, pieces: Sequence[str]) -> list[Span | None] | None:
    """Find each piece by its letters; None if the pieces do not spell the region in any normal form."""
    places = range(*region)
    for of_text, of_piece in _WRITINGS:
        wanted = [(letter, number) for number, piece in enumerate(pieces) for letter in of_piece(piece)]
        there = [(letter, place) for place in places for letter in of_text(text[place])]
        if [letter for letter, _ in wanted] != [letter for letter, _ in there]:
            continue
        found: list[Span | None] = [None] * len(pieces)
        for (_, number), (_, place) in zip(wanted, there, strict=True):
            span = found[number]
            found[number] = (span[0] if span else place, place + 1)
        return found
    return None


def _search(text: str, region: Span, pieces: Sequence[str]) -> list[Span | None]:
    """Search one piece after the other, each behind the last one that was found."""
    there = [(letter, place) for place in range(*region) for letter in _fold(text[place])]
    letters = "".join(letter for letter, _ in there)
    found: list[Span | None] = []
    begin = 0
    for piece in pieces:
        wanted = _fold(_unmarked(piece))
        at = letters.find(wanted, begin) if wanted else -1
        if at < 0:
            found.append(None)
            continue
        begin = at + len(wanted)
        found.append((there[at][1], there[begin - 1][1] + 1))
    return found


def _fill(text: str, region: Span, found: Sequence[Span | None]) -> list[Span]:
    """Give pieces that were not found the text between their neighbours, without its white space if possible."""
    spans: list[Span] = []
    for number, span in enumerate(found):
        if span is not None:
            spans.append(span)
            continue
        start = next((other[1] for other in reversed(found[:number]) if other), region[0])
        end = max(start, next((other[0] for other in found[number:] if other), region[1]))
        word = text[start:end].strip()
        begin = text.index(word, start) if word else start
        spans.append((begin, begin + len(word)) if word else (start, end))
    return spans


def _bytes(text: str) -> str:
    return _plain(text.encode().decode("latin-1"))


def _plain(text: str) -> str:
    """Leave out white space of ASCII, the only kind that is a byte."""
    return "".join(char for char in text if char not in string.whitespace)


def _solid(text: str) -> str:
    return "".join(text.split())


def _unmarked(piece: str) -> str:
    return _MARKS.sub("", piece)


def _fold(text: str) -> str:
    """Remove case, accents, widths and white space."""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(char for char in plain if not unicodedata.category(char).startswith("M") and not char.isspace())


# Forms in which a text and its pieces may agree: bytes, unchanged, without marks, without case and accents.
_WRITINGS: tuple[tuple[Callable[[str], str], Callable[[str], str]], ...] = (
    (_bytes, _plain),
    (_solid, _solid),
    (_solid, lambda piece: _solid(_unmarked(piece))),
    (_fold, lambda piece: _fold(_unmarked(piece))),
)
