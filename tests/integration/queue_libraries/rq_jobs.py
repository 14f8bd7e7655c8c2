#!/usr/bin/python3
"""rq_jobs.py HOST PORT JOBS - what an application asks of rq, with its default names; prints {step: seconds} as JSON."""

import logging
import sys

import redis
import rq

from steps import Steps


def double(number):
    return number * 2


def main():
    host, port, jobs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    logging.disable(logging.INFO)
    step, connection = Steps(), redis.Redis(host, port)
    queue = rq.Queue(connection=connection)
    with step('enqueue, one by one'):
        added = [queue.enqueue('rq_jobs.double', number) for number in range(jobs)]
    with step('work, one by one'):
        rq.SimpleWorker([queue], connection=connection).work(burst=True)
    assert [job.result for job in added] == [double(number) for number in range(jobs)]
    with step('enqueue many'):
        queue.enqueue_many([queue.prepare_data('rq_jobs.double', (number,)) for number in range(jobs)])
    assert len(queue) == jobs
    with step('empty'):
        queue.empty()
    assert len(queue) == 0 and queue.finished_job_registry.count == jobs
    with step('delete, one by one'):
        for job in added:
            job.delete()
    assert queue.finished_job_registry.count == 0
    step.print()


if __name__ == '__main__':
    main()
