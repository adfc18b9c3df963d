"""convergence_report: the causes of a delta, and their remedies.

Takes an attribution method and its arguments; gives a `ConvergenceReport`. It says how much of the delta comes from too
few gradients, and how much from a path that does not begin at the baseline. No other module builds on it.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from captum.attr import IntegratedGradients, LayerIntegratedGradients
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from captum_dig._captum import (
    BaselineType,
    TargetType,
    format_additional_forward_args,
    format_input_baseline,
    run_forward,
    tensorize_baseline,
)
from captum_dig.attribution.forward import checked
from captum_dig.attribution.inputs import DiscretizedIntegratedGradients
from captum_dig.attribution.layer import LayerDiscretizedIntegratedGradients, by_example
from captum_dig.attribution.watching import alone, recorded, same
from captum_dig.threads import eager, own

Method = IntegratedGradients | DiscretizedIntegratedGradients | LayerIntegratedGradients
Tensors = tuple[Tensor, ...]

# Rounding of one forward pass, relative to the size of its output.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class ConvergenceReport:
    """The parts of each example's delta: ``delta = quadrature_error + endpoint_mismatch``.

    Attributes:
        quadrature_error: The attributions' sum minus the change of the output along the path. More steps make it
            smaller.
        endpoint_mismatch: The change of the output along the path minus the difference between the outputs at inputs
            and baselines. No number of steps makes it smaller: the model at the baselines is not the model where the
            path begins.
        output_change: The output at the inputs minus that at the baselines.
        n_steps: Gradient evaluations for each example.
        tolerance_percent: The largest delta of a converged example, in percent of the output's change.
        source: The cause of the endpoint mismatch; None where the ends agree.
        remedy: The change to make; None where every example has converged.
        error_percent: The estimated error of the integration, in percent of the attributions' sizes, of
            `DiscretizedIntegratedGradients` with known sums. Their quadrature error is 0 by construction, and tells
            nothing. None for the others.

    Example:
        >>> report = ConvergenceReport((0.5,), (0.0,), (10.0,), n_steps=50, tolerance_percent=1.0)
        >>> report.delta_percent, report.converged
        ((5.0,), False)
    """

    quadrature_error: tuple[float, ...]
    endpoint_mismatch: tuple[float, ...]
    output_change: tuple[float, ...]
    n_steps: int
    tolerance_percent: float
    source: str | None = None
    remedy: str | None = None
    error_percent: tuple[float, ...] | None = None

    @property
    def delta(self) -> tuple[float, ...]:
        """Captum's convergence delta of each example."""
        return tuple(map(sum, zip(self.quadrature_error, self.endpoint_mismatch, strict=True)))

    @property
    def delta_percent(self) -> tuple[float, ...]:
        """The size of each delta, in percent of the output's change; infinite where the output does not change."""
        return _percent(self.delta, self.output_change)

    @property
    def converged(self) -> bool:
        """Whether the delta of every example, and its estimated error if there is one, is within the tolerance."""
        return all(percent <= self.tolerance_percent for percent in (*self.delta_percent, *(self.error_percent or ())))

    def __str__(self) -> str:
        """Lay the examples out in a table, with the source and the remedy below."""
        lines = ["example   delta %   quadrature %   endpoints %   output change"]
        parts = (
            self.delta_percent,
            _percent(self.quadrature_error, self.output_change),
            _percent(self.endpoint_mismatch, self.output_change),
            self.output_change,
        )
        for number, values in enumerate(zip(*parts, strict=True)):
            cells = (f"{value:{width}.3g}" for value, width in zip(values, (10, 15, 14, 16), strict=True))
            lines.append(f"{number:7}{''.join(cells)}")
        if self.error_percent is not None:
            shown = ", ".join(f"{error:.3g}" for error in self.error_percent)
            lines.append(f"estimated error of the integration, in place of a quadrature error: {shown} %")
        verdict = f"converged within {self.tolerance_percent:g} %" if self.converged else "not converged"
        lines.append(f"{self.n_steps} steps: {verdict}")
        lines += [f"{name}: {text}" for name, text in (("source", self.source), ("remedy", self.remedy)) if text]
        return "\n".join(lines)


def convergence_report(
    attribution_method: Method,
    inputs: Tensor | Tensors,
    baselines: BaselineType = None,
    target: TargetType = None,
    additional_forward_args: object | None = None,
    n_steps: int = 50,
    *,
    tolerance_percent: float = 5.0,
    **arguments: Any,
) -> ConvergenceReport:
    """Attribute, and split each delta into a part that more steps repair and one that they do not.

    Takes `n_steps` gradients and a handful of forward passes. The model is also run where the path of a layer begins:
    on the inputs, with the layer's output replaced by that for the baselines.

    Args:
        attribution_method: `DiscretizedIntegratedGradients`, `LayerDiscretizedIntegratedGradients`, or Captum's
            `IntegratedGradients` or `LayerIntegratedGradients`.
        inputs: As for its `attribute`.
        baselines: As for its `attribute`.
        target: As for its `attribute`.
        additional_forward_args: As for its `attribute`.
        n_steps: Gradient evaluations for each example, at least 1.
        tolerance_percent: The largest delta that counts as converged, in percent of the output's change; by default the
            paper's.
        arguments: Further arguments of its `attribute`, such as `method` and `internal_batch_size`.

    Returns:
        The report, with one number for each example.

    Raises:
        TypeError: If `attribution_method` is something else.
        ValueError: If `tolerance_percent` is not positive, or attributions are to the layer's input.

    Example:
        >>> from captum_dig import StraightLine
        >>> dig = DiscretizedIntegratedGradients(lambda x: (x**3).sum(dim=1), StraightLine())
        >>> report = convergence_report(dig, torch.tensor([[1.0, 2.0]]), n_steps=1)
        >>> report.quadrature_error, report.endpoint_mismatch, report.converged
        ((-2.25,), (0.0,), False)

    References:
        Sanyal and Ren (2021), section 4.3 and equation 6 [sanyal-ren-2021].
    """
    if not isinstance(attribution_method, Method):
        raise TypeError(
            "attribution_method must be IntegratedGradients, DiscretizedIntegratedGradients or a layer's, "
            f"got {type(attribution_method).__name__}"
        )
    if not tolerance_percent > 0:
        raise ValueError(f"tolerance_percent must be positive, got {tolerance_percent}")
    if arguments.get("attribute_to_layer_input"):
        raise ValueError("attribute_to_layer_input must be False, got True; report on the layer before")
    method: Any = attribution_method
    if isinstance(method, LayerIntegratedGradients) and not isinstance(method, LayerDiscretizedIntegratedGradients):
        method = alone(method)
    given = (inputs, baselines, target, additional_forward_args, n_steps)
    errors: tuple[float, ...] | None = None
    with eager(), ExitStack() as without_gradients:
        if isinstance(method, DiscretizedIntegratedGradients):
            integral = method.integrate(*given, **{"method": "gausslegendre", **arguments})
            attributions = integral.attributions
            errors = None if integral.error_percent is None else tuple(integral.error_percent.tolist())
        else:
            attributions = method.attribute(*given, **arguments)
        without_gradients.enter_context(torch.no_grad())
        ends = _Ends(attribution_method, inputs, baselines, target, additional_forward_args)
        at_input, at_baseline, start, end = ends.outputs()
        delta = _sums(attributions, len(at_input)) - (at_input - at_baseline)
        mismatch = (end - start) - (at_input - at_baseline)
        # A difference within rounding is none.
        size = torch.stack([at_input, at_baseline, start, end]).abs().amax(dim=0)
        mismatch = torch.where(mismatch.abs() <= 4 * _ROUNDING * size, 0.0, mismatch)
        source, cure = ends.source() if bool((mismatch != 0).any()) else (None, None)
    change = (at_input - at_baseline).tolist()
    quadrature = (delta - mismatch).tolist()
    remedies = [cure] if cure else []
    if max(*_percent(quadrature, change), *(errors or ()), 0.0) > tolerance_percent:
        remedies.append(
            f"raise n_steps above {n_steps}; "
            "where that helps little, take a baseline at which the model is smooth: "
            "an embedding of zeros is not, for models that divide by its length"
        )
    return ConvergenceReport(
        tuple(quadrature),
        tuple(mismatch.tolist()),
        tuple(change),
        n_steps,
        tolerance_percent,
        source,
        "; ".join(remedies) or None,
        errors,
    )


def _sums(attributions: Any, n_examples: int) -> Tensor:
    """The sum for each example over all layers and tensors, shape (B,)."""
    if isinstance(attributions, Tensor):
        return by_example(attributions, n_examples).sum(dim=1)
    return torch.stack([_sums(part, n_examples) for part in attributions]).sum(dim=0)


class _Ends:
    """The model at both ends of the paths: run on the baselines, and run by the attribution method."""

    def __init__(
        self, method: Method, inputs: Any, baselines: BaselineType, target: TargetType, additional: object | None
    ) -> None:
        self._forward: Callable[..., Any] = checked(method.forward_func)
        layers: Any = method.layer if isinstance(method, LayerIntegratedGradients) else []
        self._layers: list[nn.Module] = layers if isinstance(layers, list) else [layers]
        self._inputs, starts = format_input_baseline(inputs, baselines)
        self._baselines: Tensors = tensorize_baseline(self._inputs, starts)
        self._target = target
        self._extra = format_additional_forward_args(additional)

        # The outputs of each layer in every call, and the output of the model.
        self._input_calls, self._at_input = self._watched(self._inputs)
        calls, self._at_baseline = self._watched(self._baselines)
        # Of several calls Captum takes the last.
        self._starts = [outputs[-1] for outputs in calls]

    def outputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The output at inputs and baselines, and where paths begin and end, shape (B,) each."""
        if not self._layers:
            return self._at_input, self._at_baseline, self._at_baseline, self._at_input
        ends = [outputs[-1] for outputs in self._input_calls]
        start, end = self._run(self._inputs, self._starts), self._run(self._inputs, ends)
        return self._at_input, self._at_baseline, start, end

    def source(self) -> tuple[str, str]:
        """Name the cause of the mismatch, and the remedy."""
        if not torch.equal(self._run(self._inputs), self._at_input):
            return "the model gives other outputs at every call", "call model.eval()"
        for layer, outputs in zip(self._layers, self._input_calls, strict=True):
            if not all(same(outputs[0], other, _ROUNDING) for other in outputs[1:]):
                return (
                    f"{type(layer).__name__} is called {len(outputs)} times with different arguments, "
                    "and all calls get the same point of the path",
                    "attribute to layers that are called once",
                )
        return self._argument() or self._module()

    def _argument(self) -> tuple[str, str] | None:
        """Which of several inputs changes from baseline to input, but not along the path."""
        if len(self._inputs) < 2:
            return None
        for i, baseline in enumerate(self._baselines):
            mixed = (*self._inputs[:i], baseline, *self._inputs[i + 1 :])
            if not torch.equal(baseline, self._inputs[i]) and same(
                self._run(mixed, self._starts), self._at_baseline, _ROUNDING
            ):
                return (
                    f"inputs[{i}] differs at the baseline, but does not move along the path",
                    "pass it in additional_forward_args, the same for both",
                )
        return None

    def _module(self) -> tuple[str, str]:
        """The first module whose output at the baselines differs from that where the paths begin."""
        inside = {id(module) for layer in self._layers for module in layer.modules()}
        seen: list[tuple[nn.Module, Any]] = []
        with _watching(lambda module, output: seen.append((module, output))):
            self._run(self._baselines)
        changed: list[nn.Module] = []
        place = iter(seen)

        def compare(module: nn.Module, output: Any) -> None:
            other, expected = next(place, (None, None))
            if (
                not changed
                and id(module) not in inside
                and (other is not module or not same(output, expected, _ROUNDING))
            ):
                changed.append(module)

        with _watching(compare):
            self._run(self._inputs, self._starts)
        root = seen[-1][0] if seen else None
        # Modules end before the module around them, so the outermost comes last.
        if not changed or changed[0] is root:
            return (
                "the position of the output that the model uses depends on the ids: the last token that is not "
                "padding is pooled",
                "take a baseline that leaves the pooled position as it is, such as a mask token",
            )
        name = _name(changed[0], root)
        if isinstance(changed[0], nn.Embedding):
            return (
                f"{name} looks up other rows for the baseline's ids: positions, or a second table of words",
                "pass what it looks up explicitly in additional_forward_args (position_ids), or attribute to both "
                "tables, layer=[one, other]",
            )
        return (
            f"{name} is the first module whose output depends on the ids themselves: on a mask made from them, "
            "or on the position that is pooled",
            "pass the attention mask explicitly in additional_forward_args, and take a baseline that leaves the pooled "
            "position as it is",
        )

    def _run(self, inputs: Tensors, layer_outputs: list[Any] | None = None) -> Tensor:
        """The output, with those of the layers replaced if there are any; summed for each example, as Captum does."""
        with ExitStack() as hooks:
            for layer, answer in zip(self._layers, layer_outputs or [], strict=False):
                hooks.callback(layer.register_forward_hook(own(lambda *_, answer=answer: answer)).remove)
            output: Any = run_forward(self._forward, inputs, self._target, self._extra)
        summed: Tensor = output.reshape(len(output), -1).sum(dim=1)
        return summed

    def _watched(self, inputs: Tensors) -> tuple[list[list[Any]], Tensor]:
        """The outputs of each layer in every call, and the output of the model."""
        with recorded(self._layers) as runs:
            output = self._run(inputs)
        return [[answer for _, answer in calls] for calls in runs], output


@contextmanager
def _watching(see: Callable[[nn.Module, Any], None]) -> Iterator[None]:
    """Call a function with the output of every module that this thread runs."""
    # A hook that returns None leaves the output as it is.
    handle = register_module_forward_hook(own(lambda module, _arguments, output: see(module, output)))
    try:
        yield
    finally:
        handle.remove()


def _name(module: nn.Module, root: nn.Module | None) -> str:
    names = {id(part): name for name, part in root.named_modules()} if root is not None else {}
    return names.get(id(module)) or type(module).__name__


def _percent(parts: Any, changes: Any) -> tuple[float, ...]:
    return tuple(
        0.0 if part == 0 else math.inf if change == 0 else 100 * abs(part / change)
        for part, change in zip(parts, changes, strict=True)
    )
