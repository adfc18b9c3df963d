"""The command that lists the names that other commands take."""

from rich.console import Console
from rich.text import Text
from typer import Context

from captum_dig.catalogue import Entry
from captum_dig.cli.app import app
from captum_dig.cli.console import make_console
from captum_dig.entries import KINDS
from captum_dig.visualization import visible

_HEADINGS = {
    "search": "searches (--strategy, --methods)",
    "path": "paths (--strategy, --methods)",
    "method": "methods without a path (--strategy, --methods)",
    "rule": "quadrature rules (--method)",
    "measure": "measures (--measures)",
    "task": "tasks (--task)",
    "format": "formats (--format)",
}
# Where this little is left beside a name, what is said of it stands below it.
_NARROW = 32


@app.command("list", help="List the names that options take, one line each, with those of plug-ins.")
def list_names(context: Context) -> None:
    """List the catalogue."""
    screen = make_console()
    # As in `Catalogue.get`, a later row wins.
    rows = {(entry.kind, entry.name): entry for entry in context.obj}
    names = {key: Text(f"  {visible(entry.name)}", style="cyan") for key, entry in rows.items()}
    below = screen.width - max(name.cell_len for name in names.values()) < _NARROW
    for number, kind in enumerate(KINDS):
        if number:
            screen.print()
        _print(screen, Text(), Text(_HEADINGS[kind], style="bold"), 0)
        here = [key for key in rows if key[0] == kind]
        indent = 4 if below else 2 + max((names[key].cell_len for key in here), default=0)
        for key in here:
            if below:
                screen.print(names[key])
            _print(screen, Text() if below else names[key], _about(rows[key]), indent)


def _print(screen: Console, name: Text, about: Text, indent: int) -> None:
    """Print a name and, from a column on, lines as long as there is room."""
    for line in about.wrap(screen, max(1, screen.width - indent)):
        # Spaces at the end would be copied with the line.
        line.rstrip()
        screen.print(Text.assemble(name, " " * (indent - name.cell_len), line))
        name = Text()


def _about(entry: Entry) -> Text:
    also = f" (also {', '.join(entry.aliases)})" if entry.aliases else ""
    return Text(visible((entry.about or entry.title) + also))
