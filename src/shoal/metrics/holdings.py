"""Figures of what a process holds and has in hand: timelines, caches, statements, pictures, clips, letters and messages."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric

from shoal.metrics.families import Families
from shoal.push.courier import Sent
from shoal.timelines.memory import MemoryTimelines
from shoal.wiring import Network

_ENTRY_BYTES = 8


class HoldingFigures:
    """A source of these figures. Nothing is asked for them: they are counted in this process."""

    def __init__(self, network: Network) -> None:
        self._network = network

    async def read(self) -> Iterable[Metric]:
        """Return the figures as they are now."""
        families = Families()
        self._add_timelines(families)
        for name, memory in self._network.memory.memories.items():
            families.add("shoal_cache_entries", len(memory), name)
            if memory.asked:
                families.add("shoal_cache_asked_total", memory.asked, name)
                families.add("shoal_cache_missed_total", memory.missed, name)
        for name, sent in self._network.statements.sent().items():
            families.add("shoal_statements_total", sent, name)
        self._add_media(families)
        self._add_letters(families)
        self._add_messages(families)
        return families.made()

    def _add_timelines(self, families: Families) -> None:
        timelines = self._network.timelines
        if isinstance(timelines, MemoryTimelines):
            families.add("shoal_warm_timelines", len(timelines))
            families.add("shoal_warm_timelines_most", timelines.capacity)
            families.add("shoal_timelines_bytes", len(timelines) * timelines.length * _ENTRY_BYTES)

    def _add_media(self, families: Families) -> None:
        decoder, workshop = self._network.media.decoder, self._network.effects.workshop
        families.add("shoal_pictures_decoding", decoder.busy)
        families.add("shoal_pictures_waiting", decoder.waiting)
        families.add("shoal_clips_at_work", workshop.at_work)
        families.add("shoal_clips_waiting", workshop.waiting)

    def _add_letters(self, families: Families) -> None:
        postman = self._network.effects.postman
        if postman is not None:
            families.add("shoal_letters_under_way", postman.under_way)
            families.add("shoal_letters_sent_total", postman.sent)
            families.add("shoal_letters_refused_total", postman.refused)
            families.add("shoal_letters_put_off_total", postman.put_off)

    def _add_messages(self, families: Families) -> None:
        courier = self._network.effects.courier
        if courier is not None:
            families.add("shoal_push_messages_under_way", courier.under_way)
            for outcome in Sent:
                families.add("shoal_push_messages_total", courier.outcomes[outcome], outcome.value)
            families.add("shoal_push_messages_total", courier.put_off, "put_off")
