import { useEffect, useRef, type CSSProperties } from "react";
import type { Status } from "@shoal/client";
import { useFeed, type Feed } from "@shoal/client/react";
import { Icon, LikeButton, Problem, nameOf } from "./parts.tsx";
import { addressOf, type Route } from "./route.ts";

interface GridProps {
  feed: Feed;
  filter: (post: Status) => boolean;
  list: Route["list"];
  isMember: boolean;
  empty: string;
}

/** A justified grid of photos that loads more at its end. */
export function Grid({ feed, filter, list, isMember, empty }: GridProps) {
  const { posts, newPosts, showNew, ...query } = useFeed(feed, { live: isMember, limit: 20, filter });
  const { hasNextPage, isFetching, isFetchNextPageError, fetchNextPage } = query;
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const watched = end.current;
    if (!watched || !hasNextPage || isFetching || isFetchNextPageError) return undefined;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && void fetchNextPage(), { rootMargin: "1000px" });
    observer.observe(watched);
    return () => observer.disconnect();
  }, [hasNextPage, isFetching, isFetchNextPageError, fetchNextPage]);

  const show = () => {
    showNew();
    scrollTo({ top: 0, behavior: "smooth" });
  };
  return (
    <>
      <div className="news" role="status">
        {newPosts > 0 && (
          <button className="primary" onClick={show}>
            {newPosts === 1 ? "1 new photo" : `${newPosts} new photos`}
          </button>
        )}
      </div>
      <ul className="grid" aria-label="Photos" aria-busy={isFetching}>
        {posts.map((post) => (
          <Tile key={post.id} post={post.reblog ?? post} list={list} isMember={isMember} />
        ))}
      </ul>
      {query.isSuccess && posts.length === 0 && !hasNextPage && <p className="empty">{empty}</p>}
      <Problem text={query.error?.message} />
      <div className="end" ref={end}>
        {query.isError && (
          <button className="quiet" onClick={() => void (posts.length > 0 ? fetchNextPage() : query.refetch())}>
            Try again
          </button>
        )}
        {isFetching && <p>Loading…</p>}
      </div>
    </>
  );
}

function Tile({ post, list, isMember }: { post: Status; list: Route["list"]; isMember: boolean }) {
  const photos = post.media_attachments.filter((media) => media.type === "image");
  const [photo] = photos;
  if (!photo) return null;
  const { width = 4, height = 3 } = photo.meta.original ?? {};
  const ratio = Math.min(Math.max(width / height, 0.6), 2.4);
  return (
    <li className="tile" style={{ "--ratio": ratio } as CSSProperties}>
      <a href={addressOf({ list, photo: post.id })}>
        <img src={photo.preview_url ?? photo.url ?? ""} alt={photo.description ?? `Photo by ${nameOf(post.account)}`} loading="lazy" />
        {photos.length > 1 && (
          <span className="count">
            <Icon name="stack" /> {photos.length}
            <span className="hidden"> photos</span>
          </span>
        )}
      </a>
      <div className="caption">
        <a href={addressOf({ list: { account: post.account.id } })}>{nameOf(post.account)}</a>
        <LikeButton post={post} isMember={isMember} />
      </div>
    </li>
  );
}
