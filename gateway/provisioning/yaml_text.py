"""Text → plain data, safely: no duplicate keys, nothing that unfolds to more than it shows.

PyYAML's own messages quote the file; here they are cut to what cannot be a secret.
"""

import re

import yaml

from gateway.provisioning.findings import Problem

MAX_BYTES = 1024 * 1024
MAX_NODES = 100_000
MAX_DEPTH = 50
_QUOTED = re.compile(r"""'(?!<)[^']{2,}'|"[^"]{2,}\"""")
_MERGE = "tag:yaml.org,2002:merge"


class UnreadableYaml(Exception):
    """Holds the problems that keep the text from being read at all."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("; ".join(map(str, problems)))


def yaml_data(text: str) -> object:
    """Plain lists, dicts and scalars. Raises UnreadableYaml."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise UnreadableYaml(Problem("", "the file is empty"))
        _check(node)
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        raise UnreadableYaml(_problem(error)) from None
    except yaml.YAMLError:
        raise UnreadableYaml(Problem("", "is no YAML: characters that YAML does not allow")) from None
    except RecursionError:
        raise UnreadableYaml(Problem("", "is nested too deeply")) from None
    except (ValueError, OverflowError):
        raise UnreadableYaml(Problem("", "holds a number or a date that is none")) from None
    finally:
        loader.dispose()


def _problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    reason = _QUOTED.sub("…", error.problem or error.context or "is no YAML")
    return Problem(where, f"is no YAML: {reason}")


def _check(root: yaml.Node) -> None:
    """Before anything is built. Aliases count as often as they are used, so none can blow up."""
    known: dict[int, tuple[int, int]] = {}
    duplicates: list[Problem] = []

    def measured(node: yaml.Node, depth: int) -> tuple[int, int]:
        """Values and levels of the node, aliases followed."""
        values, levels = known.get(id(node), (0, 0))
        if depth + levels > MAX_DEPTH:
            # Also the end of an anchor that contains itself.
            raise UnreadableYaml(Problem("", "is nested too deeply"))
        if not values:
            if isinstance(node, yaml.MappingNode):
                duplicates.extend(_duplicates(node))
            parts = [measured(child, depth + 1) for child in _children(node)]
            values = 1 + sum(part[0] for part in parts)
            levels = 1 + max((part[1] for part in parts), default=0)
            known[id(node)] = values, levels
        return values, levels

    if measured(root, 0)[0] > MAX_NODES:
        raise UnreadableYaml(Problem("", f"unfolds to more than {MAX_NODES} values"))
    if duplicates:
        raise UnreadableYaml(*duplicates)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _duplicates(node: yaml.MappingNode) -> list[Problem]:
    seen: dict[str, int] = {}
    problems = []
    for key, _value in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            continue
        line = key.start_mark.line + 1
        if key.value in seen:
            reason = f"“{key.value[:60]}” is there twice, first in line {seen[key.value]}"
            problems.append(Problem(f"line {line}", reason))
        seen.setdefault(key.value, line)
    return problems
