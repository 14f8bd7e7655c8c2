"""steps.py - times the steps of a program, and prints {step: seconds} as JSON."""

import contextlib
import json
import time


class Steps:
    def __init__(self):
        self.took = {}

    @contextlib.contextmanager
    def __call__(self, name):
        begun = time.perf_counter()
        yield
        self.took[name] = time.perf_counter() - begun

    def print(self):
        print(json.dumps(self.took), flush=True)
