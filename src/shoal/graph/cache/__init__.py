"""The read-through cache of a graph store: objects, counts and lists in memory, coherent between processes.

From the outside in:

| layer | module |
|---|---|
| whole responses, such as home pages | `shoal.response_cache`, above this package |
| what a response depends on: objects, lists, queries, time of expiry | `dependencies` |
| the graph that requests read and write: answers from memory, else from the store | `cached_graph.CachedGraph` |
| cached objects, counts and lists, and their update by a commit | `entries` |
| whether cached data may be used or stored (one guard for each way to deploy) | `coherence` |
| what commits have changed, in memory or in shared memory | `change_log` |
| a bounded LRU cache | `lru` |

A read enters the guard, which invalidates outdated entries; takes the cached part; reads the rest from the store; and stores it
unless the guard has seen a change of the object since. A write invalidates what the batch may change before it is durable and
again afterwards, then updates the entries from what the store reports.

Example: member 7 has 3 followers, the count is not cached, and the only process has made 40 commits.

1. A read of the count enters with ticket 40 and misses. The query to the store is in flight; the store counts 3.
2. A write, a follow of 7, commits. The cached lists of 7 are invalidated before and after, and the guard is at 41.
3. The result of the read arrives. It was right when the read began, so it is returned; but 40 is not 41, so it is not cached.
4. The next read enters with ticket 41, misses, and gets 4, which is cached.
5. Another follow of 7 commits. The count was cached, so the write replaces 4 by 5, and the next read costs no query. A cached
   response that shows the count is invalid, because the change log has the mark of the list.
"""
