// What masto, the client of Phanpy and Elk, does to a served Shoal. Prints "played N calls" when everything was as it must be.
import assert from "node:assert/strict";
import { createOAuthAPIClient, createRestAPIClient, createStreamingAPIClient } from "masto";

const { SHOAL_URL: url, SHOAL_ANN: annToken, SHOAL_BEN: benToken, SHOAL_PICTURE: picture } = process.env;
let calls = 0;

// Counts what is awaited, so that the end can say how much was done.
async function done(promise) {
  const answer = await promise;
  calls += 1;
  return answer;
}

async function until(question, seconds = 60) {
  const deadline = Date.now() + seconds * 1000;
  for (;;) {
    const answer = await question();
    if (answer) return answer;
    assert.ok(Date.now() < deadline, "it did not happen");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const nobody = createRestAPIClient({ url });
const ann = createRestAPIClient({ url, accessToken: annToken });
const ben = createRestAPIClient({ url, accessToken: benToken });
const me = await done(ann.v1.accounts.verifyCredentials());
const other = await done(ben.v1.accounts.verifyCredentials());

// The server, and an app.
assert.equal((await done(nobody.v2.instance.fetch())).title, "Shoal");
assert.equal((await done(nobody.v1.instance.fetch())).title, "Shoal");
const app = await done(
  nobody.v1.apps.create({ clientName: "masto", redirectUris: "urn:ietf:wg:oauth:2.0:oob", scopes: "read write" }),
);
const token = await done(
  createOAuthAPIClient({ url }).token.create({
    grantType: "client_credentials",
    clientId: app.clientId,
    clientSecret: app.clientSecret,
    scope: "read",
  }),
);
assert.equal(token.tokenType, "Bearer");
await done(ann.v1.customEmojis.list());
await done(ann.v1.announcements.list());
await done(ann.v1.preferences.fetch());

// A profile, with a picture and fields.
const changed = await done(
  ann.v1.accounts.updateCredentials({
    displayName: "Ann",
    source: { privacy: "public" },
    fieldsAttributes: [{ name: "Home", value: "https://example.org" }],
    avatar: await fetch(picture).then((answer) => answer.blob()),
  }),
);
assert.equal(changed.displayName, "Ann");
assert.equal(changed.fields[0].name, "Home");
assert.equal((await done(ben.v1.accounts.lookup({ acct: me.acct }))).id, me.id);
assert.equal((await done(ben.v1.accounts.$select(me.id).fetch())).id, me.id);
assert.equal((await done(ben.v1.accounts.search.list({ q: me.acct })))[0].id, me.id);

// How they stand to each other.
assert.ok((await done(ann.v1.accounts.$select(other.id).follow())).following);
assert.ok((await done(ann.v1.accounts.relationships.fetch({ id: [other.id] })))[0].following);
assert.equal((await done(ann.v1.accounts.$select(other.id).followers.list()))[0].id, me.id);
assert.equal((await done(ann.v1.accounts.$select(me.id).following.list()))[0].id, other.id);
await done(ann.v1.accounts.$select(other.id).mute());
assert.equal((await done(ann.v1.mutes.list())).length, 1);
await done(ann.v1.accounts.$select(other.id).unmute());
assert.equal((await done(ann.v1.blocks.list())).length, 0);
await done(ann.v1.followRequests.list());

// A picture, and a status with it; a poll; an edit with its history.
const media = await done(
  ann.v2.media.create({ file: await fetch(picture).then((answer) => answer.blob()), description: "sand" }),
);
assert.equal(media.description, "sand");
assert.ok(media.url);
const post = await done(ann.v1.statuses.create({ status: "Low #tide", mediaIds: [media.id], visibility: "public" }));
assert.equal(post.mediaAttachments[0].id, media.id);
const edited = await done(ann.v1.statuses.$select(post.id).update({ status: "High #tide", mediaIds: [media.id] }));
assert.ok(edited.editedAt);
assert.equal((await done(ann.v1.statuses.$select(post.id).history.list())).length, 2);
assert.equal((await done(ann.v1.statuses.$select(post.id).source.fetch())).text, "High #tide");
const asked = await done(ann.v1.statuses.create({ status: "Which?", poll: { options: ["a", "b"], expiresIn: 3600 } }));
const voted = await done(ben.v1.polls.$select(asked.poll.id).votes.create({ choices: [1] }));
assert.deepEqual(voted.ownVotes, [1]);
assert.equal((await done(ben.v1.polls.$select(asked.poll.id).fetch())).votesCount, 1);

// What is done to a status.
const selected = ben.v1.statuses.$select(post.id);
assert.ok((await done(selected.favourite())).favourited);
assert.ok((await done(selected.reblog())).reblogged);
assert.ok((await done(selected.bookmark())).bookmarked);
assert.equal((await done(ben.v1.favourites.list()))[0].id, post.id);
assert.equal((await done(ben.v1.bookmarks.list()))[0].id, post.id);
assert.equal((await done(selected.favouritedBy.list()))[0].id, other.id);
assert.equal((await done(selected.rebloggedBy.list()))[0].id, other.id);
const answer = await done(ben.v1.statuses.create({ status: `@${me.acct} yes`, inReplyToId: post.id }));
assert.equal((await done(ann.v1.statuses.$select(post.id).context.fetch())).descendants[0].id, answer.id);
assert.ok((await done(ann.v1.statuses.$select(post.id).pin())).pinned);
await done(ann.v1.statuses.$select(post.id).unpin());
await done(ann.v1.statuses.$select(post.id).mute());
await done(ann.v1.statuses.$select(post.id).unmute());
await done(selected.unbookmark());
assert.equal((await done(selected.unreblog())).reblogged, false);
assert.equal((await done(selected.unfavourite())).favourited, false);

// Timelines, page by page.
for (let number = 0; number < 5; number += 1) await done(ben.v1.statuses.create({ status: `Wave ${number} #surf` }));
await until(async () => (await ann.v1.timelines.home.list({ limit: 40 })).length >= 7);
const pages = [];
for await (const page of ann.v1.timelines.home.list({ limit: 3 })) {
  pages.push(...page.map((status) => status.id));
  calls += 1;
}
assert.equal(new Set(pages).size, pages.length);
assert.ok(pages.length >= 7);
assert.ok((await done(nobody.v1.timelines.public.list({ limit: 2 }))).length === 2);
assert.equal((await done(ann.v1.timelines.tag.$select("surf").list())).length, 5);
assert.equal((await done(ann.v1.accounts.$select(other.id).statuses.list({ limit: 1 }))).length, 1);

// Lists, tags, filters, markers.
const list = await done(ann.v1.lists.create({ title: "Harbour" }));
await done(ann.v1.lists.$select(list.id).accounts.create({ accountIds: [other.id] }));
assert.equal((await done(ann.v1.lists.$select(list.id).accounts.list()))[0].id, other.id);
assert.ok((await done(ann.v1.timelines.list.$select(list.id).list())).length > 0);
assert.equal((await done(ann.v1.lists.$select(list.id).update({ title: "Pier" }))).title, "Pier");
await done(ann.v1.lists.$select(list.id).accounts.remove({ accountIds: [other.id] }));
await done(ann.v1.lists.$select(list.id).remove());
assert.equal((await done(ann.v1.lists.list())).length, 0);
assert.ok((await done(ann.v1.tags.$select("surf").follow())).following);
assert.equal((await done(ann.v1.followedTags.list()))[0].name, "surf");
await done(ann.v1.tags.$select("surf").unfollow());
const featured = await done(ann.v1.featuredTags.create({ name: "tide" }));
assert.equal((await done(ann.v1.featuredTags.list()))[0].id, featured.id);
await done(ann.v1.featuredTags.$select(featured.id).remove());
const filter = await done(
  ann.v2.filters.create({ title: "No kraken", context: ["home"], keywordsAttributes: [{ keyword: "kraken" }] }),
);
assert.equal((await done(ann.v2.filters.$select(filter.id).fetch())).keywords[0].keyword, "kraken");
await done(ann.v2.filters.$select(filter.id).remove());
const marked = await done(ann.v1.markers.create({ home: { lastReadId: post.id } }));
assert.equal(marked.home.lastReadId, post.id);
assert.equal((await done(ann.v1.markers.fetch({ timeline: ["home"] }))).home.version, 1);

// Search, suggestions, trends.
assert.equal((await done(ann.v2.search.list({ q: `@${other.acct}` }))).accounts[0].id, other.id);
await until(async () => (await ann.v2.search.list({ q: "#sur" })).hashtags.some((tag) => tag.name === "surf"));
await done(ann.v2.suggestions.list());
assert.ok((await done(ann.v1.trends.tags.list())).every((tag) => tag.history.length === 7));
await done(ann.v1.trends.statuses.list());

// Notifications, conversations, a report.
const notices = await until(async () => {
  const found = await ann.v1.notifications.list();
  return found.some((notice) => notice.type === "mention") && found;
});
await done(ann.v1.notifications.$select(notices[0].id).fetch());
await done(ann.v1.notifications.unreadCount.fetch());
await done(ann.v2.notifications.list());
await done(ann.v1.notifications.$select(notices[0].id).dismiss());
await done(ann.v1.notifications.clear());
assert.equal((await done(ann.v1.notifications.list())).length, 0);
await done(ben.v1.statuses.create({ status: `@${me.acct} psst`, visibility: "direct" }));
const [talk] = await until(async () => {
  const found = await ann.v1.conversations.list();
  return found.length && found;
});
assert.equal((await done(ann.v1.conversations.$select(talk.id).read())).unread, false);
await done(ann.v1.reports.create({ accountId: other.id, statusIds: [answer.id], comment: "too wet" }));

// Later posts.
const later = await done(
  ann.v1.statuses.create({ status: "Later", scheduledAt: new Date(Date.now() + 3_600_000).toISOString() }),
);
assert.equal((await done(ann.v1.scheduledStatuses.list()))[0].id, later.id);
await done(ann.v1.scheduledStatuses.$select(later.id).remove());

// Live, with the token in the protocol header as browsers must send it.
const streaming = createStreamingAPIClient({
  streamingApiUrl: url.replace("http", "ws"),
  accessToken: annToken,
  implementation: WebSocket,
});
const subscription = streaming.user.subscribe();
const events = subscription[Symbol.asyncIterator]();
const first = events.next();
let live;
const heard = (async () => (await first).value)();
for (let tries = 0; !live && tries < 200; tries += 1) {
  const written = await done(ben.v1.statuses.create({ status: `Now ${tries}` }));
  const event = await Promise.race([heard, new Promise((resolve) => setTimeout(resolve, 300, null))]);
  if (event) live = { event, written };
}
assert.equal(live.event.event, "update");
assert.deepEqual(live.event.stream, ["user"]);
assert.match(live.event.payload.content, /Now/);
subscription.unsubscribe();
const tagged = streaming.hashtag.subscribe({ tag: "spray" });
const spray = tagged[Symbol.asyncIterator]().next();
let seen;
for (let tries = 0; !seen && tries < 200; tries += 1) {
  await done(ben.v1.statuses.create({ status: `Some #spray ${tries}` }));
  seen = await Promise.race([spray, new Promise((resolve) => setTimeout(resolve, 300, null))]);
}
assert.deepEqual(seen.value.stream, ["hashtag", "spray"]);
streaming.close();

// What goes.
const gone = await done(ann.v1.statuses.$select(post.id).remove());
assert.equal(gone.text, "High #tide");
await assert.rejects(ann.v1.statuses.$select(post.id).fetch(), /Record not found/);
console.log(`played ${calls} calls`);
process.exit(0);
