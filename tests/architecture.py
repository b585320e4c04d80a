"""Reads a source tree and says where it breaks the rules of the layers. Knows nothing of what the modules do."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layer:
    """What the modules of one layer may import; names cover themselves and what is below them."""

    sees: tuple[str, ...]
    """Modules of the project."""
    foreign: bool = False
    """Whether packages beside the standard library are allowed."""

    def __str__(self) -> str:
        return f"{', '.join(self.sees)} and {'any package' if self.foreign else 'the standard library only'}"


@dataclass(frozen=True, slots=True)
class Import:
    """One name that one module takes from another."""

    importer: str
    imported: str
    where: str
    """File and line."""


class Tree:
    """The modules of one package and their imports, those for type checkers and within functions included."""

    def __init__(self, root: Path) -> None:
        """`root` is the package's own folder."""
        self.root = root
        self.package = root.name

    @cached_property
    def files(self) -> dict[str, Path]:
        """Every module by its dotted name."""
        found = {}
        for path in sorted(self.root.rglob("*.py")):
            parts = path.relative_to(self.root.parent).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
        return found

    @cached_property
    def sources(self) -> dict[str, ast.Module]:
        """Every module parsed."""
        return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in self.files.items()}

    @cached_property
    def imports(self) -> list[Import]:
        """Every import; of the project's own modules the module itself is named, not what is taken out of it."""
        return [each for name in self.files for each in self._imports_of(name)]

    def _imports_of(self, name: str) -> Iterator[Import]:
        for node in ast.walk(self.sources[name]):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                source = self._absolute(name, node)
                # `from brooq.engine import queue` takes a module, `from brooq.job import State` takes from one.
                known = {f"{source}.{alias.name}" for alias in node.names} & set(self.files)
                targets = sorted(known) + [source] * (len(known) < len(node.names))
            else:
                continue
            for target in targets:
                yield Import(name, target, self.where(name, node))

    def _absolute(self, name: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = name.split(".")
        is_package = self.files[name].name == "__init__.py"
        base = parts[: len(parts) - node.level + is_package]
        return ".".join([*base, node.module] if node.module else base)

    def where(self, name: str, node: ast.AST) -> str:
        """A file and line that an editor can jump to."""
        return f"{self.files[name].relative_to(self.root.parent)}:{getattr(node, 'lineno', 1)}"


def within(name: str, place: str) -> bool:
    """Whether the module is the place or lies below it."""
    return name == place or name.startswith(place + ".")


def layer_of(name: str, layers: Mapping[str, Layer]) -> str | None:
    """The layer with the longest fitting name; None: the module belongs to none. A package alone covers no other."""
    fitting = [place for place in layers if within(name, place) and ("." in place or name == place)]
    return max(fitting, key=len, default=None)


def direction_faults(tree: Tree, layers: Mapping[str, Layer]) -> list[str]:
    """Every import that a layer does not allow, and every module without a layer."""
    faults = [
        f"{tree.where(name, source)}: {name} belongs to no layer; the layers are {', '.join(layers)}"
        for name, source in tree.sources.items()
        if layer_of(name, layers) is None
    ]
    for each in tree.imports:
        place = layer_of(each.importer, layers)
        if place is not None and not _allowed(tree, each.imported, place, layers[place]):
            faults.append(f"{each.where}: {each.importer} imports {each.imported}; {place} may see {layers[place]}")
    return faults


def _allowed(tree: Tree, imported: str, place: str, layer: Layer) -> bool:
    if within(imported, tree.package):
        return any(within(imported, seen) for seen in (*layer.sees, *([place] if "." in place else [])))
    return layer.foreign or imported.partition(".")[0] in sys.stdlib_module_names


def cycle_faults(tree: Tree) -> list[str]:
    """Every group of modules that import each other, with the imports that make it one."""
    edges: dict[str, set[str]] = {name: set() for name in tree.files}
    for each in tree.imports:
        if each.imported in edges and each.imported != each.importer:
            edges[each.importer].add(each.imported)
    faults = []
    for group in _groups(edges):
        inside = sorted(
            {i.where for i in tree.imports if {i.importer, i.imported} <= group and i.importer != i.imported}
        )
        faults.append(f"{', '.join(inside)}: {', '.join(sorted(group))} import each other; imports go one way only")
    return faults


def _groups(edges: Mapping[str, Iterable[str]]) -> list[set[str]]:
    """The cycles: sets of at least two nodes that all reach each other."""
    reach = {name: _reachable(name, edges) for name in edges}
    found: list[set[str]] = []
    for name in edges:
        group = {other for other in reach[name] if name in reach[other]}
        if len(group) > 1 and group not in found:
            found.append(group)
    return found


def _reachable(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(edges[name])
    return seen
