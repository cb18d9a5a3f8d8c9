import { useEffect, useRef, useState, type FormEvent, type ReactNode } from "react";
import type { Status } from "@shoal/client";
import { usePost, usePublish, useThread } from "@shoal/client/react";
import { Ago, Avatar, FollowButton, Icon, LikeButton, Problem, SaveButton, ShareButton, nameOf, textOf } from "./parts.tsx";
import { addressOf, type Route } from "./route.ts";

/** A modal dialog, which the browser closes with Escape. */
export function Dialog({ label, className, onClose, children }: { label: string; className: string; onClose: () => void; children: ReactNode }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    return () => shown?.close();
  }, []);
  return (
    <dialog ref={dialog} className={className} aria-label={label} onCancel={onClose} onClick={(event) => event.target === dialog.current && onClose()}>
      <button className="close" aria-label="Close" onClick={onClose}>
        <Icon name="close" />
      </button>
      {children}
    </dialog>
  );
}

export function Photo({ id, list, isMember, me }: { id: string; list: Route["list"]; isMember: boolean; me: string | undefined }) {
  const { data: post, error } = usePost(id);
  const close = () => {
    location.hash = addressOf({ list });
  };
  return (
    <Dialog label={post ? `Photo by ${nameOf(post.account)}` : "Photo"} className="photo" onClose={close}>
      <Problem text={error?.message} />
      {post && (
        <>
          {/* A region that scrolls can be reached with the keyboard. */}
          <div className="pictures" role="region" aria-label="Pictures" tabIndex={0}>
            {post.media_attachments.map((media) => (
              <img key={media.id} src={media.url ?? ""} alt={media.description ?? `Photo by ${nameOf(post.account)}`} />
            ))}
          </div>
          <div className="side">
            <div className="author">
              <Avatar account={post.account} />
              <div>
                <a href={addressOf({ list: { account: post.account.id } })}>{nameOf(post.account)}</a>
                <Ago time={post.created_at} />
              </div>
              {isMember && me !== post.account.id && <FollowButton account={post.account} />}
            </div>
            <p className="text">{textOf(post)}</p>
            <div className="marks">
              <LikeButton post={post} isMember={isMember} />
              <ShareButton post={post} isMember={isMember} />
              <SaveButton post={post} isMember={isMember} />
            </div>
            <Comments post={post} isMember={isMember} />
          </div>
        </>
      )}
    </Dialog>
  );
}

function Comments({ post, isMember }: { post: Status; isMember: boolean }) {
  const { data } = useThread(post.id);
  const publish = usePublish();
  const [text, setText] = useState("");
  const send = (event: FormEvent) => {
    event.preventDefault();
    publish.mutate({ status: text, in_reply_to_id: post.id }, { onSuccess: () => setText("") });
  };
  return (
    <section className="comments" aria-label="Comments">
      <ul>
        {data?.descendants.map((comment) => (
          <li key={comment.id}>
            <Avatar account={comment.account} />
            <p>
              <strong>{nameOf(comment.account)}</strong> {textOf(comment)} <Ago time={comment.created_at} />
            </p>
          </li>
        ))}
      </ul>
      {data?.descendants.length === 0 && <p className="empty">No comments yet.</p>}
      {isMember && (
        <form onSubmit={send}>
          <input aria-label="Comment" placeholder="Add a comment" value={text} required maxLength={500} onChange={(event) => setText(event.target.value)} />
          <button className="primary" disabled={publish.isPending}>
            Send
          </button>
          <Problem text={publish.error?.message} />
        </form>
      )}
    </section>
  );
}
