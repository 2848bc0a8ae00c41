"""Checks of annotations at run time: types by beartype, and shapes that agree within a call by jaxtyping.

jaxtyping's own hook checks the arguments twice and binds them in each call of each function, which took half
of the time of the tests of evaluation. Here a function without arrays has the check of its types alone.
"""

import ast
import functools
import inspect
import sys
from dataclasses import is_dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder, SourceFileLoader
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

# An int is accepted as a float, as in PEP 484.
_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Any) -> Any:
    """Check the annotations of a function, or of the fields of a dataclass, unless jaxtyping is disabled."""
    if inspect.isclass(function):
        if is_dataclass(function) and "__init__" in vars(function):
            function.__init__ = checked(function.__init__)
        return function
    written = function.__annotations__
    hints = {name: _resolved(one, function.__globals__) for name, one in written.items()}
    shapes = [shape for one in hints.values() for shape in _shapes(one)]
    # A size may be an argument, and a generator begins after its call.
    if any("{" in shape for shape in shapes) or inspect.isgeneratorfunction(function):
        return jaxtyping.jaxtyped(function, typechecker=_beartype)
    function.__annotations__ = hints
    checks = _beartype(function)
    function.__annotations__ = written

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        return (function if jaxtyping.config.jaxtyping_disable else checks)(*args, **named)

    @functools.wraps(function)
    def call_with_shapes(*args: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return function(*args, **named)
        with jaxtyping.jaxtyped("context"):  # sizes of one name are equal in it
            return checks(*args, **named)

    return call_with_shapes if shapes else call


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """Look up the names in an annotation; one that is defined later may be anything."""

    def function(value: annotation) -> None: ...

    try:
        return get_type_hints(function, names, include_extras=True)["value"]
    except (NameError, AttributeError, TypeError):
        return Any


def _shapes(annotation: Any) -> list[str]:
    """List the shapes of the arrays in an annotation."""
    if inspect.isclass(annotation) and issubclass(annotation, jaxtyping.AbstractArray):
        return [annotation.dim_str]
    return [shape for one in get_args(annotation) for shape in _shapes(one)]


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> Any:
        """Compile the source with `checked` nearest to each function, and before `dataclass`."""
        path = self.get_filename(fullname)
        tree = ast.parse(self.get_data(path), path)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                place = len(node.decorator_list) if isinstance(node, ast.FunctionDef) else 0
                name = ast.copy_location(ast.Name("_checked_annotations", ast.Load()), node)
                node.decorator_list.insert(place, name)
        return compile(tree, path, "exec", dont_inherit=True)

    def exec_module(self, module: Any) -> None:
        module._checked_annotations = checked
        super().exec_module(module)


class CheckedModules(MetaPathFinder):
    """Find modules whose annotations are checked."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Give a module of the names the loader that decorates it."""
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self.names else None
        if spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


def check_annotations(names: set[str]) -> None:
    """Check the annotations of modules that are not imported yet."""
    sys.meta_path.insert(0, CheckedModules(names))
