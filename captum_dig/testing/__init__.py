"""Contracts for plug-ins: the promises of each seam, as functions for your tests.

Takes an object of your class and test data; raises a `ContractError` that names a broken promise. A seam itself checks
the result of every single call. The contracts also compare several calls.
"""

from captum_dig.testing.contract import ContractError
from captum_dig.testing.measures import check_measure
from captum_dig.testing.methods import check_method
from captum_dig.testing.paths import check_anchor_search, check_path
from captum_dig.testing.tasks import check_task

__all__ = ["ContractError", "check_anchor_search", "check_measure", "check_method", "check_path", "check_task"]
