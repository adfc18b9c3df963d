"""Sheets: the sentences of a study, the page to rank them on, and its key.

Takes pictures of each sentence by several methods; gives a page and a key. `captum_dig.study.scores` reads the answers.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from captum_dig.records import check_keys, integer, of_format, show, string, to_json, tuple_of
from captum_dig.study.page import LETTERS, article, draw
from captum_dig.visualization import Picture, Segment

KEY_FORMAT = "captum_dig.StudyKey"
ANSWERS_FORMAT = "captum_dig.StudyAnswers"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class StudyItem:
    """One sentence, the model's decision, and an explanation of it by each method.

    Args:
        decision: The explained decision of the model, for instance ``"POSITIVE"``.
        pictures: For the name of each method, at least 2, the sentence as scored segments, as `cut_text` and
            `TextAttribution.to_picture` give them.

    Raises:
        TypeError: A name or the decision is no string, or a picture holds something else than `Segment`s.
        ValueError: There are fewer than 2 or more than 26 methods, or their pictures show different texts.

    Example:
        >>> item = StudyItem("POSITIVE", {"mine": (Segment("good", 1.0),), "other": (Segment("good", 0.2),)})
        >>> item.text
        'good'
    """

    decision: str
    pictures: Mapping[str, tuple[Segment, ...]]

    def __post_init__(self) -> None:
        string("decision", self.decision)
        if not isinstance(self.pictures, Mapping):
            raise TypeError(f"pictures must be a mapping, got {type(self.pictures).__name__}; name the methods")
        names = {string("pictures", name): Picture(segments).segments for name, segments in self.pictures.items()}
        if not 2 <= len(names) <= len(LETTERS):
            raise ValueError(f"pictures must show 2 to 26 methods, got {len(names)}; pass one picture for each")
        object.__setattr__(self, "pictures", MappingProxyType(names))
        if len(texts := {Picture(segments).text for segments in names.values()}) > 1:
            raise ValueError(f"pictures must be of one text, got {sorted(texts)}; explain the same sentence")

    @property
    def text(self) -> str:
        """Give the sentence."""
        return Picture(next(iter(self.pictures.values()))).text


@dataclass(frozen=True)
class StudyKey:
    """The place of each method on a page. Keep it away from the people who rank.

    Args:
        study: The id that the page writes into its answers: a hash of its content.
        seed: The seed of the orders.
        methods: The names of the methods.
        orders: For each sentence, the methods in their order on the page, from the top.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: There are fewer than 2 methods or no sentence, or an order does not hold each method once.
    """

    study: str
    seed: int
    methods: tuple[str, ...]
    orders: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for name, convert in (("methods", tuple_of(string)), ("orders", tuple_of(tuple_of(string)))):
            object.__setattr__(self, name, convert(name, getattr(self, name)))
        string("study", self.study)
        object.__setattr__(self, "seed", integer("seed", self.seed))
        if len(set(self.methods)) != len(self.methods) or len(self.methods) < 2:
            raise ValueError(
                f"methods must be at least 2 different names, got {show(self.methods)}; pass what make_study gave"
            )
        if not self.orders:
            raise ValueError("orders must hold at least one sentence, got none; pass what make_study gave")
        for i, order in enumerate(self.orders):
            if sorted(order) != sorted(self.methods):
                raise ValueError(
                    f"orders[{i}] must hold each method once, got {show(order)}; pass what make_study gave"
                )

    def to_dict(self) -> dict[str, Any]:
        """Give the fields as strict JSON can hold them; `from_dict` gives back an equal key."""
        return {"format": KEY_FORMAT, "format_version": FORMAT_VERSION, **to_json(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "StudyKey":
        """Make a key from the output of `to_dict`, also after a round trip through JSON.

        Raises:
            TypeError: `data` is no mapping, or a value has the wrong type.
            ValueError: The format is another one, or a key is missing or unknown.
        """
        values = of_format("data", data, KEY_FORMAT, FORMAT_VERSION, ("pass the key that make_study gave",) * 2)
        check_keys("data", values, cls)
        return cls(**values)


@dataclass(frozen=True)
class Study:
    """A page for the people who rank, and its key.

    Attributes:
        page: One HTML file that needs no other; write it as UTF-8. It does not name the methods.
        key: The place of each method.
    """

    page: str
    key: StudyKey


def make_study(items: Sequence[StudyItem], *, seed: int) -> Study:
    """Make a page on which people rank explanations of unnamed methods.

    As in the paper, people see the highlighted sentence and the model's decision, and rank the explanations from 1,
    "the most comprehensive explanation that best justifies the prediction". Every rank must be used once. Methods are
    called A, B, C …, in a random order for each sentence. Scores show as strengths of colour only, relative to the
    largest of each picture. The page keeps the ranks in the browser, and saves them as a file.

    Args:
        items: The sentences, at least one, each explained by the same methods.
        seed: For the orders, at least 0.

    Returns:
        The page and its key. The same items and seed give the same page.

    Raises:
        TypeError: `items` holds something else than `StudyItem`s, or `seed` is no integer.
        ValueError: There is no item, items have different methods, or `seed` is negative.

    Example:
        >>> pictures = {"mine": (Segment("good", 1.0),), "other": (Segment("good", 0.2),)}
        >>> study = make_study([StudyItem("POSITIVE", pictures)], seed=0)
        >>> sorted(study.key.orders[0]), "mine" in study.page
        (['mine', 'other'], False)

    References:
        Sanyal and Ren (2021), section 4.2 [sanyal-ren-2021].
    """
    if (seed := integer("seed", seed)) < 0:
        raise ValueError(f"seed must be at least 0, got {seed}; pass another number")
    if not items:
        raise ValueError("items must hold at least one sentence, got none; pass a StudyItem for each")
    methods: tuple[str, ...] = ()
    for i, item in enumerate(items):
        if not isinstance(item, StudyItem):
            raise TypeError(f"items[{i}] must be a StudyItem, got {type(item).__name__}; wrap it in StudyItem(...)")
        methods = methods or tuple(item.pictures)
        if set(item.pictures) != set(methods):
            got = sorted(item.pictures)
            raise ValueError(f"items[{i}] must have the methods {sorted(methods)}, got {got}; explain it by the same")
    generator = np.random.default_rng(seed)
    orders = tuple(tuple(methods[i] for i in generator.permutation(len(methods))) for _ in items)
    articles = "".join(
        article(i, len(items), item.decision, [item.pictures[method] for method in order])
        for i, (item, order) in enumerate(zip(items, orders, strict=True))
    )
    # A hash of the content, never of the seed or the names, which could be guessed from it.
    study = hashlib.sha256(articles.encode()).hexdigest()[:16]
    page = draw(articles, study, len(methods), ANSWERS_FORMAT, FORMAT_VERSION)
    return Study(page, StudyKey(study, seed, methods, orders))
