import { useState } from "react";
import type { Status } from "@shoal/client";
import { accountFeed, homeFeed, mediaFeed, useAccount, useMe, type Feed } from "@shoal/client/react";
import { Composer } from "./Composer.tsx";
import { Avatar, FollowButton, Icon, Problem, nameOf } from "./parts.tsx";
import { Grid } from "./Grid.tsx";
import { Photo } from "./Photo.tsx";
import { addressOf, useRoute, type Route } from "./route.ts";
import { logIn, logOut } from "./session.ts";

export function App({ isMember, problem }: { isMember: boolean; problem: string }) {
  const route = useRoute();
  const me = useMe({ enabled: isMember });
  const [isComposing, setComposing] = useState(false);
  const shown: Route = isMember || route.list !== "following" ? route : { ...route, list: "explore" };
  return (
    <>
      <header className="top">
        <a className="logo" href="#/explore">
          Shoreline
        </a>
        <nav aria-label="Feeds">
          <Tab route={shown} list="explore" name="Explore" />
          {isMember && <Tab route={shown} list="following" name="Following" />}
        </nav>
        {isMember ? (
          <div className="actions">
            <button className="primary" aria-label="Share a photo" onClick={() => setComposing(true)}>
              <Icon name="plus" /> <span>Share a photo</span>
            </button>
            {me.data && (
              <a className="self" href={addressOf({ list: { account: me.data.id } })} aria-label={`${nameOf(me.data)}, your photos`}>
                <Avatar account={me.data} />
              </a>
            )}
            <button className="quiet" onClick={() => void logOut()}>
              Log out
            </button>
          </div>
        ) : (
          <LogIn />
        )}
      </header>
      <main>
        <Problem text={problem || me.error?.message} />
        <List route={shown} isMember={isMember} me={me.data?.id} />
      </main>
      {shown.photo && <Photo id={shown.photo} list={shown.list} isMember={isMember} me={me.data?.id} />}
      {isComposing && <Composer onClose={() => setComposing(false)} />}
    </>
  );
}

function Tab({ route, list, name }: { route: Route; list: "explore" | "following"; name: string }) {
  return (
    <a href={addressOf({ list })} aria-current={route.list === list ? "page" : undefined}>
      {name}
    </a>
  );
}

function LogIn() {
  const [problem, setProblem] = useState("");
  return (
    <div className="actions">
      <Problem text={problem} />
      <button className="primary" onClick={() => logIn().catch((error: Error) => setProblem(error.message))}>
        Log in
      </button>
    </div>
  );
}

const hasPhoto = (post: Status): boolean => (post.reblog ?? post).media_attachments.some((media) => media.type === "image");

function List({ route, isMember, me }: { route: Route; isMember: boolean; me: string | undefined }) {
  if (typeof route.list === "object") {
    const { account } = route.list;
    return (
      <>
        <Profile id={account} canFollow={isMember && me !== account} />
        <Grid key={account} feed={accountFeed(account, { only_media: true })} filter={hasPhoto} list={route.list} isMember={isMember} empty="No photos yet." />
      </>
    );
  }
  const feeds: Record<typeof route.list, [Feed, string, string]> = {
    explore: [mediaFeed, "Explore", "No photos yet. Share the first one."],
    following: [homeFeed, "Following", "No photos yet. Follow people whose photos you like."],
  };
  const [feed, title, empty] = feeds[route.list];
  return (
    <>
      <h1 className="hidden">{title}</h1>
      <Grid key={title} feed={feed} filter={hasPhoto} list={route.list} isMember={isMember} empty={empty} />
    </>
  );
}

function Profile({ id, canFollow }: { id: string; canFollow: boolean }) {
  const { data, error } = useAccount(id);
  if (!data) return <Problem text={error?.message} />;
  return (
    <section className="profile" aria-label="Profile">
      <Avatar account={data} />
      <div>
        <h1>{nameOf(data)}</h1>
        <p>
          @{data.acct} · {data.followers_count} followers
        </p>
      </div>
      {canFollow && <FollowButton account={data} />}
    </section>
  );
}
