"""Formats: every one of the catalogue writes results, those in JSON read back, and wrong arguments are named."""

import io
import json

import pytest

from captum_dig import TextAttribution
from captum_dig.catalogue import CATALOGUE
from captum_dig.visualization.formats import Format


@pytest.fixture(scope="module")
def results(classifier, tokenizer):
    from captum_dig import TextExplainer

    return TextExplainer(classifier, tokenizer, cache=False).explain(["a fine film", "dull ☃"], n_steps=8)


def written(name, results):
    stream = io.StringIO()
    CATALOGUE.find(name, "format").make()(iter(results), stream)
    return stream.getvalue()


@pytest.mark.parametrize("name", CATALOGUE.names("format"))
def test_every_format_writes_each_result_in_order(name, results):
    text = written(name, results)
    assert text.endswith("\n")
    assert 0 <= text.index("film") < text.index("dull")
    assert written(name, []) is not None


def test_json_reads_back(results):
    assert [TextAttribution.from_dict(entry) for entry in json.loads(written("json", results))] == results
    lines = written("jsonl", results).splitlines()
    assert [TextAttribution.from_dict(json.loads(line)) for line in lines] == results


def test_wrong_arguments_are_named(results):
    class Nothing(Format):
        def write(self, results, file):
            pytest.fail("wrong arguments came through")

    with pytest.raises(TypeError, match="file must be a stream of text, got str; open the file first"):
        Nothing()(results, "page.html")
    with pytest.raises(TypeError, match="results must hold results such as TextAttribution, got str"):
        Nothing()(["a fine film"], io.StringIO())
