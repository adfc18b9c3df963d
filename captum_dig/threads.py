"""Threads: which changes of a model an explanation makes, and which threads see them.

Every stage that touches a model or caches results follows these rules, which `docs/reference/threads.md` states for
users:

1. A hook acts only in the thread that registered it (`own`, `ThreadLayer`). It ignores other threads, so their
   predictions do not change. It also ignores an explanation inside the hooked call.
2. Explanations by `TextExplainer`, and comparisons, of models that share a module run one at a time (`evaluating`). A
   nested one in the same thread does not wait. Captum's classes change no module, and take no lock.
3. While any of them runs, the modules under a `TextExplainer` are in eval mode and `torch.compile` is off, for every
   thread. Both are restored at the end.
4. A `Lock` guards each cache over a vocabulary. Copies, unpickled objects and forked children get unlocked ones.

A child that is forked while another thread explains drops that explanation, because the thread does not exist there.
"""

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from captum_dig.errors import ModelError


@dataclass(frozen=True, eq=False)
class _Run:
    """An explanation under way.

    Attributes:
        thread: The thread that it runs in.
        modes: The modules that are locked for other threads, each with its mode outside of the explanation.
    """

    thread: int = field(default_factory=threading.get_ident)
    modes: dict[nn.Module, bool] = field(default_factory=dict)

    def restore(self) -> None:
        for module, mode in self.modes.items():
            module.training = mode


class _Turns:
    """The explanations under way in this process; its threads share the modules and the compiler's stance."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._runs: set[_Run] = set()
        # The switch that turned torch.compile off, where it is loaded.
        self._stance: Any = None
        self._depths = threading.local()

    @property
    def depth(self) -> int:
        """The number of nested explanations of this thread."""
        depth: int = getattr(self._depths, "value", 0)
        return depth

    @contextmanager
    def take(self, model: nn.Module | None) -> Iterator[_Run]:
        """Lock the modules of a model for this thread, once no other thread explains one of them."""
        modules = set() if model is None else set(model.modules())
        run, depth = _Run(), self.depth
        # An interrupt may come anywhere: the `try` covers every change, and undoing one twice is harmless.
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._free(run, modules))
                run.modes.update((module, module.training) for module in modules)
                self._runs.add(run)
                self._set_stance()
            self._depths.value = depth + 1
            yield run
        finally:
            self._depths.value = depth
            run.restore()
            with self._changed:
                self._runs.discard(run)
                self._set_stance()
                self._changed.notify_all()

    def forget_other_threads(self) -> None:
        """Drop the explanations of threads that do not exist after a fork."""
        self._changed = threading.Condition()
        for run in [run for run in self._runs if run.thread != threading.get_ident()]:
            run.restore()
            self._runs.discard(run)
        self._set_stance()

    def _free(self, run: _Run, modules: set[nn.Module]) -> bool:
        return all(other.thread == run.thread or modules.isdisjoint(other.modes) for other in self._runs)

    def _set_stance(self) -> None:
        # Compiled code does not look for new hooks. A compiler that is not imported has compiled nothing.
        if self._runs and self._stance is None and "torch._dynamo" in sys.modules:
            self._stance = torch.compiler.set_stance("force_eager")
        elif not self._runs and self._stance is not None:
            self._stance.__exit__(None, None, None)
            self._stance = None


_TURNS: Final = _Turns()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch a model to eval mode, and lock its modules for other explanations.

    Args:
        model: The model. Every module gets its mode back at the end.

    Example:
        >>> model = nn.Sequential(nn.Dropout())
        >>> with evaluating(model):
        ...     print(model.training, model[0].training)
        False False
        >>> model.training, model[0].training
        (True, True)
    """
    with _TURNS.take(model):
        model.eval()
        yield


@contextmanager
def eager() -> Iterator[None]:
    """Turn `torch.compile` off, because compiled code does not see new hooks."""
    with _TURNS.take(None):
        yield


class Lock:
    """A re-entrant lock for a ``with`` statement.

    A copy, an unpickled one and the one in a forked child are unlocked, also while the original is held.

    Example:
        >>> import copy
        >>> lock = Lock()
        >>> with lock, lock, copy.deepcopy(lock):
        ...     pass
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type["Lock"], tuple[()]]:
        return Lock, ()

    def forget_other_threads(self) -> None:
        """Free the lock if its holder does not exist after a fork."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_LOCKS: Final["weakref.WeakSet[Lock]"] = weakref.WeakSet()


def _forget_other_threads() -> None:
    # The threads of PyTorch's and FAISS's pools do not exist in the child either, and waiting for them would never end.
    torch.set_num_threads(1)
    if (faiss := sys.modules.get("faiss")) is not None:
        faiss.omp_set_num_threads(1)
    _TURNS.forget_other_threads()
    for lock in list(_LOCKS):
        lock.forget_other_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


def own(hook: Callable[..., Any]) -> Callable[..., Any]:
    """Make a hook that ignores calls of other threads, and of explanations that begin later.

    Args:
        hook: A forward hook, or a forward pre-hook.

    Returns:
        The hook, for the thread and the explanation that call this function.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> layer = nn.Identity()
        >>> handle = layer.register_forward_hook(own(lambda *_: torch.zeros(1)))
        >>> with ThreadPoolExecutor() as pool:
        ...     layer(torch.ones(1)), pool.submit(layer, torch.ones(1)).result()
        (tensor([0.]), tensor([1.]))
    """
    # Not the thread's number: a later thread may get the same.
    mark = threading.local()
    mark.depth = _TURNS.depth

    def answer(*arguments: Any) -> Any:
        return hook(*arguments) if getattr(mark, "depth", None) == _TURNS.depth else None

    return answer


class ThreadLayer(nn.Module):
    """Stand in for a layer during one call of Captum: hooks act in the thread that registers them.

    Args:
        layer: The layer.
        every_thread: Whether hooks act in every thread: `DataParallel` runs its replicas in threads.

    Example:
        >>> layer = nn.Identity()
        >>> handle = ThreadLayer(layer).register_forward_hook(lambda *_: torch.zeros(1))
        >>> layer(torch.ones(1))
        tensor([0.])
    """

    def __init__(self, layer: nn.Module, *, every_thread: bool = False) -> None:
        super().__init__()
        self.layer = layer
        self._every_thread = every_thread

    def register_forward_hook(self, hook: Callable[..., Any], **options: Any) -> RemovableHandle:
        """Register a forward hook on the layer, which must return tensors."""
        return self.layer.register_forward_hook(self._hook(hook), **options)

    def register_forward_pre_hook(self, hook: Callable[..., Any], **options: Any) -> RemovableHandle:
        """Register a forward pre-hook on the layer, which must be given tensors."""
        return self.layer.register_forward_pre_hook(self._hook(hook), **options)

    def _hook(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        def checked(module: nn.Module, *values: Any) -> Any:
            # Attributions are to the last argument: the output, or the input before it.
            parts = values[-1] if isinstance(values[-1], tuple | list) else (values[-1],)
            if not all(isinstance(part, Tensor) for part in parts):
                got = ", ".join(type(part).__name__ for part in parts)
                raise ModelError(
                    f"a layer must give a tensor, or a tuple of tensors, got ({got}) from {type(module).__name__}; "
                    "choose a layer inside it, or the one behind it"
                )
            return hook(module, *values)

        return checked if self._every_thread else own(checked)
