"""monitors.py - the fields of the Prometheus operator's ServiceMonitor, PodMonitor and PrometheusRule (v1).

The API server silently drops a field that the CustomResourceDefinition does not have: a monitor with a misspelt field
scrapes other targets than intended. problems(thing) lists fields that are unknown, missing or of another shape.

A shape is a dict of fields (a name that ends with ! is required), [shape] for a list, a pattern that a text or number
must match, or a type.
"""

import re

DURATION = re.compile(r'(\d+(ms|[smhdwy]))+')
NAME = re.compile(r'[a-z0-9]([-a-z0-9.]*[a-z0-9])?')
LABEL = re.compile(r'[a-zA-Z_][a-zA-Z0-9_]*')
METRIC = re.compile(r'[a-zA-Z_:][a-zA-Z0-9_:]*')
NUMBER_OR_NAME = re.compile(r'\d+|[-a-z0-9]+')
LABELS = {}  # a map from any names to texts

SECRET_KEY = {'name': NAME, 'key!': str, 'optional': bool}
REQUIREMENT = {'key!': str, 'operator!': re.compile('In|NotIn|Exists|DoesNotExist'), 'values': [str]}
SELECTOR = {'matchLabels': LABELS, 'matchExpressions': [REQUIREMENT]}
RELABEL = {'sourceLabels': [LABEL], 'separator': str, 'targetLabel': str, 'regex': str, 'modulus': int, 'replacement': str,
           'action': re.compile('(?i)replace|keep|drop|hashmod|labelmap|labeldrop|labelkeep|lowercase|uppercase|keepequal|dropequal')}
ENDPOINT = {'port': str, 'targetPort': NUMBER_OR_NAME, 'path': re.compile('/.*'), 'scheme': re.compile('https?'), 'params': dict,
            'interval': DURATION, 'scrapeTimeout': DURATION, 'tlsConfig': dict, 'bearerTokenSecret': SECRET_KEY,
            'authorization': {'type': str, 'credentials': SECRET_KEY}, 'basicAuth': dict, 'oauth2': dict, 'honorLabels': bool,
            'honorTimestamps': bool, 'trackTimestampsStaleness': bool, 'relabelings': [RELABEL], 'metricRelabelings': [RELABEL],
            'proxyUrl': str, 'followRedirects': bool, 'enableHttp2': bool, 'filterRunning': bool}
LIMITS = {name: int for name in ('sampleLimit', 'targetLimit', 'labelLimit', 'labelNameLengthLimit', 'labelValueLengthLimit',
                                 'keepDroppedTargets')}
MONITOR = dict(LIMITS, **{'selector!': SELECTOR, 'namespaceSelector': {'any': bool, 'matchNames': [NAME]}, 'jobLabel': str,
                          'podTargetLabels': [str], 'attachMetadata': {'node': bool}, 'scrapeClass': str,
                          'scrapeProtocols': [str], 'bodySizeLimit': str})
RULE = {'alert': str, 'record': METRIC, 'expr!': re.compile(r'(?s).+'), 'for': DURATION, 'keep_firing_for': DURATION, 'labels': LABELS,
        'annotations': LABELS}
GROUP = {'name!': str, 'interval': DURATION, 'query_offset': DURATION, 'limit': int, 'labels': LABELS,
         'partial_response_strategy': re.compile('(?i)abort|warn'), 'rules': [RULE]}
META = {'name!': NAME, 'namespace': NAME, 'labels': LABELS, 'annotations': LABELS}
SPECS = {
    'ServiceMonitor': dict(MONITOR, **{'endpoints!': [dict(ENDPOINT, bearerTokenFile=str)], 'targetLabels': [str]}),
    'PodMonitor': dict(MONITOR, **{'podMetricsEndpoints!': [dict(ENDPOINT, portNumber=int)]}),
    'PrometheusRule': {'groups': [GROUP]},
}


def fits(where, value, shape):
    """The problems of one value; `where` is its path."""
    if shape is LABELS:
        return ([] if isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
                else ['%s: expected texts by name' % where])
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return ['%s: expected fields' % where]
        known = {name.rstrip('!'): inner for name, inner in shape.items()}
        found = ['%s: there is no field %s' % (where, name) for name in value if name not in known]
        found += ['%s: %s is missing' % (where, name[:-1]) for name in shape if name.endswith('!') and name[:-1] not in value]
        return found + [text for name, inner in value.items() if name in known
                        for text in fits('%s/%s' % (where, name), inner, known[name])]
    if isinstance(shape, list):
        if not isinstance(value, list):
            return ['%s: expected a list' % where]
        return [text for at, inner in enumerate(value) for text in fits('%s/%d' % (where, at), inner, shape[0])]
    if isinstance(shape, type):
        return [] if type(value) is shape else ['%s: expected %s, found %r' % (where, shape.__name__, value)]
    good = isinstance(value, (str, int)) and not isinstance(value, bool) and shape.fullmatch(str(value))
    return [] if good else ['%s: %r is not %s' % (where, value, shape.pattern)]


def problems(thing):
    kind = thing.get('kind')
    if thing.get('apiVersion') != 'monitoring.coreos.com/v1' or kind not in SPECS:
        return ['there is no %s %s' % (thing.get('apiVersion'), kind)]
    found = fits(kind, thing, {'apiVersion!': str, 'kind!': str, 'metadata!': META, 'spec!': SPECS[kind]})
    for group in thing.get('spec', {}).get('groups', []):
        found += ['%s: a rule is either an alert or a record' % kind for rule in group.get('rules', [])
                  if ('alert' in rule) == ('record' in rule)]
    return found
