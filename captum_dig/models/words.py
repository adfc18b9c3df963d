"""Words: which tokens of a text form a word that a person reads.

Takes a text and the places of its tokens, gives for each word its tokens and its place. `captum_dig.models.encoding`
calls it for every text.
"""

from collections.abc import Sequence

Span = tuple[int, int]


def group_words(
    text: str, offsets: Sequence[Span], special: Sequence[bool], word_ids: Sequence[int | None]
) -> tuple[tuple[tuple[int, ...], ...], tuple[Span, ...]]:
    """Group the tokens of a text into words, so that every token that is not special belongs to exactly one.

    Tokens stay together where the tokenizer's pre-tokenizer kept them together and where they share characters (the
    bytes of an emoji). Tokens of white space join the word that follows.

    Args:
        text: The text.
        offsets: Start and end of each token, length T.
        special: Which tokens are special, length T.
        word_ids: The number of the word that the tokenizer took each token from, length T.

    Returns:
        For each word the positions of its tokens, and its start and end in the text without white space around it.

    Example:
        >>> group_words("a movie", [(0, 0), (0, 1), (2, 5), (5, 7)], [True, False, False, False], [None, 0, 1, 1])
        (((1,), (2, 3)), ((0, 1), (2, 7)))
    """
    groups: list[list[int]] = []
    spans: list[Span] = []
    number: int | None = None
    for i, (span, mark) in enumerate(zip(offsets, special, strict=True)):
        if mark:
            continue
        start, end = _strip(text, span)
        blank = bool(spans) and spans[-1][0] == spans[-1][1]
        same_word = word_ids[i] is not None and word_ids[i] == number
        number = word_ids[i]
        if not groups or not (blank or same_word or start < spans[-1][1]):
            groups.append([i])
            spans.append((start, end))
            continue
        groups[-1].append(i)
        if blank:
            spans[-1] = (start, end)
        elif start < end:
            spans[-1] = (min(spans[-1][0], start), max(spans[-1][1], end))
    if spans and spans[-1][0] == spans[-1][1]:
        # White space at the end has no word after it to join. With no word before it either, the text is the word.
        trailing = groups.pop()
        spans.pop()
        if groups:
            groups[-1].extend(trailing)
        elif text:
            groups, spans = [trailing], [(0, len(text))]
    return tuple(map(tuple, groups)), tuple(spans)


def _strip(text: str, span: Span) -> Span:
    """A span without the white space at its ends; byte-level tokens include the space before a word."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
