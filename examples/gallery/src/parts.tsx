import type { Account, Status } from "@shoal/client";
import { useBookmark, useFollow, useLike, useRelationship, useShare } from "@shoal/client/react";

const ICONS = {
  heart: "M12 20.5 4.7 13a4.9 4.9 0 0 1 7-6.9l.3.4.3-.4a4.9 4.9 0 0 1 7 6.9z",
  comment: "M4 5h16v11H9l-5 4z",
  share: "M7 7h10v7m-3-3 3 3 3-3M17 17H7v-7m3 3-3-3-3 3",
  bookmark: "M6 4h12v16l-6-4.5L6 20z",
  plus: "M12 5v14M5 12h14",
  close: "M6 6l12 12M18 6 6 18",
  stack: "M8 8h12v12H8zM4 16V4h12",
};

export function Icon({ name }: { name: keyof typeof ICONS }) {
  return (
    <svg className="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={ICONS[name]} />
    </svg>
  );
}

export const nameOf = (account: Account): string => account.display_name || account.username;

export function Avatar({ account }: { account: Account }) {
  return <img className="avatar" src={account.avatar} alt="" width="40" height="40" />;
}

export function Problem({ text }: { text: string | undefined }) {
  return text ? (
    <p className="problem" role="alert">
      {text}
    </p>
  ) : null;
}

/** Return the text of a post without markup. */
export function textOf(post: Status): string {
  const spaced = post.content.replace(/<br ?\/?>/g, "\n").replace(/<\/p><p>/g, "\n\n");
  return new DOMParser().parseFromString(spaced, "text/html").body.textContent ?? "";
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

export function Ago({ time }: { time: string }) {
  const minutes = Math.round((Date.parse(time) - Date.now()) / 60_000);
  const text =
    minutes > -1 ? "now" : minutes > -60 ? relative.format(minutes, "minute") : minutes > -1440 ? relative.format(Math.round(minutes / 60), "hour") : new Date(time).toLocaleDateString();
  return <time dateTime={time}>{text}</time>;
}

export function LikeButton({ post, isMember }: { post: Status; isMember: boolean }) {
  const like = useLike(post);
  const isLiked = post.favourited ?? false;
  return (
    <button className="mark like" aria-pressed={isLiked} disabled={!isMember} aria-label={`Like, ${post.favourites_count}`} onClick={() => like.mutate(!isLiked)}>
      <Icon name="heart" /> {post.favourites_count}
    </button>
  );
}

export function ShareButton({ post, isMember }: { post: Status; isMember: boolean }) {
  const share = useShare(post);
  const isShared = post.reblogged ?? false;
  return (
    <button className="mark share" aria-pressed={isShared} disabled={!isMember} aria-label={`Share, ${post.reblogs_count}`} onClick={() => share.mutate(!isShared)}>
      <Icon name="share" /> {post.reblogs_count}
    </button>
  );
}

export function SaveButton({ post, isMember }: { post: Status; isMember: boolean }) {
  const bookmark = useBookmark(post);
  const isSaved = post.bookmarked ?? false;
  return (
    <button className="mark save" aria-pressed={isSaved} disabled={!isMember} aria-label="Save" onClick={() => bookmark.mutate(!isSaved)}>
      <Icon name="bookmark" />
    </button>
  );
}

export function FollowButton({ account }: { account: Account }) {
  const { data } = useRelationship(account.id);
  const follow = useFollow(account);
  if (!data) return null;
  const isOn = data.following || data.requested;
  return (
    <button className={isOn ? "quiet follow" : "primary follow"} onClick={() => follow.mutate(!isOn)}>
      {data.following ? "Following" : data.requested ? "Requested" : "Follow"}
      <span className="hidden"> {nameOf(account)}</span>
    </button>
  );
}
