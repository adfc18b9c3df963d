"""Integrated gradients for language models along a path you choose, as a Captum attribution method.

The flow has one package for each stage. Paths: `vocabulary` (rows and neighbours), `paths` (from word to word, as
knots), `quadrature` (nodes and weights), `attribution` (Captum's interface). Texts: `models` (a text model and its
tokenizer), `tasks` (the explained number), `methods` (scores), `metrics`, `text` (sentences in, results out).
Then `comparison` (methods side by side), `study` (ask people) and `cli`. `catalogue` holds all names.
"""

import lazy_loader

# Names are imported on first use: `captum-dig --help` needs no PyTorch. `__init__.pyi` lists them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.2.0"
