"""What benchmark scripts share: what they ran on, a clock, and processes of their own whose memory is measured."""

import concurrent.futures
import json
import math
import multiprocessing
import platform
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import captum
import torch
import transformers

from captum_dig import __version__
from captum_dig.metrics import Interval


def environment(device: str = "cpu") -> dict[str, str]:
    """What figures were measured with."""
    import faiss

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "captum": captum.__version__,
        "faiss": faiss.__version__,
        "captum_dig": __version__,
        "machine": platform.machine(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": str(torch.get_num_threads()),
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else "cpu",
    }


def clock(work: Callable[[], Any]) -> float:
    """Seconds that a piece of work takes, the GPU's included."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    started = time.perf_counter()
    work()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - started


def alone(work: Callable[..., Any], *arguments: Any) -> Any:
    """Do a piece of work in a new process, whose memory nothing else has touched."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(max_workers=1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result()


def peak_gb() -> float:
    """The most memory that this process has held so far, in 10^9 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def resident_mb() -> float:
    """The memory of this process, in 10^6 bytes."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def ends(interval: Interval) -> dict[str, float]:
    """Write a mean and its interval."""
    return {"mean": rounded(interval.mean), "low": rounded(interval.low), "high": rounded(interval.high)}


def rounded(number: float) -> float:
    """Keep five digits of a measurement."""
    return float(f"{number:.5g}")


def write(report: dict[str, Any], file: Path | None) -> None:
    """Keep a report as JSON, if there is a file for it; None for what is NaN or infinite, which JSON does not know."""
    if file:
        file.write_text(json.dumps(_finite(report), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
