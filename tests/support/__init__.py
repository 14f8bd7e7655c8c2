"""What the scripts of tests/ share: a cluster, connections, cases, faults, models.

Each folder of scripts has a link to this package, so that a script runs by its name alone, from any folder and without a
search path of its own:

    SCREE_BIN=build/release tests/integration/test_kill9.py --rounds 3
"""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # of the repository
TESTS = os.path.join(ROOT, 'tests')
