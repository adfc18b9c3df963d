"""Schedules on knots that a test has made."""

from captum_dig.paths import Knots, Together
from captum_dig.quadrature import Schedule


def schedule_on(knots, method, spacing, n_steps, n_paths=1):
    """A schedule on the paths of one or several inputs, which stand one behind the other, (R * P, B, ...) each."""
    return Schedule.on([Together(tuple(map(Knots, knots)), n_paths)], method, spacing, n_steps)
