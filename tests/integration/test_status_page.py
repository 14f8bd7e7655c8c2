#!/usr/bin/python3
"""The status page in a real browser (Chromium): its contents, its requests and limits, and its layout on a phone.

The screenshots of a run are in the build folder, status-page/*.png.
"""

import base64
import contextlib
import errno
import json
import os
import random
import re
import signal
import tempfile
import threading
import time
import unicodedata
import urllib.error
import urllib.request

from support import damage
from support.cluster import Cluster, slot_of
from support.copies import UNHURRIED, Voters
from support.disk import SYNC_LOG, FaultyDisk
from support.harness import Suite, check, check_equal, patience, wait_for
from support.in_doubt import leave_in_doubt
from support.resp import Closed

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

suite = Suite(__doc__)

EVIL = '<img src=x onerror="document.title=\'broken\'">'
NAMESPACES = {'shop': {'token': 'shop-token'}, 'test_*': {'token': 'test-token', 'ephemeral': 'yes'}}
SMALL_PHONE, PHONE, DESKTOP = (360, 740), (390, 844), (1440, 1000)
# Is the list longer than its card, and does its visible part end below a row?
ENDS_BELOW_A_ROW = '''const table = document.getElementById(arguments[0]), frame = table.parentElement;
    const edge = frame.getBoundingClientRect().top + frame.clientHeight;
    return frame.scrollHeight > frame.clientHeight && [...table.tBodies[0].rows].some(
        row => Math.abs(row.getBoundingClientRect().bottom - edge) < 1.5)'''
NARROW_SPACE = '\u202f'


# ---- the browser -------------------------------------------------------------------------------------------------

class Browser:
    """One Chromium, with the page of one proxy at a time."""

    def __init__(self):
        options = Options()
        for word in ('--headless=new', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
                     '--window-size=%d,%d' % DESKTOP):
            options.add_argument(word)
        if os.geteuid() == 0:
            options.add_argument('--no-sandbox')
        options.set_capability('goog:loggingPrefs', {'browser': 'ALL'})
        self.driver = webdriver.Chrome(service=Service('/usr/bin/chromedriver'), options=options)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.driver.quit()

    def open(self, proxy, path='/'):
        self.driver.get('http://127.0.0.1:%d%s' % (proxy.admin, path))

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def find(self, name):
        return self.driver.find_element(By.ID, name)

    def text(self, name):
        return self.run('return document.getElementById(arguments[0]).innerText', name)

    def shown(self, name):
        return self.find(name).is_displayed()

    def rows(self, table):
        """[{column: text}] without the notes in cells."""
        return self.run('''
            const text = cell => [...cell.childNodes].filter(node => node.nodeName !== 'SMALL').map(node => node.textContent).join('');
            return [...document.getElementById(arguments[0]).tBodies[0].rows].map(row =>
                Object.fromEntries([...row.cells].map(cell => [cell.dataset.label, text(cell)])))''', table)

    def pixel(self, slot):
        return self.run('''return [...document.getElementById('slots').getContext('2d')
            .getImageData(arguments[0] % 128, Math.floor(arguments[0] / 128), 1, 1).data].slice(0, 3)''', slot)

    def point(self, x, y):
        self.driver.execute_cdp_cmd('Input.dispatchMouseEvent', {'type': 'mouseMoved', 'x': x, 'y': y})

    def look(self, size, dark=False):
        self.driver.execute_cdp_cmd('Emulation.setEmulatedMedia', {
            'features': [{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}]})
        self.driver.execute_cdp_cmd('Emulation.setDeviceMetricsOverride', {
            'width': size[0], 'height': size[1], 'deviceScaleFactor': 1, 'mobile': size != DESKTOP})

    def shoot(self, name):
        folder = os.path.join(os.environ['SCREE_BIN'], 'status-page')
        os.makedirs(folder, exist_ok=True)
        picture = self.driver.execute_cdp_cmd('Page.captureScreenshot', {'format': 'png'})['data']
        with open(os.path.join(folder, name + '.png'), 'wb') as file:
            file.write(base64.b64decode(picture))

    def complaints(self):
        """Errors and warnings on the browser's console."""
        return [entry for entry in self.driver.get_log('browser') if entry['level'] in ('SEVERE', 'WARNING')]


def document_of(proxy, token=None):
    request = urllib.request.Request('http://127.0.0.1:%d/status.json' % proxy.admin)
    if token:
        request.add_header('Authorization', 'Bearer ' + token)
    with urllib.request.urlopen(request, timeout=patience()) as answer:
        return json.loads(answer.read())


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


# ---- the cluster, with load --------------------------------------------------------------------------------------

def cluster_of(linked=False, **proxy_options):
    options = dict({'slowlog-log-slower-than': '0', 'slowlog-max-len': '50', 'hotkeys-sample': '4', 'requirepass': 'outside'},
                   **proxy_options)
    cluster = Cluster(backends=3, partitions=1, proxies=2, namespaces=NAMESPACES, proxy_options={'proxy': options}, linked=linked)
    options['peers'] = ' '.join('127.0.0.1:%d' % proxy.admin for proxy in cluster.proxies)
    return cluster


def enter(cluster, password, name=None, timeout=30):
    connection = cluster.connect(timeout=timeout)
    check_equal(connection.get('AUTH', password), b'OK', 'AUTH')
    if name:
        check_equal(connection.get('CLIENT', 'SETNAME', name), b'OK', 'CLIENT SETNAME')
    return connection


@contextlib.contextmanager
def load(cluster, seed):
    """Sends requests all the time, many of them for one key with a hostile name."""
    stopping = threading.Event()

    def play():
        rng = random.Random(seed)
        with enter(cluster, 'outside', 'load') as client:
            while not stopping.is_set():
                keys = ['key:%d' % rng.randrange(2000) for _ in range(20)]
                client.pipeline([['SET', key, 'v'] for key in keys] + [['GET', EVIL]] * 20 + [['MGET'] + keys[:3]])
                stopping.wait(0.05)
    thread = threading.Thread(target=play, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


# ---- contents --------------------------------------------------------------------------------------------------------

def check_shards(browser, admin):
    shards = [pairs(shard) for shard in admin.get('SCREE', 'SHARDS')]
    rows = browser.rows('shards')
    check_equal([(row['Shard'], row['Address'], row['Slots'].replace(NARROW_SPACE, '')) for row in rows],
                [(shard[b'name'].decode(), shard[b'address'].decode(), str(shard[b'slots'])) for shard in shards], 'shards')
    check_equal({row['State'] for row in rows}, {'up'}, 'states')
    epoch = pairs(admin.get('SCREE', 'MAP'))[b'epoch']
    check('map epoch %d ' % epoch in browser.text('facts'), browser.text('facts'))


def direction(colour, ground):
    length = sum((a - b) ** 2 for a, b in zip(colour, ground)) ** 0.5
    return [(a - b) / length for a, b in zip(colour, ground)]


def check_colours(run, browser, cluster):
    """Checks that each slot has a shade of the colour of its shard's swatch."""
    legend = browser.run('''return [...document.querySelectorAll('#shards .key')].map(key =>
        getComputedStyle(key).backgroundColor.match(/\\d+/g).map(Number))''')
    ground = [255, 255, 255]
    check_equal(len({tuple(colour) for colour in legend}), 3, 'colours of shards')
    rates = document_of(cluster.proxies[0])['map']['slot_rates']
    cool = [slot for slot in range(16384) if rates[slot] <= 1]
    for slot in run.rng.sample(cool, 40):
        seen = direction(browser.pixel(slot), ground)
        alike = [sum(a * b for a, b in zip(seen, direction(colour, ground))) for colour in legend]
        check_equal(alike.index(max(alike)), cluster.shard_of_slot(slot), 'colour of slot %d' % slot)
    hot = slot_of(EVIL)
    check(sum(browser.pixel(hot)) < min(sum(browser.pixel(slot)) for slot in run.rng.sample(cool, 40)), 'hot slots stand out')


def says_at(browser, slot):
    """What the page says of the slot when the pointer comes to it: the page may have changed its layout since the last time."""
    browser.point(5, 5)
    x, y, width, height = browser.run('''const box = document.getElementById('slots').getBoundingClientRect();
        return [box.x, box.y, box.width, box.height]''')
    browser.point(x + (slot % 128 + 0.5) / 128 * width, y + (slot // 128 + 0.5) / 128 * height)
    return browser.text('slot-says')


def check_hover(run, browser, cluster, names):
    canvas = browser.find('slots')
    for slot in [0, 16383, slot_of(EVIL)] + run.rng.sample(range(16384), 5):
        wanted = 'Slot %d · shard %s (up) · ' % (slot, names[cluster.shard_of_slot(slot)])

        def says():
            words = says_at(browser, slot)
            return words.startswith(wanted) and words.endswith('/s')
        wait_for(says, '%r of the slot at the pointer' % wanted)
    browser.point(5, 5)
    check(browser.text('slot-says').startswith('Hottest: slot '), 'without a pointer')
    canvas.send_keys(Keys.HOME)
    check(browser.text('slot-says').startswith('Slot 0 '), 'the map with keys')
    canvas.send_keys(Keys.ARROW_DOWN)
    canvas.send_keys(Keys.ARROW_RIGHT)
    check(browser.text('slot-says').startswith('Slot 129 '), 'the map with keys')
    browser.run('document.activeElement.blur()')


def check_plots(browser, names):
    def labels():
        return browser.run('''return [...document.querySelectorAll('.plot canvas')].map(canvas => canvas.getAttribute('aria-label'))''')

    def pictures():
        return browser.run('''return [...document.querySelectorAll('.plot canvas')].map(canvas => canvas.toDataURL())''')
    wait_for(lambda: all(name + ' ' in label for name in names for label in labels()[:2]), 'lines of all shards')
    wait_for(lambda: all(' set ' in label for label in labels()[2:]), 'lines of commands')
    before = pictures()
    wait_for(lambda: all(a != b for a, b in zip(before, pictures())), 'all plots to move')


def check_lists(browser, admin):
    keys = browser.rows('hot-keys')
    check_equal(keys[0]['Key'], EVIL, 'the hottest key, as text')
    check_equal(browser.run("return document.querySelectorAll('main img, main script').length"), 0, 'elements made of a key')
    hottest = pairs(admin.get('SCREE', 'HOTKEYS')[0])
    check_equal(keys[0]['Shard'], hottest[b'shard'].decode(), 'its shard')
    commands = {row['Command']: row for row in browser.rows('commands')}
    check({'set', 'get', 'mget'} <= set(commands), 'commands %r' % list(commands))
    wait_for(lambda: any(EVIL in row['Request'] for row in browser.rows('slow-log')), 'the slow log to have the key')

    def clients_agree():
        listed = {line.split(b' name=')[1].split(b' ')[0].decode() for line in admin.get('CLIENT', 'LIST').splitlines()}
        return {row['Client'] for row in browser.rows('clients')} == listed
    wait_for(clients_agree, 'the clients of CLIENT LIST')
    check(browser.rows('events')[-1]['What'] == 'started', 'events')

    def keys_agree():
        shown = {row['Namespace']: row['Keys'].replace(NARROW_SPACE, '') for row in browser.rows('namespaces')}
        return shown.get('(none)') == str(admin.get('DBSIZE')) and shown.get('shop') == '3'
    wait_for(keys_agree, 'key counts of namespaces')
    browser.find('namespace-search').send_keys('SHO')
    wait_for(lambda: [row['Namespace'] for row in browser.rows('namespaces')] == ['shop'], 'the namespace that is searched for')
    check(browser.rows('namespaces')[0]['Bytes'] != '–', 'its bytes')
    browser.find('namespace-search').send_keys(Keys.BACKSPACE * 3)
    wait_for(lambda: len(browser.rows('namespaces')) > 1, 'all namespaces')


def check_tables_fit(browser):
    """On a phone a row is a card: nothing in it is wider than the screen, cut off, or reached by scrolling sideways only."""
    check_equal(browser.run('''return [...document.querySelectorAll('main *')].filter(element => !element.closest('thead') &&
        (element.getBoundingClientRect().right > innerWidth || element.getBoundingClientRect().left < 0))
        .map(element => element.outerHTML.slice(0, 100))'''), [], 'elements beyond the edge')
    check_equal(browser.run('''return [...document.querySelectorAll('.scroll, td')].filter(element => element.clientWidth &&
        element.scrollWidth > element.clientWidth).map(element => element.outerHTML.slice(0, 100))'''), [], 'cells that are cut off')
    check(browser.run('''return [...document.querySelectorAll('#shards td, #storage td')].every(cell =>
        cell.getBoundingClientRect().height > 0 && getComputedStyle(cell, '::before').content !== '' &&
        parseFloat(getComputedStyle(cell).fontSize) >= 12)'''), 'cells that can be read')


def check_looks(browser):
    """Phone and desktop, light and dark: nothing overflows, and everything can be reached by keys."""
    for name, size in (('small-phone', SMALL_PHONE), ('phone', PHONE), ('desktop', DESKTOP)):
        for dark in (False, True):
            browser.look(size, dark)
            wait_for(lambda: browser.run('return innerWidth') == size[0], 'the viewport to be %d wide' % size[0])
            check_equal(browser.run('return document.documentElement.scrollWidth'), size[0], 'width of the page on a ' + name)
            check_equal(browser.run('''return [...document.querySelectorAll('main section')].filter(section =>
                section.getBoundingClientRect().right > innerWidth).map(section => section.className)'''), [], 'sections that stick out')
            if size != DESKTOP:
                check_tables_fit(browser)
            browser.shoot('%s-%s' % (name, 'dark' if dark else 'light'))
    browser.look(DESKTOP)
    unnamed = browser.run('''return [...document.querySelectorAll('[tabindex], button, input, [role=img]')]
        .filter(element => !(element.ariaLabel || element.innerText || element.labels?.length || element.getAttribute('aria-label')))
        .map(element => element.outerHTML)''')
    check_equal(unnamed, [], 'elements without a name')


def check_lost_shard(browser, cluster, names):
    browser.run('scrollTo(0, 0)')
    slot = next(slot for slot in range(16384) if cluster.shard_of_slot(slot) == 1 and (slot % 128 + slot // 128) % 6 < 2)
    before = browser.pixel(slot)
    cluster.backends[1].kill9()

    def states():
        return {row['Shard']: row['State'] for row in browser.rows('shards')}
    wait_for(lambda: states()[names[1]] == 'down', 'the shard to be shown as down')
    check(browser.pixel(slot) != before, 'its slots are hatched')
    check_equal((states()[names[0]], states()[names[2]]), ('up', 'up'), 'the others')
    wait_for(lambda: any(row['What'].startswith('shard down') and row['Details'].startswith(names[1])
                         for row in browser.rows('events')), 'the event')
    browser.shoot('shard-down')
    cluster.backends[1].start()
    wait_for(lambda: states()[names[1]] == 'up', 'the shard to be up again')
    wait_for(lambda: any(row['What'].startswith('shard up') for row in browser.rows('events')), 'the other event')


def check_refused_files(browser, cluster, admin):
    with open(cluster.shards_path, 'a') as file:
        file.write('nonsense\n')
    wait_for(lambda: 'files were refused' in browser.text('live'), 'the page to say that files are refused')
    cluster.write_shards()
    check(admin.get('SCREE', 'RELOAD').startswith(b'OK'), 'RELOAD')
    wait_for(lambda: browser.text('live').strip() == 'live', 'the page to be content')


@suite.case('the page agrees with SCREE and INFO, is updated, shows a lost shard, fits a phone, and logs no errors')
def _(run):
    with Browser() as browser, cluster_of() as cluster, enter(cluster, 'outside', 'admin') as admin, \
            enter(cluster, 'shop-token', 'shopper') as shopper:
        check_equal(shopper.get('MSET', '{a}1', 'v', '{a}2', 'v', '{a}3', 'v'), b'OK')
        names = [pairs(shard)[b'name'].decode() for shard in admin.get('SCREE', 'SHARDS')]
        with load(cluster, run.seed):
            browser.open(cluster.proxies[0])
            wait_for(lambda: len(browser.rows('shards')) == 3 and browser.text('live').strip() == 'live', 'the page')
            check_plots(browser, names)
            check_colours(run, browser, cluster)
            check_hover(run, browser, cluster, names)
            check_looks(browser)
        check_shards(browser, admin)
        check_lists(browser, admin)
        check(not browser.shown('links-section') and not browser.shown('transactions-section'), 'lists about a map of the backends')
        peers = [('127.0.0.1:%d' % proxy.admin, str(cluster.epoch), 'up') for proxy in cluster.proxies]
        wait_for(lambda: [(row['Proxy'], row['Map epoch'], row['State']) for row in browser.rows('peers')] == peers, 'the peers')
        check_lost_shard(browser, cluster, names)
        check_refused_files(browser, cluster, admin)
        check_equal(browser.complaints(), [], 'the console')
        check_equal(browser.driver.title, 'Scree ' + cluster.proxies[0].address[0] + ':%d' % cluster.proxies[0].port)


@suite.case('every line of a plot has a name, also when nothing calls the command now; lists can be sorted and end below a whole row')
def _(run):
    with Browser() as browser, cluster_of() as cluster, enter(cluster, 'outside') as client:
        browser.open(cluster.proxies[0])
        wait_for(lambda: len(browser.rows('storage')) == 3 and browser.rows('storage')[0]['Last backup'] == 'never', 'the page')
        check_equal(browser.run("return getComputedStyle(document.getElementById('hot-keys').closest('section')).alignSelf"), 'start',
                    'a card without rows')
        states = browser.run("return [...document.querySelectorAll('#storage .state.silent')].map(state => state.textContent)")
        check_equal(states, ['never'] * 3, 'shards without a backup are marked')
        for _ in range(20):
            client.get('STRLEN', 'k')
        for words in (['APPEND', 'a', 'x'], ['EXISTS', 'a'], ['TTL', 'a'], ['TYPE', 'a'], ['GETRANGE', 'a', '0', '1'], ['LLEN', 'l'], ['SCARD', 's'],
                      ['ZCARD', 'z'], ['HLEN', 'h'], ['HGETALL', 'h'], ['LRANGE', 'l', '0', '1'], ['SMEMBERS', 's'], ['EXPIRE', 'a', '9'],
                      ['PERSIST', 'a'], ['GETEX', 'a'], ['INCR', 'n'], ['DECR', 'n'], ['XLEN', 'x'], ['PTTL', 'a'], ['HKEYS', 'h']):
            client.get(*words)
        with load(cluster, run.seed):
            legend = "return document.querySelector('#command-latency + output').textContent"
            wait_for(lambda: 'strlen – (up to ' in browser.run(legend), 'the name of a command that is not called any more')
            check('set ' in browser.run(legend) and 'strlen – (up to ' in browser.run(
                "return document.getElementById('command-latency').getAttribute('aria-label')"), browser.run(legend))
        check(browser.run(ENDS_BELOW_A_ROW, 'commands'), 'the list of commands is longer than its card, and ends below a row')

        def sort(heading):
            browser.run("[...document.querySelectorAll('#shards .sort')].find(one => one.textContent === arguments[0]).click()", heading)
            return [row['Shard'] for row in browser.rows('shards')], browser.run(
                "return document.querySelector('#shards [aria-sort]')?.getAttribute('aria-sort') ?? null")
        names = [row['Shard'] for row in browser.rows('shards')]
        check_equal([sort('Shard') for _ in range(3)], [(names, 'ascending'), (names[::-1], 'descending'), (names, None)])
        slots = dict(zip(names, (int(row['Slots'].replace(NARROW_SPACE, '')) for row in browser.rows('shards'))))
        order, direction_ = sort('Slots')
        check_equal(([slots[name] for name in order], direction_), (sorted(slots.values(), reverse=True), 'descending'))
        cluster.backends[1].kill9()
        wait_for(lambda: 'lost connection' in browser.text('figures') and ', last at ' in browser.text('figures'), 'when a connection was lost')
        browser.shoot('sorted')
        check_equal(browser.complaints(), [], 'the console')


@suite.case('64 shards can be searched by name, address and state, and sorted; the list ends below a whole row')
def _(run):
    with Browser() as browser, Cluster(backends=2, partitions=32, proxies=1) as cluster:
        browser.open(cluster.proxies[0])
        wait_for(lambda: len(browser.rows('shards')) == 64, 'all shards')
        names = [row['Shard'] for row in browser.rows('shards')]
        addresses = {row['Shard']: row['Address'] for row in browser.rows('shards')}

        def search(text):
            browser.run("""const field = document.getElementById('shard-search');
                field.value = arguments[0]; field.dispatchEvent(new Event('input'))""", text)
            return [[row['Shard'] for row in browser.rows(table)] for table in ('shards', 'storage')]
        last = names[-1]
        check_equal(search(' %s ' % last.upper()), [[last]] * 2, 'by name')
        check(browser.text('shards-note').endswith('; 1 found'), browser.text('shards-note'))
        check_equal(search(addresses[names[40]]), [[names[40]]] * 2, 'by address')
        check_equal(search('no such shard'), [[], []], 'nothing')
        check_equal(search(''), [names, browser.run("return [...document.getElementById('storage').tBodies[0].rows].map(row => row.cells[0].textContent)")])
        browser.run("[...document.querySelectorAll('#shards .sort')].find(one => one.textContent === 'Shard').click()")
        numbered = [row['Shard'] for row in browser.rows('shards')]
        check_equal(numbered, sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r'(\d+)', name)]), 'sorted')
        check(browser.run(ENDS_BELOW_A_ROW, 'shards'), 'a row is cut')
        cluster.backends[1].kill9()
        wait_for(lambda: len(search('down')[0]) == 32, 'the shards that are down', pause=0.3)
        browser.shoot('64-shards')
        check_equal(browser.complaints(), [], 'the console')


ALL_WELL = '3, none of them is known to have a fault'


@suite.case('copies of shards are shown with the one that serves; one that is down, and one whose rows differ, need attention')
def _(run):
    with Browser() as browser, Voters(proxies=1, backend_options=UNHURRIED) as cluster:
        def rows():
            return {row['Copy']: row for row in browser.rows('copies')}
        addresses = ['%s:%d' % backend.addresses[0][:2] for backend in cluster.backends]
        leader = cluster.wait_leader()
        cluster.wait_follows(*[i for i in range(3) if i != leader])
        browser.open(cluster.proxies[0])
        wait_for(lambda: browser.shown('copies-section') and browser.text('copies-note') == ALL_WELL, 'the copies')
        check_equal({row['Kind'] for row in rows().values()}, {'voter'})
        wait_for(lambda: sorted((address, row['State']) for address, row in rows().items()) ==
                 sorted((address, 'serves' if i == cluster.serving() else 'follows') for i, address in enumerate(addresses)), 'the one that serves')
        check_equal(cluster.ask('SET', 'k', 'the right text'), b'OK')
        leader = cluster.wait_leader()
        cluster.wait_follows(*[i for i in range(3) if i != leader])
        cluster.backends[leader].kill9()
        damage.replace(cluster.backends[leader].data + '/partition-0', b'the right text', b'another letter')
        wait_for(lambda: browser.text('copies-note') == '1 of 3 need attention' and browser.rows('copies')[0]['State'] == 'down', 'the copy to be shown as down')
        check_equal(browser.rows('copies')[0]['Copy'], addresses[leader])
        wait_for(lambda: sorted(row['State'] for row in rows().values()) == ['down', 'follows', 'serves'], 'another one to serve')
        browser.run("document.getElementById('copies').scrollIntoView()")
        browser.shoot('copy-down')
        cluster.backends[leader].start()
        wait_for(lambda: browser.text('copies-note') == ALL_WELL, 'the copy to be back')

        def differs():  # a copy that has just come back may take no part in a comparison
            with contextlib.suppress(OSError, Closed), cluster.copy(cluster.wait_leader()) as client:
                client.get('SCREE', 'REPLICAS', 'HASH')
            return browser.text('copies-note') == '1 of 3 need attention' and browser.rows('copies')[0]['Rows'] == 'differ'
        wait_for(differs, 'the copy with another row to be marked', pause=0.2)
        check_equal(browser.rows('copies')[0]['Copy'], addresses[leader])
        browser.look(PHONE)
        wait_for(lambda: browser.run('return innerWidth') == PHONE[0], 'the viewport of a phone')
        check_equal(browser.run('return document.documentElement.scrollWidth'), PHONE[0], 'width of the page on a phone')
        check_equal(browser.complaints(), [], 'the console')


def check_links(browser, names):
    rows = browser.rows('links')
    check_equal(sorted((row['From'], row['To']) for row in rows), [(a, b) for a in names for b in names if a != b], 'links')
    wait_for(lambda: {row['State'] for row in browser.rows('links')} == {'up'}, 'them to be up, with one map')
    wait_for(lambda: {(row['Waiting'], row['Unsent']) for row in browser.rows('links')} == {('0', '0 B')}, 'nothing to wait')
    wait_for(lambda: all(row['Round trip'].endswith(('µs', 'ms', 's')) for row in browser.rows('links')), 'round trips')
    check_equal(browser.text('links-note'), '6, all of them up')


def check_lost_link(browser, cluster, names):
    """Rows of a backend that is down go away, and the links of the others to it come first, as down with the reason."""
    cluster.backends[2].kill9()
    wait_for(lambda: browser.text('links-note') == '2 of 4 are not up', 'the links to be shown as down')
    rows = browser.rows('links')
    check_equal([(row['From'], row['To'], row['State']) for row in rows[:2]], [(names[i], names[2], 'down') for i in (0, 1)], 'the first rows')
    check('refused' in browser.text('links') or 'closed' in browser.text('links'), 'the reason')
    browser.run("document.getElementById('links').scrollIntoView()")
    browser.shoot('link-down')


@suite.case('links between backends and transactions over shards are shown where backends have a map; faults are marked')
def _(run):
    with Browser() as browser, cluster_of(linked=True) as cluster, enter(cluster, 'outside', 'admin') as client:
        names = ['b%dp0' % i for i in range(3)]
        a, b, c = [cluster.key_on(i) for i in range(3)]
        browser.open(cluster.proxies[0])
        wait_for(lambda: browser.shown('links-section') and len(browser.rows('links')) == 6, 'the links')
        check_links(browser, names)
        for words in (['MULTI'], ['SET', a, 'x'], ['SET', b, 'x'], ['SET', c, 'x'], ['EXEC']):
            check(not isinstance(client.get(*words), Exception), words)
        check_equal(client.get('RENAME', a, b), b'OK')

        def transactions():
            return {row['Shard']: row for row in browser.rows('transactions')}
        wait_for(lambda: sum(int(row['Committed']) for row in transactions().values()) == 2, 'the transactions to be counted')
        # the figures of a shard may be of before its locks were released
        wait_for(lambda: {(row['In doubt'], row['Locked keys']) for row in transactions().values()} == {('0', '0')}, 'the locks to be gone')
        check_equal({row['Failed'] for row in transactions().values()}, {'0'})
        browser.look(PHONE)
        wait_for(lambda: browser.run('return innerWidth') == PHONE[0], 'the viewport of a phone')
        check_equal(browser.run('return document.documentElement.scrollWidth'), PHONE[0], 'width of the page on a phone')
        browser.look(DESKTOP)
        check_lost_link(browser, cluster, names)
        cluster.backends[2].start()
        wait_for(lambda: browser.text('links-note') == '6, all of them up', 'the links to be up again')

        leave_in_doubt(cluster)
        wait_for(lambda: browser.text('transactions-note').startswith('2 in doubt'), 'the transaction in doubt')
        check_equal({(row['Shard'], row['In doubt']) for row in browser.rows('transactions')}, {(names[0], '1'), (names[2], '1')})
        check(browser.run("return document.querySelector('#transactions .state.down') !== null"), 'the mark')
        browser.run("document.getElementById('links').scrollIntoView()")
        browser.shoot('in-doubt')
        cluster.backends[1].start()
        wait_for(lambda: browser.text('transactions-note') == 'since the start of each backend', 'nothing to be in doubt')
        wait_for(lambda: all(row['Locked keys'] == '0' for row in transactions().values()), 'no key to be locked')
        check_equal(browser.complaints(), [], 'the console')


def check_storage(browser, cluster):
    """Checks the table against INFO of each shard."""
    def rows():
        return {row['Shard']: row for row in browser.rows('storage')}
    for index, (name, _, _) in enumerate(cluster.shard_addresses()):
        text = cluster.partition(index).get('INFO', 'scree', 'rocksdb').decode()
        own = dict(line.split(':', 1) for line in text.splitlines() if ':' in line)
        wait_for(lambda: rows()[name]['Keys'].replace(NARROW_SPACE, '') == own['keys_all_namespaces'], 'the keys of ' + name)
        row = rows()[name]
        check_equal((row['State'], row['Last backup'], row['Certificate']), ('writable', 'never', '–'), name)
        level0 = [int(value.split('level0_files=')[1].split(',')[0]) for field, value in own.items() if field.startswith('store_cf_')]
        check(row['Level 0'].isdigit() and abs(int(row['Level 0']) - max(level0)) <= 1, 'files of level 0: %s, %s' % (row['Level 0'], level0))
        check(row['Disk free'].endswith('B') and row['Memory'].endswith('MB') and row['Compaction'] in ('idle', 'running'), row)


@suite.case('the status document has figures of storage and backups of each shard, also of a read-only and of a silent one')
def _(run):
    with FaultyDisk() as disk, tempfile.TemporaryDirectory() as backups, Browser() as browser, \
            Cluster(backends=3, partitions=1, proxies=1, disk=disk, backend_options={'backend': {'backup-dir': backups}}) as cluster, \
            cluster.connect(timeout=30) as client:
        names = [name for name, _, _ in cluster.shard_addresses()]

        def state(i):
            return next(row for row in browser.rows('storage') if row['Shard'] == names[i])['State']
        client.pipeline([['SET', 'key:%d' % i, 'v'] for i in range(1500)])
        browser.look(DESKTOP)
        browser.open(cluster.proxies[0])
        wait_for(lambda: [row['State'] for row in browser.rows('storage')] == ['writable'] * 3, 'the figures of all shards')
        check_storage(browser, cluster)
        check(not isinstance(client.get('SCREE', 'BACKUP', 'START', 'NAME', 'one', 'WAIT', 'LEASE', '15000'), Exception), 'a backup')
        wait_for(lambda: all(row['Last backup'].endswith(' s ago') for row in browser.rows('storage')), 'the time of the backup')

        disk.fail(SYNC_LOG, 1, -1, errno.EIO)
        check(isinstance(client.get('SET', cluster.key_on(0), 'v'), Exception), 'a write that is not on disk')
        cluster.backends[1].pause()
        wait_for(lambda: (state(0), state(1), state(2)) == ('read-only', 'no answer', 'writable'), 'the faults')
        silent = next(row for row in browser.rows('storage') if row['Shard'] == names[1])
        check_equal(silent['Last backup'][-3:], 'ago', 'the last figures of a silent shard')
        cluster.write_shards()
        cluster.proxies[0].reload()
        wait_for(lambda: 'map epoch %d ' % cluster.epoch in browser.text('facts'), 'the new map')
        wait_for(lambda: (state(0), state(1), state(2)) == ('read-only', 'no answer', 'writable'), 'the faults with the new map')
        silent = next(row for row in browser.rows('storage') if row['Shard'] == names[1])
        check_equal(silent['Last backup'][-3:], 'ago', 'the last figures, after the map has changed')
        check('figures of ' in browser.text('storage') and browser.text('storage-note').startswith('2 of 3 '), 'their age')
        check_equal({row['Shard'] for row in browser.rows('storage')[:2]}, set(names[:2]), 'faults come first')
        wait_for(lambda: browser.text('live').strip() == 'live', 'the page to be live with a silent shard')
        browser.run("document.getElementById('storage').scrollIntoView()")
        browser.shoot('storage-faults')
        cluster.backends[1].resume()
        wait_for(lambda: state(1) == 'writable', 'the shard to answer again')
        check_equal(browser.complaints(), [], 'the console')


@suite.case('slots have the colour of their owner; those that the map gives to another shard say where they are to move')
def _(run):
    with cluster_of(linked=True) as cluster, enter(cluster, 'outside') as admin, Browser() as browser:
        names = [name for name, _, _ in cluster.shard_addresses()]
        browser.look(DESKTOP)
        browser.open(cluster.proxies[0])
        wait_for(lambda: ' · settled' in browser.text('map-note'), 'a settled map')
        first, last, before = browser.pixel(0), browser.pixel(16383), browser.pixel(4001)
        check_equal(admin.get('SCREE', 'MAP', 'PAUSE'), b'OK')
        cluster.write_shards(['0-3999', '5461-10922', '4000-5460 10923-16383'])
        for process in cluster.backends + cluster.proxies:
            process.signal(signal.SIGHUP)
        wait_for(lambda: '1.46k slots to move' in browser.text('map-note'), 'the difference: ' + browser.text('map-note'))
        check_equal((browser.pixel(0), browser.pixel(16383)), (first, last), 'colours of slots that stay')
        check_equal({tuple(browser.pixel(slot)) for slot in (4001, 4000)}, {tuple(before), tuple(last)}, 'two colours alternate')
        wanted = 'shard %s (up) · to be moved to %s' % (names[0], names[2])
        wait_for(lambda: wanted in says_at(browser, 4500), '%r of the slot at the pointer' % wanted)
        browser.shoot('slots-to-move')
        check_equal(admin.get('SCREE', 'MAP', 'RESUME'), b'OK')
        wait_for(lambda: ' · settled' in browser.text('map-note'), 'the moves to end')
        wait_for(lambda: browser.pixel(4001) == last, 'the colour of the new owner')
        truth = document_of(cluster.proxies[0])['map']['truth']
        check_equal((truth['is_settled'], truth['to_move'], truth['differences'], truth['moves']), (True, 0, [], []))
        check_equal(browser.complaints(), [], 'complaints')


def history_of(proxy):
    return json.loads(proxy.http('/status/history.json')[1])


@suite.case('the status page has plots of the last minutes when it is first opened, and after a reload')
def _(run):
    with Browser() as browser, cluster_of() as cluster:
        proxy = cluster.proxies[0]
        names = [name for name, _, _ in cluster.shard_addresses()]
        with load(cluster, run.seed):
            wait_for(lambda: any(sum((value or 0) > 0 for value in series['rate']) >= 3
                                 for series in history_of(proxy)['commands'] if series['name'] == 'get'), 'GETs in the history')
        saved = history_of(proxy)
        lists = [saved['at_ms']] + list(saved['totals'].values())
        lists += [series[figure] for kind in ('shards', 'commands') for series in saved[kind] for figure in ('rate', 'p50', 'p99')]
        check_equal({len(values) for values in lists}, {len(saved['at_ms'])}, 'numbers of values')
        check_equal({series['name'] for series in saved['shards']}, set(names), 'shards')
        check(saved['at_ms'] == sorted(saved['at_ms']) and saved['totals']['requests'][0] is None, 'times')
        check(max(value or 0 for value in saved['totals']['memory']) > 1e6, 'memory')

        for _ in range(2):
            browser.open(proxy)
            wait_for(lambda: len(browser.rows('shards')) == 3, 'the page')
            canvas = browser.find('command-rates')

            def reads_the_past():
                """Moves the crosshair back until it shows the load."""
                canvas.send_keys(Keys.ARROW_LEFT)
                return any(' get ' in label and ' get 0/s' not in label and ': ' in label
                           for label in [canvas.get_attribute('aria-label')])
            wait_for(reads_the_past, 'the load before the page was opened')
            check_equal(browser.run("return document.querySelectorAll('#figures canvas').length"), 4, 'small plots')
        check_equal(browser.complaints(), [], 'the console')


@suite.case('with admin-token the page asks for it, keeps it for the tab, and has no data before')
def _(run):
    with Browser() as browser, cluster_of(**{'admin-token': 'the admin token'}) as cluster:
        proxy = cluster.proxies[0]
        for path in ('/status.json', '/status/history.json', '/status/self', '/nosuch'):
            check_equal(proxy.http(path)[0], 401, path)
        browser.open(proxy, '/status')
        wait_for(lambda: browser.shown('login'), 'the page to ask')
        check(not browser.shown('main') and browser.rows('shards') == [], 'no data without the token')
        for word in ('wrong', 'the admin token'):
            browser.find('token').send_keys(word + Keys.ENTER)
            wait_for(lambda: browser.text('refused') or browser.shown('main'), 'an answer to %r' % word)
        wait_for(lambda: browser.shown('main') and not browser.shown('login'), 'the page')
        check_equal(len(browser.rows('shards')), 3)
        wait_for(lambda: {row['State'] for row in browser.rows('peers')} == {'up'} and len(browser.rows('peers')) == 2,
                 'peers to be asked with the token')
        browser.driver.refresh()
        wait_for(lambda: browser.shown('main') and len(browser.rows('shards')) == 3, 'the page, without asking again')
        browser.find('forget').click()
        wait_for(lambda: browser.shown('login') and not browser.shown('main'), 'the page to ask again')
        check(all(' 401 ' in entry['message'] for entry in browser.complaints()), 'the console')


# ---- without a browser -------------------------------------------------------------------------------------------

@suite.case('counters of the document are exact: by shard, command and namespace')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as client, enter(cluster, 'shop-token') as shopper:
        proxy = cluster.proxies[0]

        def new_document():
            """A document generated after this call; documents are cached for a moment."""
            made = document_of(proxy)['mono_ms']
            found = []
            wait_for(lambda: found.append(document_of(proxy)) or found[-1]['mono_ms'] > made, 'a new document')
            return found[-1]

        def counts(document, kind):
            return {row['name']: row['requests'] for row in document[kind]}
        before = new_document()
        names = [shard['name'] for shard in before['map']['shards']]
        for i, amount in enumerate((10, 20, 30)):
            client.pipeline([['GET', cluster.key_on(i)]] * amount)
        shopper.pipeline([['SET', 'mine', 'v']] * 7)
        after = new_document()
        grown = [counts(after['map'], 'shards')[name] - counts(before['map'], 'shards')[name] for name in names]
        shop = cluster.shard_of('mine')
        check_equal(grown, [amount + (7 if i == shop else 0) for i, amount in enumerate((10, 20, 30))], 'by shard')
        commands = counts(after, 'commands')
        check_equal((commands['get'], commands['set']), (60, 7), 'by command')
        for row in after['commands'] + after['map']['shards']:
            check(sum(row['latency']) <= row['requests'], 'times of %s' % row['name'])
        check_equal(sum(next(row for row in after['commands'] if row['name'] == 'get')['latency']), 60, 'each is timed')
        spaces = counts(after, 'namespaces')
        check_equal(spaces['shop'], 8, 'by namespace: AUTH, too')
        check_equal(len(after['latency_bounds_us']) + 1, len(after['commands'][0]['latency']), 'bounds')


@suite.case('requests of a namespace with keys of several shards are counted; if they are many, what may lower them is said')
def _(run):
    spaces = {'shop': {'token': 'shop-token'}, 'fields': {'token': 'fields-token', 'slot-rule': 'prefix:::2'}, 'small': {'token': 'small-token'}}
    with Cluster(backends=2, linked=True, namespaces=spaces) as cluster:
        proxy = cluster.proxies[0]
        one, two, field = cluster.key_on(0), cluster.key_on(1), [next(name for name in ('%d:x:' % i for i in range(1000)) if cluster.shard_of(name[:-1]) == shard) for shard in (0, 1)]
        for token, keys, count in (('shop-token', (one, two), 1000), ('fields-token', field, 1000), ('small-token', (one, two), 3)):
            with enter(cluster, token) as client:
                replies = client.pipeline([['RENAME', *keys], ['EVAL', 'return 1', '2', *keys], ['MULTI'], ['INCR', keys[0]], ['INCR', keys[1]], ['EXEC'],
                                           ['MSET', keys[0], '1', keys[0], '2']] + [['SMOVE', *keys, 'x']] * (count - 3))
                check_equal((len(replies), replies[1]), (count + 4, (':', b'1')), token)
        shown = {}

        def are_counted():
            shown.update((row['name'], row) for row in document_of(proxy)['namespaces'])
            return [shown[name]['over_shards'] for name in ('shop', 'fields', 'small')] == [1000, 1000, 3]
        wait_for(are_counted, lambda: 'the counts: %s' % shown)
        check_equal([shown[name].get('advice') for name in ('', 'small', 'shop', 'fields')],
                    [None, None, 'a {tag} in the names of keys that belong together, or a slot-rule', 'a slot-rule with fewer fields, or fixed:SLOT'])
        check('scree_proxy_namespace_over_shards_total{tenant="shop"} 1000' in proxy.http('/metrics')[1], 'the metric')


@suite.case('the status document shows when the certificates of the proxy and of the shards expire')
def _(run):
    with Cluster(backends=1, partitions=1, proxies=1, tls=True) as cluster:
        found = []

        def is_complete():
            found.append(document_of(cluster.proxies[0]))
            return found[-1]['map']['shards'][0]['storage'] is not None
        wait_for(is_complete, 'the figures of the shard')
        proxy, storage = found[-1]['proxy'], found[-1]['map']['shards'][0]['storage']
        days = [(at - time.time()) / 86400 for at in (proxy['certificate_expires_s'], proxy['upstream_certificate_expires_s'],
                                                      storage['certificate_expires_s'])]
        check(all(0 < day < 3 for day in days), 'days left: %s' % days)


@suite.case('any bytes as keys and names give a valid document of bounded size')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as client:
        proxy = cluster.proxies[0]
        names = [bytes(run.rng.randrange(256) for _ in range(200)) for _ in range(30)]
        names += [b'', b'\x00', b'"', b'\\', b'</script>', '\u202e\u2028\ufeff'.encode(), b'\xed\xa0\x80', b'x' * 2000000]
        with enter(cluster, 'outside', '<b>"\\') as other:
            for _ in range(3):
                client.pipeline([['GET', name] for name in names] * 5)
                other.get('PING')
            document = document_of(proxy)
            size = len(json.dumps(document))
            check(size < 300000, 'size %d' % size)
            check(any(row['name'] == '<b>"\\\\' for row in document['clients']), 'a name, its backslash doubled')
        shown = [row['key'] for row in document['hot_keys']] + [word for row in document['slow_log'] for word in row['arguments']]
        hidden = {'Cc', 'Cs', 'Co', 'Zl', 'Zp'}
        for text in shown:
            check(len(text) < 700 and not hidden.intersection(map(unicodedata.category, text)) and '\u202e' not in text, repr(text))
        check(len(shown) > 20, 'texts %d' % len(shown))
        for path in ('/', '/status', '/status/page.js', '/status.json'):
            with urllib.request.urlopen('http://127.0.0.1:%d%s' % (proxy.admin, path), timeout=patience()) as answer:
                policy = answer.headers['Content-Security-Policy']
                check("default-src 'none'" in policy and 'unsafe' not in policy, 'policy %r' % policy)
                check_equal(answer.headers['X-Content-Type-Options'], 'nosniff')


@suite.case('the status page shows no proxy as down because shards are silent')
def _(run):
    with cluster_of() as cluster:
        proxy = cluster.proxies[0]
        wait_for(lambda: sum(peer['is_up'] for peer in document_of(proxy)['peers']) == 2, 'the proxies to be listed')
        for backend in cluster.backends[1:]:
            backend.pause()
        wait_for(lambda: sum(shard['state'] != 'up' for shard in document_of(proxy)['map']['shards']) == 2,
                 'the page to show two silent shards')
        looks = []  # on a busy machine a proxy may not answer another one within half a second
        for _ in range(20):
            looks.append([peer['is_up'] for peer in document_of(proxy)['peers']])
            time.sleep(0.2)
        wait_for(lambda: [peer['is_up'] for peer in document_of(proxy)['peers']] == [True, True], 'the proxies to be up')
        check(looks.count([True, True]) >= 10, 'the proxies: %r' % looks)
        for backend in cluster.backends[1:]:
            backend.resume()


@suite.case('many requests for the page are answered while the map changes and the proxy stops')
def _(run):
    with cluster_of() as cluster, enter(cluster, 'outside') as admin:
        proxy = cluster.proxies[0]
        stopping = threading.Event()
        epochs, wrong = set(), []

        def play():
            while not stopping.is_set():
                try:
                    epochs.add(document_of(proxy)['map']['epoch'])
                except (OSError, urllib.error.URLError):
                    pass
                except ValueError as error:
                    wrong.append(error)
        threads = [threading.Thread(target=play, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for slots in (['0-9', '10-5000', '5001-16383'], ['0-8000', '8001-8001', '8002-16383']):
            cluster.write_shards(slots)
            check(admin.get('SCREE', 'RELOAD').startswith(b'OK'), 'RELOAD')
            wait_for(lambda: cluster.epoch in epochs, 'a document with epoch %d' % cluster.epoch)
        with open(cluster.shards_path, 'a') as file:
            file.write('nonsense\n')
        check(isinstance(admin.get('SCREE', 'RELOAD'), Exception), 'a bad map')
        wanted = {'reload-refused', 'map-changed', 'reloaded', 'started'}
        wait_for(lambda: wanted <= {event['kind'] for event in document_of(proxy)['events']}, 'all events')
        proxy.stop()
        stopping.set()
        for thread in threads:
            thread.join()
        check_equal(wrong, [], 'documents that are no JSON')
        cluster.write_shards()
        proxy.start()


if __name__ == '__main__':
    suite.main()
