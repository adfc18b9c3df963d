"""time_interpret: sequential integrated gradients, a path of its own for each token, and discretized ones."""

from typing import Any

import torch
from _worker import serve
from tint.attr import SequentialIntegratedGradients


def explain(model: Any, tokenizer: Any, text: str, n_steps: int) -> list[float]:
    """Explain the predicted label's logit from padding; the steps are shared among the tokens."""
    batch = tokenizer(text, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    layer = model.get_input_embeddings()
    target = int(model(input_ids=ids, attention_mask=mask).logits.argmax())
    inputs = layer(ids).detach()
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    baselines = layer(torch.where(special, ids, tokenizer.pad_token_id)).detach()

    def forward(embeddings: Any, mask: Any) -> Any:
        return model(inputs_embeds=embeddings, attention_mask=mask.expand(len(embeddings), -1)).logits

    found = SequentialIntegratedGradients(forward).attribute(
        inputs,
        baselines=baselines,
        target=target,
        additional_forward_args=(mask,),
        n_steps=max(1, n_steps // ids.shape[1]),
    )
    return [float(score) for score in found.sum(dim=2)[0]]


serve("time_interpret", explain)
