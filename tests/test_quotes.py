"""Each function that a notebook quotes is the library's own, word for word (docstring, comments and layout aside).

A quote is a code cell tagged `quote`: its first line names the object (`# grpo_lib.module.name`), the rest is its
source.
"""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def find_quotes(path):
    """[(cell number, source)] of the cells tagged `quote`."""
    cells = nbformat.read(path, as_version=4).cells
    return [(i, cell.source) for i, cell in enumerate(cells) if "quote" in cell.metadata.get("tags", [])]


def library_source(name):
    """The source of `grpo_lib.module.name` or `grpo_lib.module.Class.method`."""
    package, module, *attributes = name.split(".")
    value = importlib.import_module(f"{package}.{module}")
    for attribute in attributes:
        value = getattr(value, attribute)
    return textwrap.dedent(inspect.getsource(value))


def meaning(source):
    """The syntax tree of one definition as text, without docstrings."""
    tree = ast.parse(textwrap.dedent(source))
    assert len(tree.body) == 1, f"a quote holds one definition and nothing else, got {len(tree.body)} statements"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree, indent=1)


def check_quote(source):
    """Raise AssertionError unless the cell's source quotes the library."""
    first, _, quoted = source.partition("\n")
    named = re.fullmatch(r"# (grpo_lib(?:\.\w+){2,})", first.strip())
    assert named, f"a quote's first line is `# grpo_lib.module.name`, got {first!r}"
    assert meaning(quoted) == meaning(library_source(named[1])), f"the quote differs from {named[1]}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_quotes_are_the_library_s_own(path):
    for number, source in find_quotes(path):
        try:
            check_quote(source)
        except AssertionError as error:
            raise AssertionError(f"{path.name}, cell {number}: {error}") from error


def test_the_book_quotes_the_library():
    assert sum(len(find_quotes(path)) for path in NOTEBOOKS) > 0


QUOTED = "grpo_lib.advantages.group_advantages"


def other_sign(tree):
    next(node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)).op = ast.Add()


def other_default(tree):
    tree.body[0].args.kw_defaults[-1] = ast.Constant(1e-8)


def other_name(tree):
    tree.body[0].name += "_mine"


def missing_line(tree):
    del tree.body[0].body[-1]


def second_statement(tree):
    tree.body.append(ast.parse("beta = 0.1").body[0])


@pytest.mark.parametrize("change", [other_sign, other_default, other_name, missing_line, second_statement])
def test_a_changed_quote_is_caught(change, tmp_path):
    tree = ast.parse(library_source(QUOTED))
    check_quote(f"# {QUOTED}\n{ast.unparse(tree)}")
    change(tree)
    cell = nbformat.v4.new_code_cell(f"# {QUOTED}\n{ast.unparse(tree)}", metadata={"tags": ["quote"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "01_changed.ipynb")
    with pytest.raises(AssertionError, match=r"01_changed.ipynb, cell 0: (the quote differs from|a quote holds one)"):
        test_quotes_are_the_library_s_own(tmp_path / "01_changed.ipynb")


def test_docstring_comments_and_layout_are_free():
    source = library_source(QUOTED)
    docstring = ast.get_docstring(ast.parse(source).body[0], clean=False)
    check_quote(
        f"# {QUOTED}\n"
        + source.replace(docstring, "In my words.").replace("\n    return", "\n\n    # done\n    return")
    )


def test_a_quote_that_names_nothing_is_caught():
    with pytest.raises(AssertionError, match="first line is"):
        check_quote(library_source(QUOTED))
