"""Attribution methods by name: ours and Captum's, asked the same question."""

from captum_dig.methods.base import METHODS, AttributionMethod, Budget, LeaveOneOut, PathMethod, Task

__all__ = ["METHODS", "AttributionMethod", "Budget", "LeaveOneOut", "PathMethod", "Task"]
