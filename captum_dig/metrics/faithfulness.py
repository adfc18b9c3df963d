"""Faithfulness: the change of a model's output when the words with the highest scores are removed.

Takes a model as a function of token ids, and one score for each token from any method; gives one number for each
sentence. `captum_dig.metrics.statistics` averages them.

Two protocols. ``"default"`` never removes special tokens, and takes the nearest whole number of tokens, at least one.
``"paper"`` follows the paper's code: special tokens count and may be removed, and the number of tokens is rounded down.
If that leaves none, the result is 0.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from captum_dig.checks import at_least_one

Protocol = Literal["default", "paper"]
Removal = Literal["delete", "pad", "mask", "attention"]
ForwardFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class TokenBatch:
    """Sentences as a model reads them.

    Attributes:
        input_ids: Token ids, shape (B, T), int64.
        attention_mask: 1 for tokens and 0 for padding, shape (B, T).
        special_tokens_mask: True for tokens that the tokenizer added, shape (B, T).
        pad_id: The id of the padding token.
        mask_id: The id of the mask token, for ``removal="mask"``.

    Raises:
        ValueError: If the shapes differ.

    Example:
        >>> ids = torch.tensor([[1, 7, 2, 0]])
        >>> TokenBatch(ids, ids != 0, ids < 3, pad_id=0).removable.tolist()
        [[False, True, False, False]]
    """

    input_ids: Tensor
    attention_mask: Tensor
    special_tokens_mask: Tensor
    pad_id: int
    mask_id: int | None = None

    def __post_init__(self) -> None:
        for name in ("attention_mask", "special_tokens_mask"):
            if self.input_ids.dim() != 2 or getattr(self, name).shape != self.input_ids.shape:
                raise ValueError(
                    f"input_ids and {name} must have one shape (B, T), "
                    f"got {tuple(self.input_ids.shape)} and {tuple(getattr(self, name).shape)}"
                )

    @property
    def removable(self) -> Tensor:
        """Tokens that are neither padding nor special, shape (B, T)."""
        return self.attention_mask.bool() & ~self.special_tokens_mask.bool()


def log_odds(
    forward_func: ForwardFunction,
    batch: TokenBatch,
    attributions: Tensor,
    target: Tensor | None = None,
    *,
    top_fraction: float | Sequence[float] = 0.2,
    protocol: Protocol = "default",
    removal: Removal = "pad",
    batch_size: int = 64,
) -> Tensor:
    """Measure how much the log-probability of a class changes when its top tokens are replaced. Lower is better.

    Args:
        forward_func: From token ids and attention mask, shape (B, T) each, to logits (B, C), or to log-probabilities
            of the explained class, shape (B,), which need no target.
        batch: The sentences.
        attributions: A score for each token, shape (B, T); higher speaks more for the class.
        target: The class that they explain, shape (B,); None for the one that the model predicts.
        top_fraction: The share of tokens to remove, in (0, 1]. For several shares the result is the mean over them, the
            area over the perturbation curve.
        protocol: ``"default"`` or ``"paper"``, see the module.
        removal: How tokens are removed: replaced by padding (``"pad"``) or the mask token (``"mask"``), cut out
            (``"delete"``), or not attended to (``"attention"``). The paper's protocol pads.
        batch_size: How many sentences the model reads at once.

    Returns:
        log p(without) - log p(whole) of each sentence, shape (B,), float32; NaN where there is nothing to remove.

    Raises:
        ValueError: If a shape, fraction or name is wrong, or ``"mask"`` is asked for without a mask token.

    Example:
        >>> batch = TokenBatch(torch.tensor([[3, 4]]), torch.ones(1, 2), torch.zeros(1, 2), pad_id=0)
        >>> forward = lambda ids, mask: torch.stack([(ids == 3).sum(1) * 2.0, torch.zeros(len(ids))], dim=1)
        >>> log_odds(forward, batch, torch.tensor([[1.0, 0.0]]))
        tensor([-0.5662])

    References:
        Sanyal and Ren (2021), section 3.2 and appendix [sanyal-ren-2021].
    """
    _check_protocol(protocol, removal, "pad")

    def compare(whole: Tensor, without: Tensor) -> Tensor:
        return without - whole

    return _measure(
        compare, forward_func, batch, attributions, target, top_fraction, protocol, removal, batch_size, keep=False
    )


def comprehensiveness(
    forward_func: ForwardFunction,
    batch: TokenBatch,
    attributions: Tensor,
    target: Tensor | None = None,
    *,
    top_fraction: float | Sequence[float] = 0.2,
    protocol: Protocol = "default",
    removal: Removal = "delete",
    batch_size: int = 64,
) -> Tensor:
    """Measure how much the probability of a class falls without its top tokens. Higher is better.

    Args:
        forward_func: As in `log_odds`.
        batch: The sentences.
        attributions: A score for each token, shape (B, T).
        target: The class that they explain, shape (B,); None for the predicted one.
        top_fraction: As in `log_odds`.
        protocol: As in `log_odds`.
        removal: As in `log_odds`. The paper's protocol deletes.
        batch_size: How many sentences the model reads at once.

    Returns:
        p(whole) - p(without) of each sentence, shape (B,), float32; NaN where there is nothing to remove. The paper's
        formula has the opposite sign; its tables have this one.

    Raises:
        ValueError: As in `log_odds`.

    Example:
        >>> batch = TokenBatch(torch.tensor([[3, 4]]), torch.ones(1, 2), torch.zeros(1, 2), pad_id=0)
        >>> forward = lambda ids, mask: torch.stack([(ids == 3).sum(1) * 2.0, torch.zeros(len(ids))], dim=1)
        >>> comprehensiveness(forward, batch, torch.tensor([[1.0, 0.0]]))
        tensor([0.3808])

    References:
        DeYoung et al. (2020), section 4 [deyoung-2020]; Sanyal and Ren (2021), appendix [sanyal-ren-2021].
    """
    _check_protocol(protocol, removal, "delete")
    return _measure(
        _fall, forward_func, batch, attributions, target, top_fraction, protocol, removal, batch_size, keep=False
    )


def sufficiency(
    forward_func: ForwardFunction,
    batch: TokenBatch,
    attributions: Tensor,
    target: Tensor | None = None,
    *,
    top_fraction: float | Sequence[float] = 0.2,
    protocol: Protocol = "default",
    removal: Removal = "delete",
    batch_size: int = 64,
) -> Tensor:
    """Measure how much the probability of a class falls when only its top tokens are left. Lower is better.

    Args:
        forward_func: As in `log_odds`.
        batch: The sentences.
        attributions: A score for each token, shape (B, T).
        target: The class that they explain, shape (B,); None for the predicted one.
        top_fraction: As in `log_odds`.
        protocol: As in `log_odds`.
        removal: As in `log_odds`, of all tokens but the top ones. The paper's protocol deletes.
        batch_size: How many sentences the model reads at once.

    Returns:
        p(whole) - p(top tokens alone) of each sentence, shape (B,), float32; NaN where there is nothing to remove.

    Raises:
        ValueError: As in `log_odds`.

    Example:
        >>> batch = TokenBatch(torch.tensor([[3, 4]]), torch.ones(1, 2), torch.zeros(1, 2), pad_id=0)
        >>> forward = lambda ids, mask: torch.stack([(ids == 3).sum(1) * 2.0, torch.zeros(len(ids))], dim=1)
        >>> sufficiency(forward, batch, torch.tensor([[1.0, 0.0]]))
        tensor([0.])

    References:
        DeYoung et al. (2020), section 4 [deyoung-2020]; Sanyal and Ren (2021), appendix [sanyal-ren-2021].
    """
    _check_protocol(protocol, removal, "delete")
    return _measure(
        _fall, forward_func, batch, attributions, target, top_fraction, protocol, removal, batch_size, keep=True
    )


def _fall(whole: Tensor, without: Tensor) -> Tensor:
    return whole.exp() - without.exp()


def _measure(
    compare: Callable[[Tensor, Tensor], Tensor],
    forward_func: ForwardFunction,
    batch: TokenBatch,
    attributions: Tensor,
    target: Tensor | None,
    top_fraction: float | Sequence[float],
    protocol: Protocol,
    removal: Removal,
    batch_size: int,
    *,
    keep: bool,
) -> Tensor:
    """Compare the log-probabilities of whole and of shortened sentences, averaged over the fractions."""
    at_least_one("batch_size", batch_size)
    if attributions.shape != batch.input_ids.shape:
        raise ValueError(
            f"attributions must have the shape of the ids, {tuple(batch.input_ids.shape)}, "
            f"got {tuple(attributions.shape)}; sum over the embedding dimension first"
        )
    check_removal(removal, batch)
    fractions = [top_fraction] if isinstance(top_fraction, int | float) else list(top_fraction)
    if not fractions or not all(0 < fraction <= 1 for fraction in fractions):
        raise ValueError(f"top_fraction must be in (0, 1], got {top_fraction}")
    removable = batch.removable if protocol == "default" else batch.attention_mask.bool()
    available = removable.sum(dim=1)
    logits = logits_of(forward_func, batch.input_ids, batch.attention_mask, batch_size)
    classes = logits.argmax(dim=-1) if target is None else target.to(logits.device)
    whole = _log_probabilities(logits, classes)
    results = []
    for fraction in fractions:
        # In double precision 0.2 * 5 is 1; in single precision it may be less, and be rounded down to 0.
        share = fraction * available.double()
        count = (share + 1e-9).floor() if protocol == "paper" else share.round().clamp(min=1)
        top = _top(attributions, removable, count.long().minimum(available))
        ids, mask = remove(batch, removable & ~top if keep else top, removal)
        without = _log_probabilities(logits_of(forward_func, ids, mask, batch_size), classes)
        changed = compare(whole, without)
        nothing = 0.0 if protocol == "paper" else torch.nan
        results.append(torch.where((count > 0) & (available > 0), changed, nothing).float())
    return torch.stack(results).mean(dim=0)


def _log_probabilities(logits: Tensor, classes: Tensor) -> Tensor:
    """The log-probability of one class of each sentence, shape (B,); outputs of shape (B,) are returned as they are."""
    return logits if logits.dim() == 1 else logits.log_softmax(dim=1).gather(1, classes[:, None])[:, 0]


def _top(attributions: Tensor, removable: Tensor, count: Tensor) -> Tensor:
    """Mark the `count` tokens of each row with the highest scores; of equal scores the earlier token counts first."""
    order = attributions.masked_fill(~removable, -torch.inf).argsort(dim=1, descending=True, stable=True)
    rank = order.argsort(dim=1)
    return (rank < count[:, None]) & removable


def remove(batch: TokenBatch, chosen: Tensor, removal: Removal) -> tuple[Tensor, Tensor]:
    """Remove tokens.

    Args:
        batch: The sentences.
        chosen: The tokens, a boolean mask of shape (B, T).
        removal: How they are removed, as in `log_odds`.

    Returns:
        Ids and attention mask, shape (B, T) each.
    """
    ids, mask = batch.input_ids, batch.attention_mask
    if removal == "attention":
        return ids, mask.masked_fill(chosen, 0)
    if removal != "delete":
        return ids.masked_fill(chosen, batch.pad_id if removal == "pad" else batch.mask_id or 0), mask
    left = mask.bool() & ~chosen
    order = left.logical_not().to(torch.int8).argsort(dim=1, stable=True)
    kept = left.gather(1, order)
    return ids.gather(1, order).masked_fill(~kept, batch.pad_id), kept.to(mask.dtype)


def logits_of(forward_func: ForwardFunction, ids: Tensor, mask: Tensor, batch_size: int) -> Tensor:
    """Run the model without gradients, once for equal sentences; return logits, shape (B, C), float32."""
    rows, places = torch.cat([ids, mask.to(ids.dtype)], dim=1).unique(dim=0, return_inverse=True)
    some_ids, some_mask = rows[:, : ids.shape[1]], rows[:, ids.shape[1] :].to(mask.dtype)

    def parts() -> Iterator[Tensor]:
        for part_ids, part_mask in zip(some_ids.split(batch_size), some_mask.split(batch_size), strict=True):
            yield forward_func(part_ids, part_mask).float()

    with torch.no_grad():
        return torch.cat(list(parts()))[places]


def check_removal(removal: Removal, batch: TokenBatch) -> None:
    """Raise ValueError if there is no such removal, or the batch has no token for it."""
    if removal not in get_args(Removal):
        raise ValueError(f"removal must be one of {', '.join(map(repr, get_args(Removal)))}, got {removal!r}")
    if removal == "mask" and batch.mask_id is None:
        raise ValueError("removal must be possible, got 'mask' for a batch without a mask_id")


def _check_protocol(protocol: Protocol, removal: Removal, papers: Removal) -> None:
    if protocol not in get_args(Protocol):
        raise ValueError(f"protocol must be one of {', '.join(map(repr, get_args(Protocol)))}, got {protocol!r}")
    if protocol == "paper" and removal != papers:
        raise ValueError(f"removal must be {papers!r} in the paper's protocol, got {removal!r}")
