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

A read first calls `enter` of the guard, which invalidates outdated entries and returns a ticket. Then it takes the cached part,
reads the rest from the store, and caches this rest unless the guard has seen a change of the object since the ticket. A write
invalidates what the batch may change before the batch is durable and again afterwards; then it updates the entries from what the
store reports.

Example: member 7 has 3 followers, the count is not cached, and the only process has made 40 commits.

1. A read of the count gets ticket 40 (the number of commits) and misses. The store is queried, and counts 3.
2. Before the result arrives, a write commits: a follow of 7. The cached lists of 7 are invalidated, and the guard is at 41.
3. The result arrives. It was right when the read began, so it is returned; but 40 is not 41, so it is not cached.
4. The next read gets ticket 41, misses, and reads 4 from the store, which is cached.
5. Another follow of 7 commits. The count was cached, so the write replaces 4 by 5, and the next read costs no query. A cached
   response that shows the count is now invalid, because the change log has a mark for the list of followers.
"""
