"""A job that is requeued after each page loses no page, even with a busy worker."""

from __future__ import annotations

from collections import Counter

from shoal.core.events import PostCreated
from shoal.graph.contract import Job
from shoal.outbox.rabbitmq import RabbitOutbox
from shoal.outbox.runner import Runner
from tests.async_runner import in_loop
from tests.engines import rabbitmq
from tests.stores import ANN

_PAGES = 20


async def _page(pages: Counter[int], event: PostCreated, mark: int) -> int | None:
    pages[event.post_id] += 1
    return mark + 1 if mark + 1 < _PAGES else None


@in_loop
async def test_rabbitmq_outbox_job_redelivered_before_its_requeue_is_confirmed_is_not_lost() -> None:
    pages: Counter[int] = Counter()
    outbox = await RabbitOutbox.open(rabbitmq.node().url, namespace=rabbitmq.namespace())
    runner = Runner(outbox, {PostCreated: (_page,)}, pages, concurrency=8, poll_seconds=0.05)
    await outbox.send([Job(n, PostCreated(post_id=n, author_id=ANN)) for n in range(1, 51)])
    runner.start()
    await runner.drain()
    await runner.stop()
    await outbox.close()
    assert {job for job in range(1, 51) if pages[job] < _PAGES} == set()
