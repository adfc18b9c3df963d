"""Agreement of scores with leave-one-out, and of any two scores.

Takes a model as a function of token ids; gives each token's leave-one-out score. Takes two scores of the same tokens;
gives their rank correlation. `captum_dig.metrics.measures` builds on it.
"""

import torch
from torch import Tensor

from captum_dig.metrics.faithfulness import ForwardFunction, Removal, TokenBatch, check_removal, logits_of, remove


def leave_one_out(
    forward_func: ForwardFunction,
    batch: TokenBatch,
    target: Tensor | None = None,
    *,
    removal: Removal = "mask",
    batch_size: int = 64,
) -> Tensor:
    """Score each token by how far the logit of a class falls without it.

    Args:
        forward_func: From token ids and attention mask, shape (B, T) each, to logits (B, C).
        batch: The sentences.
        target: The class to explain, shape (B,); None for the predicted one.
        removal: How a token is removed, as in `log_odds`.
        batch_size: How many sentences the model reads at once.

    Returns:
        Scores, shape (B, T), float32: higher speaks more for the class; 0 for special tokens and padding.

    Raises:
        ValueError: If `removal` is unknown, or ``"mask"`` is asked for without a mask token.

    Example:
        >>> batch = TokenBatch(torch.tensor([[3, 4]]), torch.ones(1, 2), torch.zeros(1, 2), pad_id=0)
        >>> forward = lambda ids, mask: torch.stack([(ids == 3).sum(1) * 2.0, torch.zeros(len(ids))], dim=1)
        >>> leave_one_out(forward, batch, removal="pad")
        tensor([[2., 0.]])

    References:
        Li, Monroe and Jurafsky (2016) [li-2016].
    """
    check_removal(removal, batch)
    whole = logits_of(forward_func, batch.input_ids, batch.attention_mask, batch_size)
    classes = whole.argmax(dim=1) if target is None else target.to(whole.device)
    sentence, place = batch.removable.nonzero(as_tuple=True)
    rows = TokenBatch(
        batch.input_ids[sentence],
        batch.attention_mask[sentence],
        batch.special_tokens_mask[sentence],
        batch.pad_id,
        batch.mask_id,
    )
    chosen = torch.nn.functional.one_hot(place, batch.input_ids.shape[1]).bool()
    scores = whole.new_zeros(batch.input_ids.shape)
    if len(sentence):
        without = logits_of(forward_func, *remove(rows, chosen, removal), batch_size)
        wanted = classes[sentence]
        numbers = torch.arange(len(sentence), device=whole.device)
        scores[sentence, place] = whole[sentence, wanted] - without[numbers, wanted]
    return scores


def kendall_tau(attributions: Tensor, others: Tensor, batch: TokenBatch) -> Tensor:
    """Measure the rank correlation of two scores of a sentence's tokens. Higher is better.

    Kendall's tau-b over the tokens that are neither padding nor special. It counts the pairs of tokens in the same
    order minus the pairs in opposite order, divided by the geometric mean of each score's number of untied pairs.

    Args:
        attributions: A score for each token, shape (B, T).
        others: Another, shape (B, T), such as that of `leave_one_out`.
        batch: The sentences.

    Returns:
        Numbers in [-1, 1], shape (B,), float32; NaN where a score tells no two tokens apart.

    Raises:
        ValueError: If a shape differs from that of the ids.

    Example:
        >>> batch = TokenBatch(torch.tensor([[3, 4, 5]]), torch.ones(1, 3), torch.zeros(1, 3), pad_id=0)
        >>> kendall_tau(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 3.0, 2.0]]), batch)
        tensor([0.3333])

    References:
        Kendall (1945) [kendall-1945].
    """
    for name, scores in (("attributions", attributions), ("others", others)):
        if scores.shape != batch.input_ids.shape:
            raise ValueError(
                f"{name} must have the shape of the ids, {tuple(batch.input_ids.shape)}, got {tuple(scores.shape)}"
            )
    both = batch.removable[:, :, None] & batch.removable[:, None, :]
    one, other = ((s[:, :, None] - s[:, None, :]).sign() * both for s in (attributions.double(), others.double()))
    agreement = (one * other).sum(dim=(1, 2))
    apart = (one.abs().sum(dim=(1, 2)) * other.abs().sum(dim=(1, 2))).sqrt()
    return torch.where(apart > 0, agreement / apart, torch.nan).float()
