#!/usr/bin/python3
"""celery_jobs.py HOST PORT JOBS - what an application asks of Celery with Redis as broker and for results; prints {step: seconds} as
JSON.
"""

import logging
import sys

import celery
from celery.contrib.testing.worker import start_worker

from steps import Steps

ADDRESS = 'redis://%s:%s/0' % (sys.argv[1], sys.argv[2])
app = celery.Celery('celery_jobs', broker=ADDRESS, backend=ADDRESS)
app.conf.update(worker_hijack_root_logger=False, broker_connection_retry_on_startup=True)


@app.task(name='double')
def double(number):
    return number * 2


def main():
    jobs = int(sys.argv[3])
    logging.disable(logging.INFO)
    step = Steps()
    with step('send, one by one'):
        sent = [double.delay(number) for number in range(jobs)]
    with step('work, 4 at once'):
        with start_worker(app, concurrency=4, pool='threads', perform_ping_check=False, shutdown_timeout=60):
            got = [one.get(timeout=600) for one in sent]
    assert got == [2 * number for number in range(jobs)]
    with step('forget, one by one'):
        for one in sent:
            one.forget()
    step.print()


if __name__ == '__main__':
    main()
