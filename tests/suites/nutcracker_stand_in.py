"""nutcracker_stand_in.py - the tests of nutcracker at one address: `pytest -p nutcracker_stand_in`, with the address in SUITE_ADDRESS.

The suite starts nutcracker and its servers itself; here all of them are that address. A test that stops a server, signals nutcracker
or reads its statistics is skipped. The suite was written for nose, of which it needs one name.
"""

import os
import sys
import types

import pytest

OWN = ('start', 'stop', 'signal', 'cleanlog', 'slaveof', '_info_dict')


class Server:
    def __init__(self, *_given, **_options):
        self.where, _, self.number = os.environ['SUITE_ADDRESS'].rpartition(':')

    def host(self):
        return self.where

    def port(self):
        return int(self.number)

    def __getattr__(self, name):
        if name not in OWN:
            raise AttributeError(name)
        pytest.skip('%s: for a nutcracker and servers of its own' % name)


def module(name, **names):
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(names)


module('server_modules', RedisServer=Server, NutCracker=Server)
module('nose')
module('nose.tools', nottest=lambda function: function)
