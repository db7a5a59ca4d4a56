"""Small changes of Python code, each of which makes a program that is wrong, as a rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
CALLED = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "least": "greatest",
    "greatest": "least",
    "nlargest": "nsmallest",
    "floor": "ceil",
    "ceil": "floor",
    "isNull": "isNotNull",
    "isNotNull": "isNull",
}
WORDS = {"left": "right", "right": "left"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one place: ``after`` in place of the characters ``start`` to ``stop`` of a module. ``text`` is its line."""

    line: int
    text: str
    start: int
    stop: int
    after: str

    def of(self, source: str) -> str:
        """The module with the change."""
        return source[: self.start] + self.after + source[self.stop :]

    def key(self, module: str) -> tuple[str, str, str]:
        """What tells mutants apart, whatever lines come before."""
        return module, self.text, self.after


def mutants(source: str) -> Iterator[Mutant]:
    """Return the mutants of a module, in the order of its lines.

    Left alone are docstrings, annotations, imports, assertions, the texts of errors, and constants of modules, most of which
    are sizes that decide nothing but speed.
    """
    starts = [0]
    for text in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(text))
    lines = source.splitlines()

    def offset(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for node, changed in _changes(ast.parse(source)):
        start = offset(node.lineno, node.col_offset)
        stop = offset(node.end_lineno or node.lineno, node.end_col_offset or 0)
        after = f"({ast.unparse(changed)})" if isinstance(node, ast.expr) else ast.unparse(changed)
        yield Mutant(node.lineno, lines[node.lineno - 1].strip(), start, stop, after)


def _changes(tree: ast.Module) -> Iterator[tuple[Any, ast.AST]]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield from _below(statement)


def _below(node: ast.AST) -> Iterator[tuple[Any, ast.AST]]:
    """Yield each place below a node with what replaces it."""
    for name, value in ast.iter_fields(node):
        if name in (
            "annotation",
            "returns",
            "decorator_list",
            "type_params",
            "bases",
            "keywords",
            "args",
        ) and isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AnnAssign):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_left_alone(child):
                continue
            yield from ((child, changed) for changed in _changed(child))
            yield from _below(child)


def _is_left_alone(node: ast.AST) -> bool:
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    in_class = isinstance(node, ast.AnnAssign)
    return is_text or in_class or isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Raise | ast.JoinedStr)


def _changed(node: Any) -> Iterator[ast.AST]:
    changed = deepcopy(node)
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARED:
            changed.ops = [COMPARED[type(operator)]()]
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.BinOp() | ast.AugAssign() if type(node.op) in COMPUTED:
            changed.op = COMPUTED[type(node.op)]()
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub()):
            changed = changed.operand
        case ast.Constant(value=bool()):
            changed.value = not node.value
        case ast.Constant(value=int() | float()):
            changed.value = node.value + 1
        case ast.Constant(value=str()) if node.value in WORDS:
            changed.value = WORDS[node.value]
        case ast.IfExp():
            changed.body, changed.orelse = node.orelse, node.body
        case ast.Call(func=ast.Name(id=name)) if name in CALLED:
            changed.func.id = CALLED[name]
        case ast.Call(func=ast.Attribute(attr=name)) if name in CALLED:
            changed.func.attr = CALLED[name]
        case ast.Expr(value=ast.Call()) | ast.Continue() | ast.Break():
            changed = ast.Pass()
        case _:
            return
    yield changed
