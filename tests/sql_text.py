"""Finds SQL in Python source: text that is SQL at all, and statements put together where they are executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture import Tree, within

_SQL = re.compile(
    r"""\bselect\b[^.;]*\bfrom\s+\w | ^\s*select\s+\S+\s*;?\s*$ | \binsert\s+into\b | \bdelete\s+from\s+\w
    | \bupdate\s+[\w".]+\s+set\b | \b(create|alter|drop)\s+(unique\s+)?(table|index|schema|type|function|trigger)\b
    | \bfor\s+(no\s+key\s+)?update\b | \bskip\s+locked\b | \bpg_(notify|try_advisory|advisory|stat|catalog)\w*
    | ^\s*(listen|notify|begin|commit|rollback)\s*;?\s*$""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_EXECUTE = frozenset({"execute", "executemany", "fetch", "fetchrow", "fetchval", "stream", "copy", "SQL"})


def sql_faults(tree: Tree, home: str) -> list[str]:
    """Every string outside `home` that is SQL; docstrings may talk about it."""
    return [
        f"{tree.where(name, node)}: {name} holds SQL text; it belongs to {home}"
        for name, source in tree.sources.items()
        if not within(name, home)
        for node in _texts(source)
        if _SQL.search(str(node.value))
    ]


def _texts(source: ast.Module) -> Iterator[ast.Constant]:
    prose = {id(node.value) for node in ast.walk(source) if isinstance(node, ast.Expr)}
    for node in ast.walk(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node


def composition_faults(tree: Tree, home: str) -> list[str]:
    """Every statement in `home` that is put together from strings where it is executed or made a `sql.SQL`.

    psycopg's own composition, `sql.SQL(constant).format(sql.Identifier(name))`, quotes and is allowed.
    """
    return [
        f"{tree.where(name, call)}: {name} puts a statement together; it is a constant, names go in with sql.Identifier"
        for name, source in tree.sources.items()
        if within(name, home)
        for call in _composed_calls(source)
    ]


def _composed_calls(source: ast.Module) -> Iterator[ast.Call]:
    functions = [node for node in ast.walk(source) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    outside = [
        node for node in source.body if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    of_module = _composed_names(ast.Module(outside, []), set())
    seen: set[int] = set()
    for scope in (*reversed(functions), source):
        composed = of_module | (_composed_names(scope, of_module) if scope is not source else set())
        for node in ast.walk(scope):
            if isinstance(node, ast.Call) and id(node) not in seen and _is_composed_call(node, composed):
                seen.add(id(node))
                yield node


def _composed_names(scope: ast.AST, known: set[str]) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=targets, value=value) if _is_composed(value, known):
                names.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AugAssign(target=ast.Name(id=name), value=value) if _is_text(value, known):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if _is_composed(value, known):
                names.add(name)
            case ast.NamedExpr(target=ast.Name(id=name), value=value) if _is_composed(value, known):
                names.add(name)
    return names


def _is_composed_call(call: ast.Call, composed: set[str]) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    statements = [*call.args[:1], *(word.value for word in call.keywords if word.arg in {"query", "sql"})]
    return name in _EXECUTE and any(_is_joined(each) or _is_composed(each, composed) for each in statements)


def _is_joined(node: ast.expr) -> bool:
    """`a + b` or `a % b` where nothing shows that psycopg's own parts are meant."""
    parts = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
    return isinstance(node, ast.BinOp) and not any(
        getattr(part.func, "attr", "") in {"SQL", "Identifier"} for part in parts
    )


def _is_composed(node: ast.expr, composed: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in composed
        case ast.JoinedStr(values=values):
            return any(isinstance(value, ast.FormattedValue) for value in values)
        case ast.BinOp(op=ast.Add() | ast.Mod(), left=left, right=right):
            return _is_text(left, composed) or _is_text(right, composed)
        case ast.Call(func=ast.Attribute(value=receiver, attr="format" | "join")):
            return _is_text(receiver, composed)
        case ast.Call(func=ast.Attribute(value=receiver, attr="encode" | "strip")):
            return _is_composed(receiver, composed)
        case ast.IfExp(body=body, orelse=orelse):
            return _is_composed(body, composed) or _is_composed(orelse, composed)
    return False


def _is_text(node: ast.expr, composed: set[str]) -> bool:
    return (isinstance(node, ast.Constant) and isinstance(node.value, str)) or _is_composed(node, composed)
