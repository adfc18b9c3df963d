import re

import pytest
import torch

from captum_dig import ModelError, TextExplainer
from captum_dig.models.devices import as_device, as_dtype


def test_a_device_by_its_name(classifier, tokenizer, monkeypatch):
    assert as_device("cpu") == as_device(torch.device("cpu")) == torch.device("cpu")
    moved = []
    monkeypatch.setattr(classifier, "to", moved.append)
    for device in ("cpu", "auto", torch.device("cpu")):
        TextExplainer(classifier, tokenizer, device=device)
    assert moved == [torch.device("cpu"), as_device("auto"), torch.device("cpu")]
    TextExplainer(classifier, tokenizer)
    assert len(moved) == 3


def test_auto_takes_the_fastest(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert as_device("auto") == torch.device("mps")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert as_device("auto") == torch.device("cuda")
    assert as_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(ValueError, match="here, 'cuda', 'cuda:0', 'cuda:1', 'mps', 'mps:0', 'cpu', got 'cuda:2'"):
        as_device("cuda:2")


@pytest.mark.parametrize("device", ["gpu", "cuda:7", "meta", "", 3.5, "cpu:x"])
def test_devices_that_are_not_here(classifier, tokenizer, device, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(
        ValueError, match=re.escape(f"device must be 'auto' or one that is here, 'cpu', got {device!r}")
    ):
        TextExplainer(classifier, tokenizer, device=device)


def test_a_model_that_cannot_be_moved(classifier, tokenizer, monkeypatch):
    def refuse(device):
        raise ValueError("`.to` is not supported for 4-bit models")

    monkeypatch.setattr(classifier, "to", refuse)
    with pytest.raises(ModelError, match=r"moved to cpu, got \w+: `.to` is not supported.*; load it there"):
        TextExplainer(classifier, tokenizer, device="cpu")


def test_types_by_their_names():
    assert as_dtype("float16") == as_dtype(torch.float16) == torch.float16
    assert next(TextExplainer.demo(dtype="bfloat16").classifier.model.parameters()).dtype == torch.bfloat16
    for wrong in ("int8", torch.int64, None):
        with pytest.raises(ValueError, match="dtype must be a floating-point type, such as 'float32'"):
            TextExplainer.demo(dtype=wrong)
