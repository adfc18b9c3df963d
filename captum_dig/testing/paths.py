"""The contracts of `PathGenerator` and `AnchorSearch`.

Takes a path or a search; raises an error if it breaks a promise. For the tests of plug-ins.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.checks import at_least_one
from captum_dig.errors import PathError
from captum_dig.paths import Knots, MonotonicPath, PathGenerator, Places, Together, as_ensemble
from captum_dig.paths.anchors import AnchorSearch, Neighborhood
from captum_dig.paths.bundles import on_device
from captum_dig.testing.contract import ContractError, must_be_equal
from captum_dig.vocabulary import Vocabulary

# Gradients for each straight piece, and their largest error for a function between -1 and 1.
_NODES_PER_PIECE = 8
_TOLERANCE = 1e-6
# Rows for the model at once.
_BLOCK = 256


def check_path(
    path: PathGenerator,
    inputs: Tensor,
    baselines: Tensor,
    *,
    dtypes: Sequence[torch.dtype] = (torch.float16, torch.bfloat16, torch.float64),
) -> None:
    """Check every promise of a path to attribution.

    - Its knots are a path: ends exact, finite, dtype and device kept, monotone if the class says so.
    - They are the same at every call, and those of an example the same in every batch.
    - A polyline has the lengths and the points of the path through its knots.
    - Inputs and baselines stay unchanged.
    - Nothing moves where an input equals its baseline.
    - Attributions along the path are exact for a linear function, and add up for a smooth one.

    Args:
        path: The path.
        inputs: Inputs to try it on, shape (B, ..., D), B at least 2, floating point, on any device.
        baselines: Their baselines, of the same shape, dtype and device, different from the inputs somewhere.
        dtypes: Further types that the path must take the same inputs in.

    Raises:
        ContractError: If a promise is broken; the message says which.
        ValueError: If there are fewer than two examples, or inputs and baselines are equal.

    Example:
        >>> from captum_dig import StraightLine
        >>> check_path(StraightLine(), torch.randn(2, 3, 4), torch.zeros(2, 3, 4))
    """
    if len(inputs) < 2 or inputs.dim() < 2:
        raise ValueError(
            f"inputs must have shape (B, ..., D) with B >= 2, got {tuple(inputs.shape)}; "
            "one example cannot show whether others change its path"
        )
    if torch.equal(inputs, baselines):
        raise ValueError("inputs and baselines must differ, got equal ones, between which there is no path")
    name = type(path).__name__
    if not isinstance(path, PathGenerator):
        raise ContractError(f"{name} must be a PathGenerator; derive it from captum_dig.PathGenerator")
    if type(path).__call__ is not PathGenerator.__call__:
        raise ContractError(f"{name} must leave __call__ alone, which checks the knots; write knots instead")
    # Where the number of members is free, the least is as good as any.
    path = path.sized(path.n_paths)
    knots = _knots(path, inputs, baselines, "")
    _check_again(path, inputs, baselines, knots)
    _check_polylines(path, inputs, baselines, knots)
    _check_rows(path, inputs, baselines, knots)
    _check_rest(path, inputs, baselines)
    for dtype in dtypes:
        _knots(path, inputs.to(dtype), baselines.to(dtype), f" in {dtype}")
    _check_attributions(path, inputs.double(), baselines.double())


def check_anchor_search(
    search: AnchorSearch,
    vocabulary: Vocabulary | None = None,
    *,
    n_anchors: int = 8,
    n_neighbors: int = 20,
) -> None:
    """Check every promise of an anchor search to a `MonotonicPath`.

    - Costs are the same at every call, do not depend on other words, and leave the neighborhood unchanged.
    - Walks visit no word twice, and only rows that may be anchors.
    - They do not depend on earlier walks, and end at the baseline if no candidate is left.

    Args:
        search: The search.
        vocabulary: Rows to try it on, at least 8 different ones; None for 60 random rows of width 5.
        n_anchors: The paper's m.
        n_neighbors: The paper's K.

    Raises:
        ContractError: If a promise is broken; the message says which.
        ValueError: If the vocabulary is too small, or a number is below 1.

    Example:
        >>> from captum_dig import Greedy
        >>> check_anchor_search(Greedy())
    """
    name = type(search).__name__
    if not isinstance(search, AnchorSearch):
        raise ContractError(f"{name} must be an AnchorSearch; derive it from captum_dig.AnchorSearch")
    if vocabulary is None:
        vocabulary = Vocabulary(
            torch.randn(60, 5, generator=torch.Generator("cpu").manual_seed(0), dtype=torch.float32, device="cpu")
        )
    distinct = len(vocabulary.rows.unique(dim=0))
    if distinct < 8:
        raise ValueError(f"vocabulary must have at least 8 different rows, got {distinct}")
    n_anchors = at_least_one("n_anchors", n_anchors)
    n_neighbors = min(at_least_one("n_neighbors", n_neighbors), len(vocabulary) - 1)
    ids = torch.arange(len(vocabulary), device="cpu")
    if search.identity is not None and not isinstance(search.identity, str):
        raise ContractError(f"{name}.identity must be a string or None, got {search.identity!r}")
    _check_costs(search, vocabulary, n_anchors, n_neighbors)

    baseline = int(vocabulary.find(vocabulary.rows[:1]))
    path = MonotonicPath(vocabulary, search, n_anchors, n_neighbors)
    walks = _walks(path, ids, baseline)
    _check_visits(name, walks, baseline)
    alone = torch.cat(
        [_walks(MonotonicPath(vocabulary, search, n_anchors, n_neighbors), one, baseline) for one in ids.split(1)]
    )
    must_be_equal(f"{name} must not let other words change the way of a word", walks, alone)
    _walks(path, ids, len(ids) - 1)
    must_be_equal(f"{name} must not let earlier walks change a later one", walks, _walks(path, ids, baseline))

    mask = ids % 3 == 1
    masked = MonotonicPath(vocabulary, search, n_anchors, min(n_neighbors, int(mask.sum())), candidates=mask)
    found = set(_walks(masked, ids, baseline)[:, 1:].flatten().tolist()) - {baseline}
    if not found <= set(ids[mask].tolist()):
        raise ContractError(
            f"{name} must keep to the candidates, got row {min(found - set(ids[mask].tolist()))}, which the mask "
            "excludes; let propose pass the mask on"
        )
    few = Vocabulary(vocabulary.rows.unique(dim=0)[:4])
    walk = _walks(MonotonicPath(few, search, 9, 3), torch.tensor([2], device="cpu"), 0)[0].tolist()
    if walk[3:] != [0] * 7:
        raise ContractError(f"{name} must end at the baseline where no candidate is left, got the walk {walk}")


def _knots(path: PathGenerator, inputs: Tensor, baselines: Tensor, where: str) -> Tensor:
    """The knots of all members, shape (R, P, B, ...); requires that they are paths and the ends unchanged."""
    name = type(path).__name__
    kept = inputs.clone(), baselines.clone()
    try:
        knots = path(inputs, baselines)
    except PathError as error:
        raise ContractError(f"{name}{where}: {error}") from error
    for which, before, after in zip(("inputs", "baselines"), kept, (inputs, baselines), strict=True):
        if not torch.equal(before, after):
            raise ContractError(f"{name}.knots must not change its {which}{where}; work on a copy")
    return as_ensemble(knots, inputs)


def _check_again(path: PathGenerator, inputs: Tensor, baselines: Tensor, knots: Tensor) -> None:
    must_be_equal(
        f"{type(path).__name__}.knots must be the same at every call; draw random numbers from a seed of its own",
        knots,
        _knots(path, inputs, baselines, ""),
    )


def _check_polylines(path: PathGenerator, inputs: Tensor, baselines: Tensor, knots: Tensor) -> None:
    """Compare the pieces of each path, made where they are wanted, with the path through all knots."""
    name, first = type(path).__name__, 0
    size = float((inputs - baselines).abs().max())
    for bundle in path.bundles((inputs,), (baselines,)):
        dense = Together((Knots(knots[first : first + bundle.n_paths].flatten(0, 1)),), bundle.n_paths)
        first += bundle.n_paths
        lengths = bundle.lengths()
        # Members wait at the inputs for those with more knots.
        if not np.allclose(lengths, dense.lengths()[:, : lengths.shape[1]], rtol=1e-4, atol=1e-5 * size):
            raise ContractError(f"{name}: lengths of a polyline must be those between its knots, for each piece")
        for path_number in range(bundle.n_paths):
            pieces = np.arange(lengths.shape[1])[:, None].repeat(len(inputs), axis=1)
            places = Places(np.full((len(pieces), 1), path_number), pieces, np.full(pieces.shape, 0.25))
            one, other = (
                laid.polylines[0].points(*on_device(laid.where(0, places), laid.polylines[0]))
                for laid in (bundle, dense)
            )
            if not torch.allclose(one, other, rtol=1e-4, atol=1e-5 * size):
                raise ContractError(f"{name}: points of a polyline must lie on the straight pieces between its knots")


def _check_rows(path: PathGenerator, inputs: Tensor, baselines: Tensor, knots: Tensor) -> None:
    for i in range(len(inputs)):
        alone = _knots(path, inputs[i : i + 1], baselines[i : i + 1], " alone")
        # In a batch a path may wait at its end for a path with more knots.
        alone = torch.cat([alone, *[alone[:, -1:]] * (knots.shape[1] - alone.shape[1])], dim=1)
        must_be_equal(
            f"{type(path).__name__}.knots must not let the other examples of a batch change the path of an example",
            knots[:, :, i : i + 1],
            alone,
        )


def _check_rest(path: PathGenerator, inputs: Tensor, baselines: Tensor) -> None:
    """Set the first vector of every example, or the first example, to its baseline."""
    place: Any = (slice(None), 0) if inputs.dim() > 2 else slice(0, 1)
    resting = inputs.clone()
    resting[place] = baselines[place]
    if torch.equal(resting, baselines):
        return
    knots = _knots(path, resting, baselines, " where a vector equals its baseline")
    for knot in knots.flatten(0, 1):
        if not torch.equal(knot[place], baselines[place]):
            difference = float((knot[place] - baselines[place]).abs().max())
            raise ContractError(
                f"{type(path).__name__}.knots must stay where an input equals its baseline, "
                f"got a way of {difference:.3g}; special tokens and padding would get scores"
            )


def _check_attributions(path: PathGenerator, inputs: Tensor, baselines: Tensor) -> None:
    """Attribute along the path, in double precision."""
    name = type(path).__name__
    knots = _knots(path, inputs, baselines, " in torch.float64")
    # Of length 1: no function changes faster than its argument moves.
    direction: Tensor = torch.cos(torch.arange(inputs[0].numel(), dtype=inputs.dtype, device=inputs.device) * 2 + 1)
    direction = (direction / direction.norm()).reshape(inputs.shape[1:])
    lengths = knots.diff(dim=1).flatten(3).norm(dim=-1).sum(dim=1).amax(dim=0)
    n_paths, n_pieces = len(knots), knots.shape[1] - 1

    def linear(points: Tensor) -> Tensor:
        return (points * direction).flatten(1).sum(dim=1)

    def smooth(points: Tensor, starts: Tensor, length: Tensor) -> Tensor:
        return torch.sin(2 * linear(points - starts) / length)

    exact = direction * (inputs - baselines)
    for n_steps in (n_paths, n_paths + 6):
        got = DiscretizedIntegratedGradients(linear, path).attribute(inputs, baselines, n_steps=n_steps)
        error = float((got - exact).abs().max() / exact.abs().max())
        if not error < _TOLERANCE:
            raise ContractError(
                f"{name} must give the exact attributions of a linear function, got an error of {100 * error:.3g} % "
                f"with {n_steps} steps"
            )
    arguments = (baselines, lengths.clamp(min=torch.finfo(lengths.dtype).tiny))
    _, delta = DiscretizedIntegratedGradients(smooth, path).attribute(
        inputs,
        baselines,
        additional_forward_args=arguments,
        n_steps=_NODES_PER_PIECE * n_paths * n_pieces,
        internal_batch_size=max(_BLOCK, len(inputs)),
        return_convergence_delta=True,
    )
    if not float(delta.abs().max()) < _TOLERANCE:
        raise ContractError(
            f"{name} must give attributions that add up to the change of a smooth function, "
            f"got a delta of {float(delta.abs().max()):.3g}"
        )


def _walks(path: MonotonicPath, ids: Tensor, baseline: int) -> Tensor:
    try:
        return path.anchor_ids(ids, baseline)
    except PathError as error:
        raise ContractError(str(error)) from error


def _check_costs(search: AnchorSearch, vocabulary: Vocabulary, n_anchors: int, n_neighbors: int) -> None:
    """Price the neighbours of a few words, together and one by one."""
    name = type(search).__name__
    rows, ids = vocabulary.rows, torch.arange(1, 8, device="cpu")
    near = vocabulary.neighbors(ids, n_neighbors)

    def price(some: slice) -> Tensor:
        neighborhood = Neighborhood(
            ids[some].clone(),
            rows[ids[some]],
            near[some].clone(),
            rows[near[some].clamp(min=0)],
            rows[0].clone(),
            n_anchors,
        )
        fields = ("word_ids", "words", "candidate_ids", "candidates", "baseline")
        kept = [getattr(neighborhood, field).clone() for field in fields]
        try:
            costs = search(neighborhood)
        except PathError as error:
            raise ContractError(str(error)) from error
        for field, before in zip(fields, kept, strict=True):
            if not torch.equal(before, getattr(neighborhood, field)):
                raise ContractError(f"{name}.cost must not change the neighborhood's {field}; work on a copy")
        return costs

    together = price(slice(None))
    must_be_equal(
        f"{name}.cost must be the same at every call; draw random numbers from a seed of its own",
        together,
        price(slice(None)),
    )
    alone = torch.cat([price(slice(i, i + 1)) for i in range(len(ids))])
    # Only the order counts; sums may be rounded differently in another batch.
    if not torch.allclose(together.double(), alone.double(), rtol=1e-4, atol=1e-5):
        raise ContractError(
            f"{name}.cost must not let other words change the costs around a word; costs are kept per row"
        )


def _check_visits(name: str, walks: Tensor, baseline: int) -> None:
    for walk in walks.tolist():
        if walk[0] == baseline:
            if set(walk) != {baseline}:
                raise ContractError(f"{name} must stay at the baseline, got the walk {walk}")
            continue
        before = walk[: walk.index(baseline)] if baseline in walk else walk
        if len(set(before)) < len(before) or set(walk[len(before) :]) > {baseline}:
            raise ContractError(f"{name} must visit no word twice and the baseline last, got the walk {walk}")
