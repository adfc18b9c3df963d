"""Words: the tokens that together form a word for a reader.

Takes a text and the spans of its tokens; gives the tokens and the span of each word. `captum_dig.models.encoding` calls
it for every text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import regex

Span = tuple[int, int]

# No word boundary cuts this: a grapheme cluster, with marks and format characters after it. `\X` alone separates a few
# vowel signs (Burmese) and every direction mark from the letter before.
_CLUSTER: Any = regex.compile(r"\X(?:(?=[\p{M}\p{Word_Break=Format}])\X)*")
_SOLID = re.compile(r"\S+")
_SOLID_TEXT = re.compile(r"\S(?:.*\S)?", flags=re.DOTALL)
# Scripts without spaces between words: Han, kana, Thai, Lao, Khmer, Burmese and others.
_UNSPACED: Any = regex.compile(r"[\p{Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Line_Break=Complex_Context}]")
# A letter whose cluster ends in a mark or a joiner.
_MARKED_LETTER: Any = regex.compile(r"\p{L}.*[\p{M}\p{Cf}]", flags=regex.DOTALL)
_LETTER: Any = regex.compile(r"\p{L}")


@dataclass
class _Segment:
    """A part of the text without special tokens, and the positions of its tokens."""

    start: int
    end: int
    members: list[int] = field(default_factory=list)


def group_words(
    text: str,
    offsets: Sequence[Span],
    special: Sequence[bool],
    word_ids: Sequence[int | None],
    read: Span | None = None,
) -> tuple[tuple[tuple[int, ...], ...], tuple[Span, ...]]:
    """Group the tokens of a text into words. Every token that is not special belongs to exactly one word.

    White space separates words. So does the tokenizer's pre-tokenizer, except after a mark in the middle of a word. In
    scripts without spaces every token is a word. Grapheme clusters stay whole. A character without a token belongs to
    the word before it, and a token of white space to the word after it.

    Args:
        text: The text.
        offsets: Start and end of each token, length T; (0, 0) for a special token that is not in the text.
        special: Which tokens are special, length T.
        word_ids: The number of each token's word in the tokenizer's own count, length T; None where it has none.
        read: Start and end of the part of the text that has tokens; None for the whole text.

    Returns:
        For each word the positions of its tokens, and its start and end in the text without white space around it.

    Example:
        >>> group_words("a movie", [(0, 0), (0, 1), (2, 5), (5, 7)], [True, False, False, False], [None, 0, 1, 1])
        (((1,), (2, 3)), ((0, 1), (2, 7)))
    """
    words: list[tuple[int, ...]] = []
    spans: list[Span] = []
    blank: list[int] = []
    begin, stop = read or (0, len(text))
    for segment in _segments(offsets, special, begin, stop):
        for tokens, span in _words(text, offsets, word_ids, segment):
            if span is None:
                blank.extend(tokens)
                continue
            words.append((*blank, *tokens))
            spans.append(span)
            blank = []
    if blank and words:
        # White space at the end has no word after it to join.
        words[-1] = (*words[-1], *blank)
    elif blank and begin < stop:
        # If there is no word before it either, the text is the word.
        solid = _SOLID_TEXT.search(text, begin, stop)
        words, spans = [tuple(blank)], [solid.span() if solid else (begin, stop)]
    return tuple(words), tuple(spans)


def cluster_ends(text: str) -> list[int]:
    """Find where the grapheme clusters of a text end, white space included."""
    return [cluster.end() for cluster in _CLUSTER.finditer(text)]


def _segments(offsets: Sequence[Span], special: Sequence[bool], begin: int, stop: int) -> list[_Segment]:
    """Cut the text at the special tokens in it."""
    segments = [_Segment(begin, stop)]
    for i, ((start, end), mark) in enumerate(zip(offsets, special, strict=True)):
        if not mark:
            segments[-1].members.append(i)
        elif start < end:
            segments[-1].end = start
            segments.append(_Segment(end, stop))
    return segments


def _words(
    text: str, offsets: Sequence[Span], word_ids: Sequence[int | None], segment: _Segment
) -> Iterator[tuple[list[int], Span | None]]:
    """Return the words of a segment in order; tokens without a character of their own have None for a span."""
    clusters, cluster_at = _clusters(text, segment)
    inside = [_touched(offsets[i], cluster_at, segment.start) for i in segment.members]
    solid = [number for number, touched in enumerate(inside) if touched]
    # Tokens may share clusters, and a normalizer may swap marks: a word ends where all tokens so far end before all
    # that follow begin.
    last = list(accumulate((touched[-1] for touched in inside if touched), max))
    first = list(accumulate((touched[0] for touched in reversed(inside) if touched), min))[::-1]
    opening, tokens = 0, 0
    for k, number in enumerate(solid):
        final = k + 1 == len(solid)
        if not final:
            a, b = (word_ids[segment.members[n]] for n in (number, solid[k + 1]))
            if last[k] >= first[k + 1] or not _parts(text, clusters[last[k]], clusters[first[k + 1]], a == b):
                continue
        # Characters without a token, up to the next word, belong to this one; those before the first word, to it.
        limit = segment.end if final else clusters[first[k + 1]][0]
        start = clusters[first[opening] if opening else 0][0]
        end = clusters[last[k]][1]
        end += len(text[end:limit].rstrip())
        yield segment.members[tokens : number + 1], (start, end)
        opening, tokens = k + 1, number + 1
    if segment.members[tokens:]:
        yield segment.members[tokens:], None


def _clusters(text: str, segment: _Segment) -> tuple[list[Span], list[int]]:
    """Find the clusters of a segment without white space, and each character's cluster number, or -1."""
    clusters: list[Span] = []
    cluster_at = [-1] * (segment.end - segment.start)
    for cluster in _CLUSTER.finditer(text[segment.start : segment.end]):
        # White space is a cluster with the marks after it, and these may belong to a word.
        for part in _SOLID.finditer(cluster.group()):
            start, end = cluster.start() + part.start(), cluster.start() + part.end()
            cluster_at[start:end] = [len(clusters)] * (end - start)
            clusters.append((segment.start + start, segment.start + end))
    return clusters, cluster_at


def _touched(span: Span, cluster_at: list[int], shift: int) -> list[int]:
    """Return the numbers of the clusters that a token covers, wholly or in part; none for white space."""
    return [number for number in cluster_at[max(0, span[0] - shift) : max(0, span[1] - shift)] if number >= 0]


def _parts(text: str, left: Span, right: Span, same_word: bool) -> bool:
    """Whether a word ends between two clusters, at the end of one token and the start of the next."""
    if any(char.isspace() for char in text[left[1] : right[0]]):
        return True
    if _UNSPACED.match(text, left[0]) or _UNSPACED.match(text, right[0]):
        return True
    # Pre-tokenizers of byte-level tokenizers treat a mark as a symbol, and cut around it.
    around_mark = _MARKED_LETTER.fullmatch(text, *left) and _LETTER.match(text, right[0])
    return not same_word and not around_mark
