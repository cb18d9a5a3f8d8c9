"""A background worker in a server process. It reads and imports uploaded archives, one at a time.

If an import was interrupted because the server stopped or was killed, the next process that uses the folder resumes it.
An archive fails if the server was killed while it read the archive for the first time, or if several attempts to import
the archive made no progress.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from msgspec.structs import replace

from shoal.admin.archives.entries import MAX_UNPACKED
from shoal.admin.archives.importer import Space, import_archive
from shoal.admin.archives.records import ArchiveReport
from shoal.admin.archives.storage import ArchiveState, ArchiveStorage, Discarded
from shoal.admin.contract import AnyNetwork
from shoal.core.errors import ShoalError, StorageFull, Unavailable
from shoal.core.ids import now_ms
from shoal.graph.access import members_by_id
from shoal.tasks import BackgroundWorker

_log = logging.getLogger(__name__)

_EVERY_SECONDS = 1.0
_SAVE_SECONDS = 0.5
_BACKOFF_SECONDS = 30.0
"""Backoff of an import while the store is unavailable, in seconds."""
_SWEEP_SECONDS = 3_600.0
_MOST_ATTEMPTS = 5
_UNPACKED = 4
"""Maximum bytes of an unpacked archive, as a multiple of the maximum bytes of an upload."""
_INTERNAL = "an internal error occurred; see the server's log"
_KILLED = "the server was stopped while it read this archive; discard the archive and upload it again"
_TOO_MANY_ATTEMPTS = "the server stopped several times while it imported this archive"


class ArchiveWorker(BackgroundWorker):
    task_name = "shoal-archives"

    def __init__(
        self,
        network: AnyNetwork,
        archive_storage: ArchiveStorage,
        *,
        every: float = _EVERY_SECONDS,
        save_every: float = _SAVE_SECONDS,
        backoff_seconds: float = _BACKOFF_SECONDS,
    ) -> None:
        """Create a worker.

        The intervals in seconds are: between checks for work, between saves of the progress, and before a retry.
        """
        self.archive_storage = archive_storage
        self._network = network
        self._every = every
        self._save_every = save_every
        self._backoff_seconds = backoff_seconds
        self._retry_at: dict[int, float] = {}

    async def once(self) -> None:
        for member_id in await asyncio.to_thread(self.archive_storage.waiting):
            if self._retry_at.get(member_id, 0.0) <= asyncio.get_running_loop().time():
                self._retry_at.pop(member_id, None)
                await self._work(member_id)

    async def sweep(self) -> None:
        await asyncio.to_thread(self.archive_storage.sweep, now_ms())
        owners = await asyncio.to_thread(self.archive_storage.members)
        there = await members_by_id(self._network.writes.graph, owners) if owners else {}
        for gone in set(owners) - there.keys():
            await asyncio.to_thread(self.archive_storage.discard, gone)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        swept = -_SWEEP_SECONDS
        while True:
            try:
                if loop.time() - swept >= _SWEEP_SECONDS:
                    await self.sweep()
                    swept = loop.time()
                await self.once()
            except Exception:  # noqa: BLE001  # the folder or the store may recover
                _log.exception("checking for archives to import failed")
            await asyncio.sleep(self._every)

    async def _work(self, member_id: int) -> None:
        lock = await asyncio.to_thread(self.archive_storage.claim, member_id)
        if lock is None:
            return
        try:
            state = await asyncio.to_thread(self.archive_storage.state, member_id)
            if state is not None and state.phase in {"looking", "taking"}:
                await self._carry_out(member_id, state)
        except Discarded:
            return
        finally:
            lock.close()

    async def _carry_out(self, member_id: int, state: ArchiveState) -> None:
        if state.phase == "looking" and state.step == "reading":
            # The previous attempt was killed, possibly because of this archive.
            await self._fail(member_id, state, _KILLED)
            return
        if state.attempts >= _MOST_ATTEMPTS:
            await self._fail(member_id, state, _TOO_MANY_ATTEMPTS)
            return
        begun = replace(state, attempts=state.attempts + 1, step="reading", done=0, total=0)
        try:
            await self._save(member_id, begun)
            report = await self._run_import(member_id, begun)
        except Unavailable as error:
            await self._back_off(member_id, begun, error)
        except Discarded:
            raise
        except asyncio.CancelledError:
            if begun.phase == "looking":
                # The server is stopping. The archive is read again after the next start.
                with contextlib.suppress(Discarded):
                    self.archive_storage.note(member_id, state)
            raise
        except ShoalError as error:
            await self._fail(member_id, begun, str(error))
        except Exception as error:  # noqa: BLE001  # must not stop the archives of others
            # If the archive was discarded during the import, its files are missing, and that may have caused the error.
            await self._fail(member_id, begun, _INTERNAL)
            _log.error("importing the archive of member %d failed", member_id, exc_info=error)
        else:
            phase = "done" if report.finished else "looked"
            done = replace(begun, phase=phase, report=report, changed=now_ms(), attempts=0)
            await asyncio.to_thread(self.archive_storage.note, member_id, done)
            if report.finished:
                await asyncio.to_thread(self.archive_storage.empty, member_id, done.token)

    async def _back_off(self, member_id: int, begun: ArchiveState, error: Unavailable) -> None:
        """Delay an import after an error. A full disk counts as a failed attempt; an unavailable store does not."""
        latest = await asyncio.to_thread(self.archive_storage.state, member_id)
        if latest is None or latest.token != begun.token:
            raise Discarded("this archive has been discarded")
        if not isinstance(error, StorageFull):
            latest = replace(latest, attempts=min(latest.attempts, begun.attempts - 1))
        elif latest.attempts >= _MOST_ATTEMPTS:
            await self._fail(member_id, latest, str(error))
            return
        _log.warning("import of the archive of member %d is delayed: %s", member_id, error)
        self._retry_at[member_id] = asyncio.get_running_loop().time() + self._backoff_seconds
        await asyncio.to_thread(self.archive_storage.note, member_id, replace(latest, step=""))

    async def _run_import(self, member_id: int, state: ArchiveState) -> ArchiveReport:
        """Run an import and save its progress. Raises `Discarded` if the member discards the archive."""
        at = (state.step, 0, 0)

        def progress(step: str, done: int, total: int) -> None:
            nonlocal at
            at = (step, done, total)

        workplace = await asyncio.to_thread(self.archive_storage.workplace, member_id)
        job = asyncio.create_task(
            import_archive(
                self._network,
                member_id,
                self.archive_storage.archive(member_id, state.token),
                dry_run=state.phase == "looking",
                widest=state.widest,
                progress=progress,
                space=Space(workplace, min(MAX_UNPACKED, _UNPACKED * self.archive_storage.most_bytes)),
            )
        )
        try:
            while not (await asyncio.wait((job,), timeout=self._save_every))[0]:
                state = replace(state, step=at[0], done=at[1], total=at[2])
                if at[0] == "posts" and at[1] > state.furthest:
                    state = replace(state, furthest=at[1], attempts=0)
                await self._save(member_id, state)
            return await job
        finally:
            job.cancel()
            await asyncio.wait((job,))

    async def _save(self, member_id: int, state: ArchiveState) -> None:
        """Save a state. If this call is cancelled, it first waits for the save, which could otherwise overwrite a later state."""
        saving = asyncio.ensure_future(asyncio.to_thread(self.archive_storage.note, member_id, state))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await asyncio.wait((saving,))
            with contextlib.suppress(Exception):
                saving.result()
            raise

    async def _fail(self, member_id: int, state: ArchiveState, error: str) -> None:
        failed = replace(state, phase="failed", error=error, changed=now_ms())
        await asyncio.to_thread(self.archive_storage.note, member_id, failed)
        await asyncio.to_thread(self.archive_storage.empty, member_id, failed.token)
