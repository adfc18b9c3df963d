"""Which task fits a model or a pipeline.

Takes a name, a model's class or a pipeline, and the catalogue; gives a subclass of `Task`.
`captum_dig.text.explainer` makes the task.
"""

from captum_dig.catalogue import Catalogue
from captum_dig.errors import ModelError
from captum_dig.tasks.base import Task


def choose_task(task: str | type[Task], catalogue: Catalogue, model: object) -> type[Task]:
    """Look up a task.

    Args:
        task: A name of the catalogue, or a subclass of `Task`. ``"auto"`` is the first task for the model's class, or
            the first of the catalogue where the class tells nothing.
        catalogue: The catalogue.
        model: The model, or the name of its class.

    Returns:
        The task.

    Raises:
        ValueError: If there is no such task.

    Example:
        >>> from captum_dig.catalogue import CATALOGUE
        >>> choose_task("auto", CATALOGUE, "BertForTokenClassification").__name__
        'TokenTask'
    """
    if isinstance(task, type) and issubclass(task, Task):
        return task
    if task != "auto":
        found: type[Task] = catalogue.find(task, "task", argument="task", remedy="or 'auto'").load()
        return found
    names = [model] if isinstance(model, str) else [kind.__name__ for kind in type(model).__mro__]
    # Every model of Transformers is one of these.
    names = [name for name in names if not name.endswith("PreTrainedModel")]
    tasks = _tasks(catalogue)
    suited = (one for one in tasks if any(name.endswith(one.classes()) for name in names))
    return next(suited, tasks[0])


def task_of_pipeline(pipeline: object, catalogue: Catalogue) -> type[Task]:
    """Look up the task that a pipeline of Transformers is for.

    Args:
        pipeline: The pipeline.
        catalogue: The catalogue.

    Returns:
        The task.

    Raises:
        ModelError: If there is no task for it.
    """
    tasks = _tasks(catalogue)
    names = [kind.__name__ for kind in type(pipeline).__mro__]
    found = next((one for one in tasks if one.pipeline in names), None)
    if found is None:
        known = ", ".join(dict.fromkeys(one.pipeline for one in tasks if one.pipeline))
        raise ModelError(f"pipeline must be one of {known}, got {type(pipeline).__name__}")
    return found


def _tasks(catalogue: Catalogue) -> list[type[Task]]:
    """All tasks of a catalogue, in order."""
    return [entry.load() for entry in catalogue if entry.kind == "task"]
