"""Options that several commands share, and the checks of what is typed."""

from collections.abc import Callable, Collection
from typing import Annotated, Any

from typer import CallbackParam, Context, Option

from captum_dig.catalogue import CATALOGUE, Catalogue, Entry
from captum_dig.checks import integer, one_of
from captum_dig.entries import Kind

CANDIDATES = ("words", "all")
PROTOCOLS = {"default": ("default",), "paper": ("paper",), "both": ("default", "paper")}
# A knot of a path for each anchor: 1,000 take some 250 MB for a text of 100 tokens.
MOST_ANCHORS = 1_000
# Gauss-Legendre nodes take seconds to find at 20,000.
MOST_STEPS = 20_000

DTYPES = ("float32", "float16", "bfloat16")

# Values that are no text.
_TYPED = {"true": True, "false": False}

TRUST = Option("--trust-remote-code", help="Run Python code that comes with the model; read it first.")


def named(
    meaning: str,
    *kinds: Kind,
    option: str | None = None,
    where: Callable[[Entry], bool] = lambda _: True,
    others: Collection[str] = (),
) -> Any:
    """Make an option that is a name of the catalogue, with the entries of plug-ins.

    Args:
        meaning: The beginning of the help, which goes on with the names.
        kinds: Where to look the name up.
        option: How the option is typed; None for the name of the argument.
        where: Which of these entries count.
        others: Further values, which stand for none of the names.
    """

    def check(context: Context, parameter: CallbackParam, value: str | None) -> str | None:
        return value if value is None or value in others else _found(context.obj, parameter, value, kinds, where)

    typed = () if option is None else (option,)
    return Option(*typed, help=f"{meaning}: {_listed(kinds, where)}.", metavar="NAME", callback=check)


def several(meaning: str, *kinds: Kind, default: str | None = None) -> Any:
    """Make an option that is names of the catalogue, with commas between or given several times.

    Args:
        meaning: The beginning of the help, which goes on with the names.
        kinds: Where to look the names up.
        default: How the help calls the names that a comparison takes; the option is these where it is not given. None
            for an option with a default of its own.
    """

    def check(context: Context, parameter: CallbackParam, values: list[str] | None) -> list[str]:
        if not values and default is not None:
            return list(context.obj.defaults(*kinds))
        names = [name.strip() for value in values or () for name in value.split(",") if name.strip()]
        if not names:
            raise ValueError(f"{parameter.opts[0]} must hold at least one name, got {','.join(values or ())!r}")
        return [_found(context.obj, parameter, name, kinds) for name in names]

    shown: bool | str = True if default is None else default
    meaning = f"{meaning}, with commas between: {_listed(kinds)}."
    return Option(help=meaning, metavar="NAMES", callback=check, show_default=shown)


def chosen(meaning: str, names: Collection[str]) -> Any:
    """Make an option that is one of a few words."""

    def check(parameter: CallbackParam, value: str) -> str:
        return one_of(parameter.opts[0], value, names)

    return Option(help=f"{meaning}: {', '.join(names)}.", metavar="NAME", callback=check)


def pairs(meaning: str, option: str, metavar: str) -> Any:
    """Make an option of pairs NAME=VALUE, which may be given several times."""

    def check(parameter: CallbackParam, values: list[str] | None) -> list[str]:
        for value in values or ():
            if not value.partition("=")[0].strip() or "=" not in value:
                raise ValueError(f"{parameter.opts[0]} must be {metavar}, got {value!r}")
        return values or []

    return Option(option, help=f"{meaning}; may be given several times.", metavar=metavar, callback=check)


def paired(values: Collection[str] | None) -> dict[str, str]:
    """Split pairs NAME=VALUE."""
    return {name.strip(): value for name, _, value in (value.partition("=") for value in values or ())}


def columns_of(values: list[str] | None) -> str | dict[str, str] | None:
    """Read the columns of a table: one name, or a pair FIELD=NAME for each field."""
    if not values:
        return None
    if len(values) == 1 and "=" not in values[0]:
        return values[0]
    for value in values:
        if "=" not in value:
            raise ValueError(f"--column must be FIELD=NAME where there are several, got {value!r}")
    return paired(values)


def task_options(
    task: str, labels: str | None, scored: Collection[str] | None, others: Collection[str] | None
) -> dict[str, Any]:
    """Collect the arguments of a task; labels of one's own mean the task that takes them."""
    options: dict[str, Any] = {
        name: _TYPED.get(value.casefold(), int(value) if value.isdecimal() else value)
        for name, value in paired(others).items()
    }
    if labels is not None:
        options["labels"] = labels
        task = "zero_shot" if task == "auto" else task
    if scored:
        options["fields"] = list(scored)
    return {"task": task, **options}


def count(meaning: str, most: int | None = None) -> Any:
    """Make an option that is a number from 1 to the most."""

    def check(parameter: CallbackParam, value: int) -> int:
        return _no_more(parameter, integer(parameter.opts[0], value, at_least=1), most)

    return Option(help=f"{meaning}.", metavar="N", callback=check)


def steps(meaning: str) -> Any:
    """Make an option that is a number of at least 1, or auto."""

    def check(parameter: CallbackParam, value: Any) -> Any:
        if value == "auto":
            return value
        # Python reads no longer numbers, and nobody means them.
        if not value.isdecimal() or len(value) > 4000 or int(value) < 1:
            raise ValueError(f"{parameter.opts[0]} must be auto or an integer of at least 1, got {value!r}")
        return _no_more(parameter, int(value), MOST_STEPS)

    return Option(help=f"{meaning}.", metavar="N|auto", callback=check)


def file_option(name: str, meaning: str, panel: str | None = None) -> Any:
    """Make an option that is a file to read or write."""
    # Not `readable`: Typer would ask that of outputs too, and in its own words.
    return Option(name, help=meaning, metavar="FILE", readable=False, rich_help_panel=panel)


def _listed(kinds: tuple[Kind, ...], where: Callable[[Entry], bool] = lambda _: True) -> str:
    return ", ".join(Catalogue(tuple(filter(where, CATALOGUE))).names(*kinds))


def _found(
    catalogue: Catalogue,
    parameter: CallbackParam,
    name: str,
    kinds: tuple[Kind, ...],
    where: Callable[[Entry], bool] = lambda _: True,
) -> str:
    """Check a name; dashes are as good as underscores, and results keep an alias as it is."""
    known = Catalogue(tuple(filter(where, catalogue)))
    for spelled in (name, name.replace("-", "_")):
        if known.get(spelled, *kinds) is not None:
            return spelled
    remedy = "captum-dig list says what each does, and --plugin FILE adds names of your own"
    known.find(name, *kinds, argument=parameter.opts[0], remedy=remedy)
    return name


def _no_more(parameter: CallbackParam, value: int, most: int | None) -> int:
    if most is not None and value > most:
        raise ValueError(f"{parameter.opts[0]} must be at most {most}, got {value}; more take hours, or all memory")
    return value


TaskName = Annotated[str, named("What is explained; auto: by the class of the model", "task", others=("auto",))]
OwnLabels = Annotated[
    str | None,
    Option(help="Labels of your own, for a model of natural language inference.", metavar="A,B", show_default="none"),
]
ScoredFields = Annotated[
    list[str] | None, Option(help="Score the words of this field only.", metavar="FIELD", show_default="all")
]
Device = Annotated[
    str,
    Option(help="Where the model runs: auto (a GPU if there is one), cpu, cuda, cuda:1, mps.", metavar="NAME"),
]
