"""Which functions of a project are tools of its agent, found in its source.

A framework's tools are frozen where the framework runs them, so they need no line in the ini file. A function that the
project calls itself does: one that is registered by name (`TOOLS = {...}`, `tools=[...]`), or that a schema for the
model names. What is found is a proposal; a recording reports tools that ran unseen.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_agentreplay.cli.project_setup.project_modules import Module, ProjectModules

FRAMEWORKS = {
    "langchain": "LangChain",
    "langchain_core": "LangChain",
    "langgraph": "LangChain",
    "agents": "OpenAI Agents SDK",
    "pydantic_ai": "pydantic-ai",
    "smolagents": "smolagents",
    "llama_index": "LlamaIndex",
    "crewai": "crewai",
    "google.genai": "google-genai",
    "anthropic": "anthropic",
    "claude_agent_sdk": "Claude Agent SDK",
    "mcp": "MCP",
    "fastmcp": "MCP",
}
"""Package -> framework whose tools are intercepted where it runs them: those that `intercept.registry` names."""
DECORATORS = {"tool", "tool_plain", "function_tool", "beta_tool", "beta_async_tool", "kernel_function", "ai_tool"}
MAKERS = {"Tool", "StructuredTool", "FunctionTool", "function_tool", "from_function", "from_defaults", "tool"}
"""What makes a tool of a framework from a function."""
REGISTERS = re.compile(r"(?:^|_)tools?(?:_|$)|^(?:available_)?functions$", re.IGNORECASE)
"""Names of variables that hold the functions that an agent may call."""
READS = re.compile(r"^(?:get|find|list|look_?up|search|read|fetch|query|count|show|describe|check)(?:_|$)")


@dataclass(slots=True)
class FoundTools:
    """What was found, each by import path.

    `functions` need a line in the ini file, `intercepted` are frozen by their framework. `unmatched` are schemas (name,
    file) to which no function, or more than one, belongs. `shown_as` are the names under which a registry, decorator or
    class for tools has functions that no registry or schema calls by their own.
    """

    functions: dict[str, Path] = field(default_factory=dict)
    intercepted: dict[str, str] = field(default_factory=dict)
    unmatched: dict[str, Path] = field(default_factory=dict)
    shown_as: dict[str, str] = field(default_factory=dict)

    def line(self, path: str, effects: str = "") -> str:
        """Return the line of the ini file that freezes the function at `path`."""
        if path in self.shown_as:
            return f"{path} = {effects or 'write'} as {self.shown_as[path]}"
        return f"{path} = {effects}" if effects else path


def find_tools(project: ProjectModules) -> FoundTools:
    """Search all modules of a project."""
    search = ToolSearch(project)
    for module in project.modules.values():
        search.look_through(module)
    return search.result()


class ToolSearch:
    """Collects what the modules of a project register as tools, and what the schemas for the model name."""

    def __init__(self, project: ProjectModules) -> None:
        """Nothing is found yet."""
        self.project = project
        self.tools = FoundTools()
        self._registered: dict[str, None] = {}
        self._keys: set[str] = set()
        self._schemas: dict[str, Module] = {}

    def look_through(self, module: Module) -> None:
        """Note the tools and schemas of one module."""
        self._registered.update(dict.fromkeys(note_decorated(self.project, module, self.tools)))
        for node, owner in nodes_with_class(module.tree):
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                self._look_at_variable(module, node, node.value, owner)
            elif isinstance(node, ast.Call):
                self._look_at_call(module, node, owner)
            elif name := schema_name(node):
                self._schemas.setdefault(name, module)

    def result(self) -> FoundTools:
        """Return what was found in all modules, once all of them are known."""
        for name, module in self._schemas.items():
            paths = self._functions_named(module, name)
            if len(paths) == 1:
                self._registered.setdefault(paths[0])
            elif name not in self._keys:
                self.tools.unmatched[name] = module.file
        for path in sorted(self._registered):
            owner = self.project.owner(path)
            if path not in self.tools.intercepted and owner is not None:
                self.tools.functions[path] = owner.file
        names = {*self._keys, *self._schemas}
        shown_as = {path: name for path, name in self.tools.shown_as.items() if path.rpartition(".")[2] not in names}
        self.tools.shown_as = shown_as
        return self.tools

    def _look_at_variable(self, module: Module, node: ast.Assign | ast.AnnAssign, value: ast.expr, owner: str) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        registers = [target for target in targets if REGISTERS.search(variable_name(target))]
        if any(is_container(value) or isinstance(target, ast.Subscript) for target in registers):
            self._registered.update(dict.fromkeys(functions_in(self.project, module, value, owner)))
            assigned = [entry for target in registers for entry in item_of(target, value)]
            for key, element in [*entries_of(value), *assigned]:
                self._keys.add(key)
                if not isinstance(element, ast.Dict | ast.List):  # a group of tools has a name of its own
                    for path in functions_in(self.project, module, element, owner):
                        self.tools.shown_as.setdefault(path, key)

    def _look_at_call(self, module: Module, node: ast.Call, owner: str) -> None:
        framework = framework_of(self.project, self.project.path_of(module, node.func))
        arguments = [keyword.value for keyword in node.keywords if keyword.arg in {"tools", "functions"}]
        values = [module.assigned.get(value.id, value) if isinstance(value, ast.Name) else value for value in arguments]
        values = [value for value in values if is_container(value)]
        if variable_name(node.func) in MAKERS:
            values += [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in {"fn", "func"})]
        for value in values:
            paths = functions_in(self.project, module, value, owner)
            if value in node.args and (name := read_given_name(node)):
                self.tools.shown_as.update(dict.fromkeys(paths, name))
            if framework:
                self.tools.intercepted.update(dict.fromkeys(paths, framework))
            else:
                self._registered.update(dict.fromkeys(paths))

    def _functions_named(self, module: Module, name: str) -> list[str]:
        """Return the functions that a schema may name: a registered one, one beside it, or each of that name."""
        known_paths = [*self._registered, *self.tools.intercepted]
        if registered := [path for path in known_paths if path.endswith(f".{name}")]:
            return registered[:1]
        if name in module.functions:
            return [f"{module.name}.{name}"]
        return [f"{each.name}.{name}" for each in self.project.modules.values() if name in each.functions]


def framework_of(project: ProjectModules, path: str) -> str:
    """Return the intercepted framework that `path` belongs to; "" for none. A project may have a package `agents`."""
    if project.owner(path) is not None:
        return ""
    return next((name for package, name in FRAMEWORKS.items() if path == package or path.startswith(f"{package}.")), "")


def note_decorated(project: ProjectModules, module: Module, tools: FoundTools) -> Iterator[str]:
    """Note the functions that a decorator makes tools; yield those of frameworks that are not intercepted."""
    for name, function in module.functions.items():
        for decorator in function.decorator_list:
            path = project.path_of(module, decorator.func if isinstance(decorator, ast.Call) else decorator)
            if path.rpartition(".")[2] not in DECORATORS:
                continue
            if framework := framework_of(project, path):
                tools.intercepted[f"{module.name}.{name}"] = framework
            else:
                yield f"{module.name}.{name}"
                if shown_as := read_given_name(decorator):
                    tools.shown_as[f"{module.name}.{name}"] = shown_as


def read_given_name(maker: ast.expr) -> str:
    """Return the name that a decorator or a maker gives a tool (`@tool("refund")`, `Tool(pay, name="refund")`)."""
    if not isinstance(maker, ast.Call):
        return ""
    values = [keyword.value for keyword in maker.keywords if keyword.arg in {"name", "name_override"}]
    texts = [value.value for value in [*values, *maker.args[:1]] if isinstance(value, ast.Constant)]
    return next((text for text in texts if isinstance(text, str) and text.isprintable() and " " not in text), "")


def nodes_with_class(tree: ast.AST, owner: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Return every node with the qualified name of the class around it."""
    for node in ast.iter_child_nodes(tree):
        yield node, owner
        inside = f"{owner}.{node.name}".lstrip(".") if isinstance(node, ast.ClassDef) else owner
        yield from nodes_with_class(node, inside)


def variable_name(target: ast.expr) -> str:
    """Return the last name of a variable, an attribute or an item's container (`self.tools["x"]`); "" for another."""
    if isinstance(target, ast.Subscript):
        return variable_name(target.value)
    return target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""


def functions_in(project: ProjectModules, module: Module, value: ast.expr, owner: str) -> list[str]:
    """Return the import paths of the project's functions that a dict, a list or a single name holds."""
    paths = []
    for element in elements(value):
        if not isinstance(element, ast.Name | ast.Attribute):
            continue
        if isinstance(element, ast.Attribute) and isinstance(element.value, ast.Name) and element.value.id == "self":
            path = f"{module.name}.{owner}.{element.attr}"
        else:
            path = project.path_of(module, element)
        if project.function(path):
            paths.append(path)
    return paths


def elements(value: ast.expr) -> list[ast.expr]:
    """Return what a literal holds; for `{f.__name__: f for f in (a, b)}` the elements that it goes through."""
    match value:
        case ast.Dict(values=values):
            items = values
        case ast.List(elts=values) | ast.Tuple(elts=values) | ast.Set(elts=values):
            items = values
        case ast.DictComp(generators=[first, *_]) | ast.ListComp(generators=[first, *_]) if is_container(first.iter):
            items = [first.iter]
        case ast.Call(args=arguments):  # `partial(refund, bank)`, `traced(refund)`, `schema_of(refund)`
            return [each for each in arguments if isinstance(each, ast.Name | ast.Attribute)]
        case ast.Name() | ast.Attribute():
            return [value]
        case _:
            return []
    return [inner for each in items for inner in elements(each)]


def is_container(value: ast.expr) -> bool:
    """Return whether an expression is a literal that holds others; `tools = self.load` is a method, and no tool."""
    return isinstance(value, ast.Dict | ast.List | ast.Tuple | ast.Set | ast.DictComp | ast.ListComp)


def entries_of(value: ast.expr) -> list[tuple[str, ast.expr]]:
    """Return the entries of a literal dict whose keys are texts."""
    entries = zip(value.keys, value.values, strict=True) if isinstance(value, ast.Dict) else ()
    return [
        (key.value, element) for key, element in entries if isinstance(key, ast.Constant) and isinstance(key.value, str)
    ]


def item_of(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    """Return the entry that a dict gets by an assignment (`tools["refund"] = ...`)."""
    key = target.slice if isinstance(target, ast.Subscript) else None
    return [(key.value, value)] if isinstance(key, ast.Constant) and isinstance(key.value, str) else []


def schema_name(node: ast.AST) -> str:
    """Return the tool that a schema in the form of OpenAI's or Anthropic's APIs names; "" for another node."""
    if not isinstance(node, ast.Dict):
        return ""
    entries = dict(entries_of(node))
    if entries.keys() & {"parameters", "input_schema", "inputSchema"} and isinstance(
        name := entries.get("name"), ast.Constant
    ):
        return str(name.value)
    return ""


def suggests_reading(path: str) -> bool:
    """Return whether a function's name suggests that it changes nothing."""
    return bool(READS.search(path.rpartition(".")[2]))
