#!/usr/bin/python3
"""dramatiq_calls.py HOST PORT JOBS - the requests of dramatiq, whose package Debian lacks: one script for everything, which
declares only its prefix as key and makes the names of all others; prints {step: seconds} as JSON.
"""

import sys
import threading
import time

import redis

from steps import Steps

WORKERS, PREFETCH = 8, 16

SCRIPT = """
local action, now, queue, worker = ARGV[1], ARGV[2], KEYS[1] .. ':' .. ARGV[3], ARGV[4]
local messages, taken = queue .. '.msgs', KEYS[1] .. ':__acks__.' .. worker .. '.' .. ARGV[3]
redis.call('ZADD', KEYS[1] .. ':__heartbeats__', now, worker)
if action == 'enqueue' then
    redis.call('HSET', messages, ARGV[5], ARGV[6])
    redis.call('RPUSH', queue, ARGV[5])
elseif action == 'fetch' then
    local ids = {}
    for i = 1, tonumber(ARGV[5]) do
        local id = redis.call('LPOP', queue)
        if not id then
            break
        end
        ids[i] = id
        redis.call('SADD', taken, id)
    end
    return #ids > 0 and redis.call('HMGET', messages, unpack(ids)) or ids
elseif redis.call('SREM', taken, ARGV[5]) > 0 then
    redis.call('HDEL', messages, ARGV[5])
end
return {}
"""


class Broker:
    def __init__(self, host, port, worker):
        self.connection = redis.Redis(host, port)
        self.script, self.worker = self.connection.register_script(SCRIPT), worker

    def call(self, action, *words):
        return self.script(['dramatiq'], [action, int(time.time() * 1000), 'default', self.worker, *words])


def drain(broker, done):
    while fetched := broker.call('fetch', PREFETCH):
        for message in fetched:
            broker.call('ack', message.decode().split()[0])
            done.append(message)


def in_threads(brokers, function):
    threads = [threading.Thread(target=function, args=(broker,)) for broker in brokers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    host, port, jobs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    step, done = Steps(), []
    brokers = [Broker(host, port, 'worker%d' % number) for number in range(WORKERS)]
    with step('enqueue, one by one'):
        for number in range(jobs):
            brokers[0].call('enqueue', 'id%d' % number, 'id%d %s' % (number, 'x' * 200))
    with step('fetch and acknowledge, %d workers' % WORKERS):
        in_threads(brokers, lambda broker: drain(broker, done))
    assert len(set(done)) == len(done) == jobs, '%d messages, %d jobs' % (len(done), jobs)
    assert not brokers[0].connection.exists('dramatiq:default', 'dramatiq:default.msgs')
    step.print()


if __name__ == '__main__':
    main()
