"""The names that the package shows, and the code of its README."""

import re
from pathlib import Path

import pytest

import captum_dig

README = Path(__file__).parents[1] / "README.md"


def test_every_public_name_is_there():
    for name in captum_dig.__all__:
        thing = getattr(captum_dig, name)
        assert thing.__name__ == name
        assert thing.__doc__
    assert set(captum_dig.__all__) <= set(dir(captum_dig))
    with pytest.raises(AttributeError, match="DiscretizetIntegratedGradients"):
        captum_dig.DiscretizetIntegratedGradients  # noqa: B018


def test_star_import():
    namespace = {}
    exec("from captum_dig import *", namespace)
    assert set(captum_dig.__all__) <= set(namespace)


def test_the_code_of_the_readme_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    assert len(blocks) == 3
    namespace = {"folder": Path(captum_dig.__file__).parent / "demo"}
    for block in blocks:
        exec(block, namespace)
    assert "gorgeous" in capsys.readouterr().out
    assert namespace["token_scores"].shape == namespace["inputs"].input_ids.shape
    assert float(namespace["delta"].abs().max()) < 0.2
