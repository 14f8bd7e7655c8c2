#!/usr/bin/python3
"""alerts.py - each alert rule has a paragraph of the runbook with commands in it, and cases of promtool: one in which it fires and one
in which it is silent.
"""

import re

from files import read, report

RULES = 'k8s/monitoring/rules.yaml'
CASES = 'k8s/monitoring/rules_test.yaml'


def problems_of(alert, url, paragraphs, cases):
    if url != 'docs/runbook.md#' + alert.lower():
        yield '%s: %s: its runbook is %s' % (RULES, alert, url)
    if '```console\n$ ' not in paragraphs.get(alert, ''):
        yield 'docs/runbook.md: ### %s: expected a paragraph with commands, for the alert of that name' % alert
    if '\n' not in cases.get(alert, ()):
        yield '%s: %s: expected a case in which it fires' % (CASES, alert)
    if ' []' not in cases.get(alert, ()):
        yield '%s: %s: expected a case in which it is silent' % (CASES, alert)


def main():
    paragraphs = dict(re.findall(r'^### (Scree\w+)\n(.*?)(?=^##|\Z)', read('docs/runbook.md'), re.M | re.S))
    cases = {}
    for alert, expected in re.findall(r'alertname: (\w+)\n +exp_alerts:( \[\]|\n)', read(CASES)):
        cases.setdefault(alert, set()).add(expected)
    alerts = re.findall(r'- alert: (\w+).*?runbook_url: (\S+)', read(RULES), re.S)
    report([problem for alert, url in alerts for problem in problems_of(alert, url, paragraphs, cases)])


if __name__ == '__main__':
    main()
