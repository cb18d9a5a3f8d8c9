"""Checks of the invariants of a graph by a recount of its objects and associations, independent of Shoal's own checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar

from shoal.commands.context import Limits
from shoal.core.ids import milliseconds_of, shard_of
from shoal.core.model import (
    HELD,
    HIDDEN_BY_MODERATION,
    HIDDEN_WITH_AUTHOR,
    Member,
    Node,
    Poll,
    Post,
    Report,
    Review,
    Share,
    Visibility,
)
from shoal.graph.contract import Assoc, AssocRow, Store
from shoal.graph.payloads.notifications import Kind, Notice, notice_of
from shoal.graph.payloads.posts import EmojiPosition, chosen_of
from shoal.graph.schema import (
    ACTIVE,
    ASSOC_TYPES,
    BLOCKED_BY,
    BLOCKS,
    BOOKMARKED_BY,
    CHOOSES,
    CHOSEN_BY,
    COMMENTS_ON,
    DECLARED_BY,
    DUE_ON,
    EVERYBODY,
    FOLLOWED_BY,
    FOLLOWS,
    FOLLOWS_TAG,
    HIGH_FAN_OUT,
    IN_THREAD,
    LIKED_BY,
    MUTES,
    NOTIFIED,
    PINS,
    POST_REPORTED_BY,
    POSTED,
    POSTED_RESTRICTED,
    POSTED_TO_FOLLOWERS,
    PUBLISHED,
    PUTS_EMOJI,
    REACTED_BY,
    REACTS,
    REPORT_DISMISSED,
    REPORT_UPHELD,
    REPORTS_POST,
    RESTRICTED_COMMENTS_ON,
    REVISED,
    SHARED_BY,
    SHOWS_EMOJI,
    TAG_FOLLOWED_BY,
    TAG_OF,
    VOTED_BY,
    VOTES,
    AssocType,
    handle_id,
    public_list,
    tag_id,
)
from tests.stores import all_counts, all_links, all_objects

N = TypeVar("N", bound=Node)
Pair = tuple[int, int]


class GraphSnapshot:
    """The contents of a graph at one moment."""

    def __init__(self, objects: list[Node], links: list[AssocRow], counts: list[tuple[int, int, int]]) -> None:
        self.objects = {node.id: node for node in objects}
        self.alive = {row[:3]: row for row in links if row.alive}
        self.counts = {(id1, atype): n for id1, atype, n in counts}
        self._by_type: dict[int, set[Pair]] = {}
        for id1, atype, id2 in self.alive:
            self._by_type.setdefault(atype, set()).add((id1, id2))

    @classmethod
    async def of(cls, graph: Store) -> GraphSnapshot:
        return cls(list(await all_objects(graph)), await all_links(graph), await all_counts(graph))

    def pairs(self, atype: AssocType) -> set[Pair]:
        return self._by_type.get(atype.number, set())

    def all(self, kind: type[N]) -> list[N]:
        return [node for node in self.objects.values() if isinstance(node, kind)]

    def post_of(self, node: Node | None) -> Post | None:
        """Return the post that an entry shows."""
        found = self.objects.get(node.post_id) if isinstance(node, Share) else node
        return found if isinstance(found, Post) else None

    # Visibility

    def severed(self, viewer: int, other: int) -> bool:
        """Return whether one of two members blocks the other, even if the inverse association is still missing."""
        either = {(viewer, other), (other, viewer)}
        return bool(either & (self.pairs(BLOCKS) | self.pairs(BLOCKED_BY)))

    def told_of_block(self, viewer: int, other: int) -> bool:
        """Return whether the viewer's own store has a block between two members."""
        return (viewer, other) in self.pairs(BLOCKS) | self.pairs(BLOCKED_BY)

    def suspended(self, member: int) -> bool:
        node = self.objects.get(member)
        return isinstance(node, Member) and node.suspended

    def may_see(self, viewer: int, post: Post) -> bool:
        return self._let_see(viewer, post) and not self._reported(viewer, post)

    def _reported(self, viewer: int, post: Post) -> bool:
        return (viewer, post.id) in self.pairs(REPORTS_POST)

    def _let_see(self, viewer: int, post: Post) -> bool:
        if self.suspended(post.author_id):
            return False
        if viewer == post.author_id:
            return True
        if post.hidden & HIDDEN_BY_MODERATION:
            return False
        if self.told_of_block(viewer, post.author_id):
            return False
        if post.visibility in (Visibility.PUBLIC, Visibility.UNLISTED):
            return True
        if viewer in {mention.id for mention in post.mentions}:
            return True
        return post.visibility is Visibility.FOLLOWERS and (viewer, post.author_id) in self.pairs(FOLLOWS)

    def in_home(self, viewer: int, node: Node | None) -> bool:
        """Return whether an entry belongs to a member's home timeline and is shown there."""
        post = self.post_of(node)
        return post is not None and self._came_home(viewer, node) and not self._reported(viewer, post)

    def _came_home(self, viewer: int, node: Node | None) -> bool:
        post = self.post_of(node)
        if post is None or not self._let_see(viewer, post) or (viewer, post.author_id) in self.pairs(MUTES):
            return False
        if post.review is Review.UPHELD and viewer != post.author_id:
            return False
        if isinstance(node, Share):
            return self._shown_by(viewer, node.author_id)
        return post.author_id == viewer or self._by_tag(viewer, post) or self._by_author(viewer, post)

    def _shown_by(self, viewer: int, sharer: int) -> bool:
        if self.suspended(sharer):
            return False
        if viewer == sharer:
            return True
        hidden = self.told_of_block(viewer, sharer) or (viewer, sharer) in self.pairs(MUTES)
        return (viewer, sharer) in self.pairs(FOLLOWS) and not hidden

    def _by_tag(self, viewer: int, post: Post) -> bool:
        if post.review in HELD:
            return False
        followed = {tag for member, tag in self.pairs(FOLLOWS_TAG) if member == viewer}
        return post.visibility is Visibility.PUBLIC and bool(followed & set(map(tag_id, post.tags)))

    def _by_author(self, viewer: int, post: Post) -> bool:
        follows = self.pairs(FOLLOWS)
        heard = {0, viewer, post.author_id}
        in_earshot = post.parent_author_id in heard or (viewer, post.parent_author_id) in follows
        return (viewer, post.author_id) in follows and in_earshot

    def home(self, viewer: int, reach: int) -> list[int]:
        """Return the whole home timeline, newest first.

        A share is left out if one of the next `reach` older entries shows the same post. Entries of posts that the viewer
        reported are not shown, but count as older entries.
        """
        entries = sorted((id_ for id_, node in self.objects.items() if self._came_home(viewer, node)), reverse=True)
        member = self.objects[viewer]
        if not (isinstance(member, Member) and member.folds_shares):
            return [id_ for id_ in entries if self.in_home(viewer, self.objects[id_])]
        shown = [post.id for id_ in entries if (post := self.post_of(self.objects[id_])) is not None]
        return [
            id_
            for at, id_ in enumerate(entries)
            if (not isinstance(self.objects[id_], Share) or shown[at] not in shown[at + 1 : at + 1 + reach])
            and self.in_home(viewer, self.objects[id_])
        ]

    def stands_by_another(self, viewer: int, share: int) -> bool:
        """Return whether an older entry of a member's home timeline shows the post of this share."""
        post = self.post_of(self.objects.get(share))
        nodes = [node for id_, node in self.objects.items() if id_ < share and self.in_home(viewer, node)]
        return post is not None and any(found.id == post.id for node in nodes if (found := self.post_of(node)))

    # Violations

    def wrong_counts(self) -> Iterator[str]:
        """Yield violations of I2, except for aggregate counts."""
        live = Counter((id1, atype) for id1, atype, _ in self.alive if ASSOC_TYPES[atype].counted)
        members = {member.id for member in self.all(Member)}
        for pair in live.keys() | self.counts.keys():
            aggregate_id = pair[0] in members and ASSOC_TYPES[pair[1]].aggregated
            if not aggregate_id and live[pair] != self.counts.get(pair, 0):
                yield f"{self._named(*pair)} has {live[pair]} and counts {self.counts.get(pair, 0)}"

    def wrong_tallies(self, author_of: Mapping[int, int]) -> Iterator[str]:
        """Yield violations of I2 in the likes and shares of all posts of a member. `author_of` includes deleted posts."""
        for atype in (LIKED_BY, SHARED_BY):
            live = Counter(author_of[post] for post, _ in self.pairs(atype))
            for member in self.all(Member):
                counted = self.counts.get((member.id, atype.number), 0)
                if counted != live[member.id]:
                    yield f"{self._named(member.id, atype.number)} has {live[member.id]} in total and counts {counted}"

    def missing_inverses(self) -> Iterator[str]:
        """Yield violations of I3."""
        for row in self.alive.values():
            inverse = ASSOC_TYPES[row.atype].inverse
            other = self.alive.get((row.id2, inverse, row.id1))
            if inverse and (other is None or (other.time, other.data) != (row.time, row.data)):
                yield f"{self._named(row.id1, row.atype)} {row.id2} has the inverse {other}"

    def wrong_tags(self) -> Iterator[str]:
        """Yield violations of I4, and entries of tag lists whose time is not the time of their post."""
        used = {(tag_id(tag), post.id) for post in self.all(Post) for tag in post.tags}
        for tag, post_id in used ^ self.pairs(TAG_OF):
            yield f"tag {tag} of {post_id}: in the text {(tag, post_id) in used}, in the list {(tag, post_id) not in used}"
        for tag, post_id in used & self.pairs(TAG_OF):
            if self.alive[tag, TAG_OF.number, post_id].time != post_id:
                yield f"tag {tag} of {post_id} has another time"

    def wrong_declarations(self) -> Iterator[str]:
        """Yield members who are not listed under the external accounts that their profiles link to, or are listed wrongly."""
        linked = {
            (handle_id(f"{name}@{site}"), member.id)
            for member in self.all(Member)
            for row in member.fields
            for site, _, name in [row.value.removeprefix("https://").partition("/@")]
        }
        for handle, member_id in linked ^ self.pairs(DECLARED_BY):
            yield f"account {handle} of {member_id}: on the profile {(handle, member_id) in linked}"

    def cloud(self) -> Counter[str]:
        """Return the number of visible public posts of each tag."""
        seen = [post for post in self.all(Post) if post.visibility is Visibility.PUBLIC and not post.hidden]
        return Counter(tag for post in seen for tag in post.tags)

    def wrong_sight(self) -> Iterator[str]:
        """Yield posts whose visibility does not match the suspension of their author."""
        for post in self.all(Post):
            if bool(post.hidden & HIDDEN_WITH_AUTHOR) is not self.suspended(post.author_id):
                yield f"{post.id} is hidden for {post.hidden}, its author suspended: {self.suspended(post.author_id)}"

    def wrong_lists(self) -> Iterator[str]:
        """Yield wrong entries of lists of posts, entries whose time is not their id, wrong pins, and follows across a block."""
        entries = {(node.author_id, node.id) for node in self.objects.values() if isinstance(node, Post | Share)}
        for author, entry in entries ^ self.pairs(POSTED):
            yield f"{author} posted {entry}: exists {(author, entry) in entries}"
        for author, entry in entries & self.pairs(POSTED):
            if self.alive[author, POSTED.number, entry].time != entry:
                yield f"{author} posted {entry} at another time"
        for atype, pairs in self._set_apart().items():
            for id1, id2 in pairs ^ self.pairs(atype):
                yield f"{id1} {atype} {id2}: expected {(id1, id2) in pairs}"
        for public, entry in self._published() ^ self.pairs(PUBLISHED):
            yield f"{entry} in the public list: expected {(public, entry) in self._published()}"
        for member, post_id in self.pairs(PINS):
            post = self.objects.get(post_id)
            if not isinstance(post, Post) or post.author_id != member:
                yield f"{member} has pinned {post}"
        for member, other in self.pairs(FOLLOWS):
            if self.severed(member, other):
                yield f"{member} follows {other} across a block"

    def vain_shares(self) -> Iterator[str]:
        """Yield shares that the visibility of their post does not allow, because it was narrowed."""
        for share in self.all(Share):
            post = self.objects.get(share.post_id)
            if not isinstance(post, Post) or post.visibility in (Visibility.PUBLIC, Visibility.UNLISTED):
                continue
            if post.author_id != share.author_id or post.visibility is Visibility.DIRECT:
                yield f"{share} of {post}"

    def _set_apart(self) -> dict[AssocType, set[Pair]]:
        """Return the expected lists of counted and restricted comments, and of entries with a restricted visibility."""
        found: dict[AssocType, set[Pair]] = {
            atype: set() for atype in (COMMENTS_ON, RESTRICTED_COMMENTS_ON, POSTED_TO_FOLLOWERS, POSTED_RESTRICTED)
        }
        for post in self.all(Post):
            for_all = post.visibility in (Visibility.PUBLIC, Visibility.UNLISTED)
            if post.parent_id:
                atype = COMMENTS_ON if for_all and not post.hidden else RESTRICTED_COMMENTS_ON
                found[atype].add((post.id, post.parent_id))
            if post.hidden or post.visibility is Visibility.DIRECT:
                found[POSTED_RESTRICTED].add((post.author_id, post.id))
            elif not for_all:
                found[POSTED_TO_FOLLOWERS].add((post.author_id, post.id))
        for share in self.all(Share):
            if share.visibility is Visibility.FOLLOWERS:
                found[POSTED_TO_FOLLOWERS].add((share.author_id, share.id))
        return found

    def _published(self) -> set[Pair]:
        return {
            (public_list(shard_of(post.author_id)), post.id)
            for post in self.all(Post)
            if post.visibility is Visibility.PUBLIC and (not post.parent_id or post.parent_author_id == post.author_id)
        }

    def wrong_votes(self) -> Iterator[str]:
        """Yield votes that differ from their choices, and polls that are not on the agenda or not linked to their post."""
        chosen: dict[Pair, list[int]] = {}
        polls = {poll.id: poll for poll in self.all(Poll)}
        place = {option.id: (poll.id, at) for poll in polls.values() for at, option in enumerate(poll.options)}
        for member, option in self.pairs(CHOOSES):
            if option in place:
                poll_id, at = place[option]
                chosen.setdefault((member, poll_id), []).append(at)
        for member, poll_id in self.pairs(VOTES):
            data = list(self.alive[member, VOTES.number, poll_id].data)
            if poll_id in polls and sorted(data) != sorted(chosen.pop((member, poll_id), [])):
                yield f"{member} voted {data} in {poll_id}"
            if poll_id in polls and not (len(data) == 1 or (polls[poll_id].multiple and data)):
                yield f"{member} voted {data} in {poll_id}, a wrong number of options"
        if chosen:
            yield f"chosen without a vote: {chosen}"
        tickets = {ticket for ticket, _ in self.pairs(DUE_ON)}
        if tickets != {poll.ticket_id for poll in polls.values()}:
            yield f"the agenda has the wrong tickets: {tickets}"
        asked = {(post.id, post.poll_id) for post in self.all(Post) if post.poll_id}
        if asked != {(poll.post_id, poll.id) for poll in polls.values()}:
            yield f"posts link to the wrong polls: {asked}"

    def wrong_emoji(self) -> Iterator[str]:
        """Yield reactions that do not match the emoji of a post, duplicate emoji, and posts with too many emoji."""
        places = {place: post for post, place in self.pairs(SHOWS_EMOJI)}
        said = {(member, place.id) for member, post in self.pairs(REACTS) for place in self._chosen(member, post)}
        for member, place in said ^ self.pairs(PUTS_EMOJI):
            yield f"{member} put {place}: in the reaction {(member, place) in said}"
        for member, place in said:
            if place not in places:
                yield f"{member} put {place}, which no post has"
        shown = Counter((post, self.alive[post, SHOWS_EMOJI.number, place].data[1:]) for place, post in places.items())
        yield from (f"{post} shows {emoji!r} {n} times" for (post, emoji), n in shown.items() if n > 1)
        # Declared reactions have the number 255.
        emoji = {
            place: post for place, post in places.items() if self.alive[post, SHOWS_EMOJI.number, place].data[0] < 255
        }
        for post in set(places.values()):
            n = Counter(emoji.values())[post]
            if n > Limits().emoji_of_post or not isinstance(self.objects.get(post), Post):
                yield f"{post} shows {n} emoji"

    def _chosen(self, member: int, post: int) -> tuple[EmojiPosition, ...]:
        row = self.alive[member, REACTS.number, post]
        return chosen_of(Assoc(post, row.time, row.data))

    def wrong_reviews(self) -> Iterator[str]:
        """Yield posts whose review state does not match their reports, and reporters without the outcome of a report.

        A post waits for a review only after reports by two members.
        """
        for post in self.all(Post):
            filed = [one for one in self.all(Report) if post.id in one.post_ids and one.reporter_id != one.target_id]
            reporters = {one.reporter_id for one in filed}
            if {(member, post.id) for member in reporters} != {
                pair for pair in self.pairs(REPORTS_POST) if pair[1] == post.id
            }:
                yield f"{post.id} was reported by {reporters}"
            expected = {Review.NONE} if len(reporters) < 2 else {Review.NONE, Review.WAITING}
            if any(one.upheld is False for one in filed):
                expected = {Review.CLEARED}
            if any(one.upheld for one in filed):
                expected = {Review.UPHELD}
            if post.review not in expected:
                yield f"{post.id} is {post.review!r}, reported: {filed}"
        for atype, upheld in ((REPORT_UPHELD, True), (REPORT_DISMISSED, False)):
            said = {(one.reporter_id, one.id) for one in self.all(Report) if one.closed_at and one.upheld is upheld}
            for pair in said ^ self.pairs(atype):
                yield f"{pair} {atype}: expected {pair in said}"
        told = {(row.id1, notice.about) for row in self.alive.values() if (notice := self._verdict(row)) is not None}
        for pair in told ^ {(one.reporter_id, one.id) for one in self.all(Report) if one.closed_at}:
            yield f"{pair} in notifications of closed reports: {pair in told}"

    def _verdict(self, row: AssocRow) -> Notice | None:
        notice = notice_of(Assoc(row.id2, row.time, row.data)) if row.atype == NOTIFIED.number else None
        return notice if notice is not None and notice.kind is Kind.REPORT_RESOLVED else None

    def wrong_loudness(self, quiet_below: int) -> Iterator[str]:
        """Yield high-fan-out sources with few followers, and demotions that have not finished."""
        follower_set = Counter(source for source, _ in self.pairs(FOLLOWED_BY) | self.pairs(TAG_FOLLOWED_BY))
        for _, source in self.pairs(HIGH_FAN_OUT):
            mark = self.alive[EVERYBODY, HIGH_FAN_OUT.number, source]
            if mark.data or follower_set[source] < quiet_below:
                yield f"{source} with {follower_set[source]} followers is marked as high-fan-out: {mark.data!r}"

    def wrong_threads(self) -> Iterator[str]:
        """Yield comments that are missing from their thread or have another parent or author there."""
        comments = {(post.id, post.root_id): post for post in self.all(Post) if post.root_id}
        for pair in comments.keys() ^ self.pairs(IN_THREAD):
            yield f"{pair} in a thread: expected {pair in comments}"
        for (id_, root), post in comments.items():
            row = self.alive.get((id_, IN_THREAD.number, root))
            if row and row.data != post.parent_id.to_bytes(8) + post.author_id.to_bytes(8):
                yield f"{id_} has the thread data {row.data!r}"

    def wrong_activity(self) -> Iterator[str]:
        """Yield wrong entries of the lists of active posts.

        A public post with reactions of other members is listed at the minute of the newest reaction or later.
        """
        reacted = self._reacted()
        for public, id_ in self.pairs(ACTIVE):
            post = self.objects.get(id_)
            if not self._may_be_active(post) or public != public_list(shard_of(id_)):
                yield f"{id_} is active in {public}: {post}"
        for id_, newest in reacted.items():
            row = self.alive.get((public_list(shard_of(id_)), ACTIVE.number, id_))
            if row is None or milliseconds_of(row.time) // 60_000 < milliseconds_of(newest) // 60_000:
                yield f"{id_} got a reaction at {newest}, but is listed as active at {row}"

    @staticmethod
    def _may_be_active(node: Node | None) -> bool:
        return isinstance(node, Post) and node.visibility is Visibility.PUBLIC and not node.parent_id

    def _reacted(self) -> dict[int, int]:
        """Return the time of the newest current reaction to each post that may be active."""
        made = [(member, post, self.alive[post, LIKED_BY.number, member].time) for post, member in self.pairs(LIKED_BY)]
        made += [(share.author_id, share.post_id, share.id) for share in self.all(Share)]
        for member, place in self.pairs(PUTS_EMOJI):
            row = self.alive[member, PUTS_EMOJI.number, place]
            made.append((member, int.from_bytes(row.data), row.time))
        for comment in self.all(Post):
            if comment.visibility in (Visibility.PUBLIC, Visibility.UNLISTED):
                made.append((comment.author_id, comment.parent_id, comment.id))
        newest: dict[int, int] = {}
        for member, id_, time in made:
            post = self.objects.get(id_)
            if isinstance(post, Post) and self._may_be_active(post) and post.author_id != member:
                newest[id_] = max(newest.get(id_, 0), time)
        return newest

    def remains(self) -> Iterator[str]:
        """Yield associations that remain of deleted posts and polls."""
        for atype in (LIKED_BY, SHARED_BY, BOOKMARKED_BY, REACTED_BY, POST_REPORTED_BY, REVISED):
            for post, other in self.pairs(atype):
                if post not in self.objects:
                    yield f"{post} is deleted and still {atype} {other}"
        there = {id_ for poll in self.all(Poll) for id_ in (poll.id, *[option.id for option in poll.options])}
        for atype in (VOTED_BY, CHOSEN_BY):
            for thing, member in self.pairs(atype):
                if thing not in there:
                    yield f"{thing} is deleted and still {atype} {member}"

    def _named(self, id1: int, atype: int) -> str:
        node = self.objects.get(id1)
        return f"{node.name if isinstance(node, Member) else id1} {ASSOC_TYPES[atype]}"
