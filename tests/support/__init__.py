"""Shared by the scripts of tests/: a cluster, connections, cases, faults, models.

Each folder of scripts has a link to this package, so that a script can be run from any folder without a search path:

    SCREE_BIN=build/release tests/integration/test_kill9.py --rounds 3
"""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # of the repository
TESTS = os.path.join(ROOT, 'tests')
