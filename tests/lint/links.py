#!/usr/bin/python3
"""links.py - documents refer only to what is there, and each has one title.

Links to files and to their headings, in every .md file; paths of this tree and names of tests between backquotes
(`proxy/core/slow_log.h`, `integration/test_tls`, `test_tls`); titles of cases in docs/security.md; ports in console blocks: those of the README's cluster or of the packages, so that a reader can
type the commands; labels of metrics.
"""

import os
import re

from files import ROOT, read, report, tracked

LINK = re.compile(r'(?<!!)\[[^\]]*\]\(([^)\s]+|(?=\)))\)|!\[[^\]]*\]\(([^)\s]+)\)|<img src="([^"]+)"')
PATH = re.compile(r'`((?:shared|config|proxy|backend|tests|k8s|docs|unit|sim|fuzz|integration|differential|fault|bench)/[\w./-]*\w)')
NAME = re.compile(r'`((?:test|bench|fuzz)_\w+)`')
UNDER_TESTS = ('', 'tests/')
ENDINGS = ('', '.c', '.h', '.py')
LABEL = re.compile(r'by ((?:`[a-z_]+`(?:, | and )?)+)|\{([a-z_]+)=')
LABELS_ADDED = {'cluster', 'le'}  # of the scrape configuration, of histograms
GENERATED = ('docs/commands.md', 'docs/configuration.md')


def without_code(text):
    return re.sub(r'^```.*?^```', lambda match: '\n' * match[0].count('\n'), text, flags=re.M | re.S)


def anchors(path):
    """As GitHub makes them: lower case, no punctuation, a dash for each space."""
    found = set()
    for title in re.findall(r'^#+ (.*)$', without_code(read(path)), re.M):
        title = re.sub(r'\[([^\]]*)\]\([^)]*\)|[`*]', r'\1', title).strip().lower()
        found.add(re.sub(r'[^\w\- ]', '', title).replace(' ', '-'))
    return found


def broken_links(path):
    for number, line in enumerate(without_code(read(path)).splitlines(), 1):
        for groups in LINK.findall(line):
            target = ''.join(groups)
            if re.match(r'[a-z]+:', target):
                continue
            if not target:
                yield '%s:%d: a link without a target' % (path, number)
            name, _, anchor = target.partition('#')
            file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if not os.path.exists(os.path.join(ROOT, file)):
                yield '%s:%d: %s: there is no such file' % (path, number, target)
            elif anchor and anchor not in anchors(file):
                yield '%s:%d: %s: there is no such heading' % (path, number, target)


def is_there(name):
    return any(os.path.exists(os.path.join(ROOT, start + name + ending)) for start in UNDER_TESTS for ending in ENDINGS)


def missing_paths(path):
    stems = {os.path.splitext(os.path.basename(name))[0] for name in tracked() if name.startswith('tests/')}
    for number, line in enumerate(read(path).splitlines(), 1):
        for name in PATH.findall(line):
            if not is_there(name):
                yield '%s:%d: `%s`: there is no such file' % (path, number, name)
        for name in set(NAME.findall(line)) - stems:
            yield '%s:%d: `%s`: there is no such test' % (path, number, name)


def wrong_titles(path):
    """The first line is the title, `# Words`; what stands below has `##` or more."""
    lines = without_code(read(path)).splitlines()
    titles = [number for number, line in enumerate(lines, 1) if line.startswith('# ')]
    if titles[:1] != [1]:
        yield '%s:1: expected the title of the page, `# Words`' % path
    for number in titles[1:]:
        yield '%s:%d: %s: expected one title per page, then ## for its parts' % (path, number, lines[number - 1])


def missing_cases():
    """docs/security.md names cases of tests by the beginning of their titles: *a tenant can …*."""
    tests = '\n'.join(read(path) for path in tracked() if path.startswith('tests/') and path.endswith('.py'))
    titles = re.findall(r'''^@suite\.case\(['"](.*)''', tests, re.M)
    for number, line in enumerate(read('docs/security.md').splitlines(), 1):
        for start in re.findall(r'\*([^*|]+?) …\*', line):
            if not any(title.startswith(start) for title in titles):
                yield 'docs/security.md:%d: no test has a case *%s …*' % (number, start)


def configured_ports():
    """Of README's cluster, config/quickstart and the packages: 74xx without gaps, for partitions."""
    text = ''.join(read(path) for path in tracked() if path == 'README.md' or path.startswith(('config/packages/etc/', 'config/quickstart')))
    return set(re.findall(r'(?<![\d.])7[345]\d\d(?!\d)', text))


def unknown_ports(path, known):
    """In console blocks, and in prompts of redis-cli."""
    is_console = False
    for number, line in enumerate(read(path).splitlines(), 1):
        if line.startswith('```'):
            is_console = line == '```console'
        ports = re.findall(r'(?:-p |127\.0\.0\.1:|localhost:)(\d{4,5})\b' if is_console else r'^127\.0\.0\.1:(\d+)>', line)
        for port in set(ports) - known:
            yield '%s:%d: port %s: no configuration of README, config/quickstart or the packages has it' % (path, number, port)


def known_labels():
    sources = '\n'.join(read(path) for path in tracked() if path.endswith('.c') and not path.startswith('tests/'))
    return LABELS_ADDED | set(re.findall(r'metric_label\([^,;]+, "(\w+)"', sources)) | set(
        re.findall(r'labels_print\([^;]*?out, "(\w+)"', sources))


def unknown_labels(known):
    for path in ('docs/monitoring.md', 'docs/runbook.md', 'docs/capacity.md'):
        for number, line in enumerate(read(path).splitlines(), 1):
            if 'scree_' not in line:
                continue
            for listed, selected in LABEL.findall(line):
                names = set(re.findall(r'`(\w+)`', listed) + [selected]) - known - {''}
                for label in names - {name for name in names if name.startswith(('scree_', 'process_'))}:
                    yield '%s:%d: no metric has the label %s' % (path, number, label)


def main():
    problems = list(missing_cases()) + list(unknown_labels(known_labels()))
    ports = configured_ports()
    for path in tracked():
        if path.endswith('.md'):
            problems += wrong_titles(path)
            problems += broken_links(path)
            problems += unknown_ports(path, ports)
            if path not in GENERATED:
                problems += missing_paths(path)
    report(problems)


if __name__ == '__main__':
    main()
