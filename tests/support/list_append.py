"""list_append.py - is a history of transactions on lists strictly serializable?

Transactions append unique values to lists (RPUSH) and read lists (LRANGE). A list keeps the order of its appends, so the
lists at the end of a history give the order of all versions, and each read shows which version it saw (Kingsbury and
Alvaro, Elle, 2020). From these follow dependencies, and a cycle of dependencies has no serial order:

    ww  the transaction that appended the value before      ──►  the one that appended the value after it
    wr  the transaction that appended the last value read   ──►  the one that read it
    rw  the transaction that read a version                 ──►  the one that appended the next value
    rt  a transaction that had ended                        ──►  one that began later (real time)

    cycle of ww: G0 · with wr: G1c · with one rw: G-single · with more: G2 · with rt: real-time

A transaction whose outcome is unknown counts as done if one of its appends is in a list at the end (then all of them must
be), and at any time after it began; otherwise it is left out.

    history = [Transaction(...), …]
    for anomaly in anomalies(history, {key: values at the end}): …
"""

from bisect import bisect_left
from collections import defaultdict, deque

DONE, REFUSED, UNKNOWN = 'done', 'refused', 'unknown'
WW, WR, RW, RT = 1, 2, 4, 8
EDGES = {WW: 'ww', WR: 'wr', RW: 'rw', RT: 'rt'}
LEVELS = (('G0', WW), ('G1c', WW | WR), ('G2', WW | WR | RW), ('real-time', WW | WR | RW | RT))


class Append:
    """RPUSH; `length`: its reply."""

    def __init__(self, key, item, length=None):
        self.key, self.item, self.length = key, item, length

    def __repr__(self):
        return 'append %s to %s%s' % (self.item, self.key, ' (%d)' % self.length if self.length else '')


class Read:
    """LRANGE of the whole list; `items`: its reply."""

    def __init__(self, key, items=None):
        self.key, self.items = key, items

    def __repr__(self):
        if self.items is None:
            return 'read %s' % self.key
        return 'read %s: %d values, last %s' % (self.key, len(self.items), self.items[-1:])


class Transaction:
    """`begin` and `end`: the times before it was sent and after its reply; replies count only if it is DONE."""

    def __init__(self, name, begin, end, outcome, operations):
        self.name, self.begin, self.end, self.outcome, self.operations = name, begin, end, outcome, operations

    def __repr__(self):
        return '%s %s [%s]' % (self.name, self.outcome, '; '.join(map(repr, self.operations)))


class Anomaly:
    def __init__(self, name, text):
        self.name, self.text = name, text

    def __repr__(self):
        return '%s: %s' % (self.name, self.text)


def anomalies(history, final):
    """The anomalies of a history; `final`: {key: values}, read after all transactions had ended."""
    return Checker(history, final).run()


class Checker:
    def __init__(self, history, final):
        self.history, self.final = history, final
        self.found = []
        self.writer = {}  # (key, item): number of the transaction in `done`
        self.edges = defaultdict(dict)  # node: {node: kinds}

    def report(self, name, text, *parts):
        self.found.append(Anomaly(name, text % parts))

    def run(self):
        self.check_values()
        self.choose_done()
        for number, transaction in enumerate(self.done):
            if transaction.outcome == DONE:
                self.check_operations(number, transaction)
        if not self.found:  # versions are defined only then
            self.add_write_edges()
            self.add_times()
            self.find_cycle()
        return self.found

    # -- values

    def check_values(self):
        """Each value at the end was appended once, by a transaction that was not refused."""
        appended = {(step.key, step.item): transaction for transaction in self.history
                    for step in transaction.operations if isinstance(step, Append)}
        for key, items in self.final.items():
            if len(set(items)) != len(items):
                self.report('appended twice', '%s: %s', key, sorted(item for item in set(items) if items.count(item) > 1))
            for item in items:
                transaction = appended.get((key, item))
                if transaction is None:
                    self.report('from nowhere', '%s holds %s', key, item)
                elif transaction.outcome == REFUSED:
                    self.report('refused and done', '%s is in %s: %s', item, key, transaction)

    def choose_done(self):
        """The transactions that count, and their appends, all of which must be there."""
        self.done = []
        self.present = {key: {item: place for place, item in enumerate(items)} for key, items in self.final.items()}
        for transaction in self.history:
            steps = [step for step in transaction.operations if isinstance(step, Append)]
            missing = [step for step in steps if step.item not in self.present.get(step.key, ())]
            if transaction.outcome == REFUSED or transaction.outcome == UNKNOWN and len(missing) == len(steps):
                continue
            for step in missing:
                name = 'lost append' if transaction.outcome == DONE else 'half a transaction'
                self.report(name, '%s is not in %s: %s', step.item, step.key, transaction)
            for step in steps:
                self.writer[step.key, step.item] = len(self.done)
            self.done.append(transaction)

    # -- what a transaction saw

    def check_operations(self, number, transaction):
        """Its reads are versions of the lists, with its own appends at their ends; adds the edges of its reads."""
        own, seen = defaultdict(list), {}
        for step in transaction.operations:
            if isinstance(step, Append):
                own[step.key].append(step.item)
                place = self.present.get(step.key, {}).get(step.item)
                if step.length is not None and place is not None and step.length != place + 1:
                    self.report('wrong length', '%s is value %d: %s', step.item, place + 1, transaction)
                continue
            if step.items != self.final.get(step.key, [])[:len(step.items)]:
                self.report('never was', '%s was %s at the end: %s', step.key, self.final.get(step.key), transaction)
                continue
            before = len(step.items) - len(own[step.key])
            if before < 0 or step.items[before:] != own[step.key] or seen.setdefault(step.key, before) != before:
                self.report('inner contradiction', 'reads of %s: %s', step.key, transaction)
                continue
            self.add_read_edges(number, step.key, before)

    def add_edge(self, source, target, kind):
        if source != target:
            self.edges[source][target] = self.edges[source].get(target, 0) | kind

    def add_read_edges(self, number, key, version):
        items = self.final.get(key, [])
        if version > 0 and (key, items[version - 1]) in self.writer:
            self.add_edge(self.writer[key, items[version - 1]], number, WR)
        if version < len(items) and (key, items[version]) in self.writer:
            self.add_edge(number, self.writer[key, items[version]], RW)

    def add_write_edges(self):
        for key, items in self.final.items():
            for before, after in zip(items, items[1:]):
                self.add_edge(self.writer[key, before], self.writer[key, after], WW)

    def add_times(self):
        """Real time, with one node for each end: transaction ─► its end ─► next end … ─► a transaction that began
        after it. So there are as many edges as transactions, not as many as pairs."""
        count = len(self.done)
        ended = sorted((transaction.end, number) for number, transaction in enumerate(self.done)
                       if transaction.outcome == DONE)
        ends = [end for end, _ in ended]
        for place, (_, number) in enumerate(ended):
            self.add_edge(number, count + place, RT)
            if place:
                self.add_edge(count + place - 1, count + place, RT)
        for number, transaction in enumerate(self.done):
            earlier = bisect_left(ends, transaction.begin)
            if earlier:
                self.add_edge(count + earlier - 1, number, RT)

    # -- cycles

    def find_cycle(self):
        """Reports a cycle of the strictest level that has one."""
        for name, kinds in LEVELS:
            graph = {node: [target for target, kind in targets.items() if kind & kinds]
                     for node, targets in self.edges.items()}
            component = first_component(graph)
            if component:
                cycle = shortest_cycle(graph, component)
                self.report_cycle(name, kinds, cycle)
                return

    def report_cycle(self, name, kinds, cycle):
        links = [self.edges[source][target] & kinds for source, target in zip(cycle, cycle[1:] + cycle[:1])]
        if name == 'G2' and sum(link == RW for link in links) == 1:
            name = 'G-single'
        lines = []
        for node, link in zip(cycle, links):
            if node < len(self.done):
                lines.append('\n       %s ─%s►' % (self.done[node], '|'.join(EDGES[kind] for kind in EDGES if link & kind)))
        self.report(name, 'a cycle%s', ''.join(lines))


def first_component(graph):
    """The first strongly connected component of several nodes (Tarjan, without recursion); None: there is none."""
    order, low, stack, on_stack = {}, {}, [], set()
    for root in list(graph):
        if root in order:
            continue
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        path = [(root, iter(graph.get(root, ())))]
        while path:
            node, targets = path[-1]
            target = next(targets, None)
            if target is None:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == order[node]:
                    component = stack[stack.index(node):] if stack[-1] != node else [node]
                    if len(component) > 1:
                        return set(component)
                    on_stack.discard(stack.pop())
            elif target not in order:
                order[target] = low[target] = len(order)
                stack.append(target)
                on_stack.add(target)
                path.append((target, iter(graph.get(target, ()))))
            elif target in on_stack:
                low[node] = min(low[node], order[target])
    return None


def shortest_cycle(graph, component, tries=50):
    """A short cycle inside a strongly connected component: the shortest through any of its first nodes."""
    best = None
    for root in sorted(component)[:tries]:
        came, queue = {root: None}, deque([root])
        end = None
        while queue and end is None:
            node = queue.popleft()
            for target in graph.get(node, ()):
                if target == root:
                    end = node
                    break
                if target in component and target not in came:
                    came[target] = node
                    queue.append(target)
        cycle = []
        while end is not None:
            cycle.append(end)
            end = came[end]
        if cycle and (best is None or len(cycle) < len(best)):
            best = cycle[::-1]
    return best
