#!/usr/bin/python3
"""scripts.py - Python files: each name that is used is defined, each import is used, and a script can be run by its
name.

A script begins with #!/usr/bin/python3, is executable, and its docstring says what it shows. Names are looked up in the
whole file regardless of their scope, so a name reported as missing is certainly missing.
"""

import ast
import builtins
import os

from files import ROOT, read, report, tracked

GIVEN = set(dir(builtins)) | {'__file__', '__name__', '__doc__'}


def imported(tree):
    """{name: line}"""
    return {(alias.asname or alias.name).split('.')[0]: node.lineno for node in ast.walk(tree)
            if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}


def made(tree):
    """Names defined anywhere in the file."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)):
            found.add(node.name)
    return found


def wrong_names(path, tree):
    imports = imported(tree)
    used = {node.id: node.lineno for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for name in sorted(set(imports) - set(used)):
        yield '%s:%d: %s is imported and not used' % (path, imports[name], name)
    for name in sorted(set(used) - set(imports) - made(tree) - GIVEN):
        yield '%s:%d: there is no %s' % (path, used[name], name)


def missing_modules(path, tree):
    """Imported modules of tests/support that do not exist; a missing name in them fails when the script starts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('support.'):
            place = os.path.join(ROOT, 'tests', *node.module.split('.'))
            if not os.path.exists(place + '.py') and not os.path.exists(place):
                yield '%s:%d: there is no module %s' % (path, node.lineno, node.module)


def wrong_start(path, text, tree):
    if not ast.get_docstring(tree):
        yield '%s:1: expected """what it is for"""' % path
    is_script = text.startswith('#!')
    if is_script and not text.startswith('#!/usr/bin/python3\n'):
        yield '%s:1: expected #!/usr/bin/python3' % path
    if is_script != os.access(os.path.join(ROOT, path), os.X_OK):
        yield '%s:1: a script has #! and is executable, a module neither' % path


def main():
    problems = []
    for path in tracked():
        if path.endswith('.py'):
            text = read(path)
            tree = ast.parse(text, path)
            problems += wrong_names(path, tree)
            problems += missing_modules(path, tree)
            problems += wrong_start(path, text, tree)
    report(problems)


if __name__ == '__main__':
    main()
