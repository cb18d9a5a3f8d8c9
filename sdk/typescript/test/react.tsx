// A page that uses each hook; tests/sdk/test_react.py bundles it and drives it in Chromium.
import { StrictMode, useRef, useState } from "react";
import { createRoot, type Root } from "react-dom/client";
import { QueryClient, QueryClientProvider, useIsFetching } from "@tanstack/react-query";
import { createShoal, type Status } from "../src/index.js";
import {
  accountFeed,
  homeFeed,
  namedFeed,
  ShoalProvider,
  useAccount,
  useBookmark,
  useFeed,
  useFollow,
  useLike,
  useMe,
  useNotifications,
  usePost,
  usePublish,
  useRelationship,
  useShare,
  useStream,
  useThread,
  useUpload,
  type Toggle,
} from "../src/react/index.js";

const text = (post: Status) => new DOMParser().parseFromString(post.content, "text/html").body.textContent;

function Button({ name, on, toggle }: { name: string; on: boolean; toggle: Toggle<unknown> }) {
  return (
    <button aria-pressed={on} onClick={() => toggle.mutate(!on)}>
      {name}
    </button>
  );
}

function Post({ post }: { post: Status }) {
  const like = useLike(post);
  const shown = post.reblog ?? post;
  return (
    <article>
      <p>{text(shown)}</p>
      <p className="counts">
        {shown.favourites_count} likes, {shown.reblogs_count} shares, {shown.replies_count} comments
      </p>
      <Button name="Like" on={shown.favourited ?? false} toggle={like} />
      <Button name="Share" on={shown.reblogged ?? false} toggle={useShare(post)} />
      <Button name="Save" on={shown.bookmarked ?? false} toggle={useBookmark(post)} />
      {like.error && <p role="alert">{like.error.message}</p>}
    </article>
  );
}

function Home() {
  const feed = useFeed(homeFeed, { live: true, limit: 2 });
  return (
    <section aria-label="Home">
      {feed.newPosts > 0 && <button onClick={feed.showNew}>Show {feed.newPosts} new</button>}
      {feed.posts.map((post) => (
        <Post key={post.id} post={post} />
      ))}
      {feed.hasNextPage && <button onClick={() => void feed.fetchNextPage()}>More</button>}
    </section>
  );
}

function Declared({ id }: { id: string }) {
  const feed = useFeed(namedFeed(id), { live: true });
  return (
    <section aria-label="Declared">
      {feed.outdated && <button onClick={feed.showNew}>Show newer</button>}
      {feed.posts.map((post) => (
        <p key={post.id}>{text(post)}</p>
      ))}
    </section>
  );
}

function Detail({ id }: { id: string }) {
  const post = usePost(id);
  const thread = useThread(id);
  const publish = usePublish();
  return (
    <section aria-label="Post">
      {post.data && <Post post={post.data} />}
      {thread.data?.descendants.map((comment) => <p key={comment.id}>{text(comment)}</p>)}
      <button onClick={() => publish.mutate({ status: "Nice!", in_reply_to_id: id })}>Comment</button>
      <button onClick={() => publish.mutate({ status: "A post of my own" })}>Publish</button>
    </section>
  );
}

function Profile({ id }: { id: string }) {
  const account = useAccount(id);
  const relationship = useRelationship(id);
  const follow = useFollow({ id });
  const feed = useFeed(accountFeed(id));
  return (
    <section aria-label="Profile">
      <h2>{account.data?.username}</h2>
      <Button name="Follow" on={relationship.data?.following ?? false} toggle={follow} />
      <p>{feed.posts.length} posts</p>
    </section>
  );
}

function Notifications() {
  const { notifications } = useNotifications();
  return (
    <ul aria-label="Notifications">
      {notifications.map((one) => (
        <li key={one.id}>
          {one.type} by {one.account.username}
        </li>
      ))}
    </ul>
  );
}

function Upload() {
  const upload = useUpload();
  const told = useRef(0);
  if (upload.progress) told.current += 1;
  return (
    <section aria-label="Upload">
      <input type="file" aria-label="File" onChange={(event) => void upload.start(event.target.files![0]!).catch(() => undefined)} />
      {upload.media && told.current > 0 && <p>Uploaded a {upload.media.type}</p>}
      {upload.error && <p role="alert">{upload.error.message}</p>}
    </section>
  );
}

/** Says when the streams are connected and all lists are read, and names the last event. */
function State({ feed }: { feed: string }) {
  const [started, setStarted] = useState(0);
  const [last, setLast] = useState("");
  const reads = useIsFetching();
  // Later than the lists, which are then being read again.
  const onStart = () => setTimeout(() => setStarted((now) => now + 1));
  useStream("user", (event) => setLast(event.event), onStart);
  useStream({ feed }, () => undefined, onStart);
  return <output data-last={last}>{started === 2 && reads === 0 ? "Ready" : "Loading"}</output>;
}

let root: Root | undefined;

export const stop = (): void => root?.unmount();

let cache: QueryClient;

export const readAgain = (): void => void cache.invalidateQueries();

export function start(url: string, token: string, other: string, post: string, feed: string): void {
  const App = () => {
    const me = useMe();
    if (!me.data) return null;
    return (
      <main>
        <h1>{me.data.username}</h1>
        <Home />
        <Declared id={feed} />
        <Detail id={post} />
        <Profile id={other} />
        <Notifications />
        <Upload />
        <State feed={feed} />
      </main>
    );
  };
  cache = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: 60_000 } } });
  root = createRoot(document.body.appendChild(document.createElement("div")));
  root.render(
    <StrictMode>
      <QueryClientProvider client={cache}>
        <ShoalProvider client={createShoal({ url, token })}>
          <App />
        </ShoalProvider>
      </QueryClientProvider>
    </StrictMode>,
  );
}
