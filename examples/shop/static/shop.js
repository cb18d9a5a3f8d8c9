// The page of the shop. Its own data come from /api; reviews come from Shoal, to which the browser sends a short-lived token of the user.
const { createElement, createContext, useContext, useEffect, useState, useCallback } = React;
const html = htm.bind(createElement);
const Shop = createContext(null);

async function answer(response) {
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  const reason = body.detail ?? body.error ?? "Something went wrong.";
  throw new Error(Array.isArray(reason) ? reason.map((one) => `${one.loc.at(-1)}: ${one.msg}`).join("; ") : reason);
}

const own = (path, json) =>
  fetch(`/api/${path}`, json && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(json) }).then(answer);

let token = null;

/** Return a token of Shoal for the current user, and request a new one a minute before it expires. */
async function memberToken() {
  if (!token || token.until < Date.now()) {
    const made = await own("token", {});
    token = { text: made.token, until: Date.now() + (made.seconds - 60) * 1000 };
  }
  return token.text;
}

/** Return a function that calls Shoal: as the current user, or as a visitor. */
function shoalOf(shop) {
  return async (path, json) => {
    const headers = json ? { "Content-Type": "application/json" } : {};
    if (shop.user) headers.Authorization = `Bearer ${await memberToken()}`;
    return answer(await fetch(`${shop.shoal}/api/${path}`, json ? { method: "POST", headers, body: JSON.stringify(json) } : { headers }));
  };
}

function textOf(status) {
  const spaced = status.content.replace(/<br ?\/?>/g, "\n").replace(/<\/p><p>/g, "\n\n");
  return new DOMParser().parseFromString(spaced, "text/html").body.textContent.replace(/\s*#\w+\s*$/, "");
}

function ago(time) {
  const minutes = Math.round((Date.now() - new Date(time)) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min`;
  return minutes < 1440 ? `${Math.round(minutes / 60)} h` : new Date(time).toLocaleDateString();
}

function go(path) {
  history.pushState(null, "", path);
  dispatchEvent(new PopStateEvent("popstate"));
  scrollTo(0, 0);
}

function Link({ to, children, ...more }) {
  const open = (event) => {
    event.preventDefault();
    go(to);
  };
  return html`<a href=${to} onClick=${open} ...${more}>${children}</a>`;
}

function Stars({ value, count }) {
  const label = `${value} of 5 stars`;
  return html`<span className="stars" role="img" aria-label=${label}><span style=${{ width: `${value * 20}%` }}>★★★★★</span></span>
    ${count !== undefined && html`<small className="count">${value} (${count})</small>`}`;
}

function Avatar({ name }) {
  const hue = [...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 360, 7);
  const initials = name.split(" ").map((part) => part[0]).slice(0, 2).join("");
  return html`<span className="avatar" aria-hidden="true" style=${{ background: `hsl(${hue} 45% 32%)` }}>${initials}</span>`;
}

function Problem({ text }) {
  return text ? html`<p className="problem" role="alert">${text}</p>` : null;
}

function Header() {
  const { shop, refresh } = useContext(Shop);
  const leave = async () => {
    await own("logout", {});
    token = null;
    await refresh();
    go("/");
  };
  return html`<header className="top">
    <${Link} to="/" className="brand"><span aria-hidden="true">≈</span> Driftwood<//>
    <nav>
      <${Link} to="/">Shop<//>
      ${shop.user
        ? html`<${Link} to="/feed">Following<//><${Link} to="/news" className="points">${shop.user.points} points<//>
            ${shop.user.is_staff && html`<${Link} to="/staff">Waiting reviews<//>`}
            <span className="who">${shop.user.name}</span><button className="plain" onClick=${leave}>Log out</button>`
        : html`<${Link} to="/login">Log in<//><${Link} to="/signup" className="button">Sign up<//>`}
    </nav>
  </header>`;
}

function Tile({ product }) {
  return html`<${Link} to=${`/p/${product.slug}`} className="tile">
    <img src=${`/static/products/${product.slug}.svg`} alt="" />
    <strong>${product.name}</strong><span className="price">${product.price}</span>
    ${product.reviews ? html`<span className="rating"><${Stars} value=${product.stars} count=${product.reviews} /></span>` : html`<small className="count">No reviews yet</small>`}
  <//>`;
}

function Front() {
  const { shop } = useContext(Shop);
  return html`<section className="hero"><h1>Made for the weather<br />between the tides</h1>
      <p>Six things that we use every day at the coast, and what people who own them think.</p></section>
    <section className="grid">${shop.products.map((product) => html`<${Tile} key=${product.slug} product=${product} />`)}</section>
    <h2>Latest reviews</h2><${Reviews} load=${(shoal) => shoal("v1/timelines/public?limit=6&with_data=true")} />`;
}

function Review({ status, followed, onFollow }) {
  const { shop, shoal } = useContext(Shop);
  const [shown, setShown] = useState(status);
  const [problem, setProblem] = useState("");
  const [open, setOpen] = useState(false);
  const { account, media_attachments: [photo] } = shown;
  const { product: slug, stars } = shown.shoal?.data ?? {};
  const product = shop.products.find((one) => one.slug === slug);
  const need = (action) => async () => {
    if (!shop.user) return go("/login");
    setProblem("");
    return action().catch((error) => setProblem(error.message));
  };
  const like = need(async () => setShown(await shoal(`v1/statuses/${shown.id}/${shown.favourited ? "un" : ""}favourite`, {})));
  const isOwn = account.id === shop.user?.member_id;
  return html`<article className="review">
    <header><${Avatar} name=${account.display_name} /><div><strong>${account.display_name}</strong><small>${ago(shown.created_at)}</small></div>
      ${!isOwn && html`<button className=${followed ? "chip on" : "chip"} onClick=${need(() => onFollow(account.id, !followed))}>${followed ? "Following" : "Follow"}</button>`}</header>
    ${photo && html`<img className="photo" src=${photo.preview_url ?? photo.url} alt=${photo.description ?? ""} style=${{ aspectRatio: photo.meta?.original?.aspect ?? 1.5 }} />`}
    ${stars && html`<p className="verdict"><${Stars} value=${stars} />${product && html`<${Link} to=${`/p/${slug}`}>${product.name}<//>`}</p>`}
    <p className="text">${textOf(shown)}</p>
    <footer>
      <button className=${shown.favourited ? "plain liked" : "plain"} aria-pressed=${shown.favourited} onClick=${like}><span aria-hidden="true">♥</span> Like ${shown.favourites_count || ""}</button>
      <button className="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>Comments ${shown.replies_count}</button>
    </footer>
    <${Problem} text=${problem} />
    ${open && html`<${Comments} status=${shown} onChange=${setShown} />`}
  </article>`;
}

function Comments({ status, onChange }) {
  const { shop, shoal } = useContext(Shop);
  const [comments, setComments] = useState([]);
  const [problem, setProblem] = useState("");
  const load = useCallback(async () => setComments((await shoal(`v1/statuses/${status.id}/context`)).descendants), [shoal, status.id]);
  useEffect(() => void load().catch((error) => setProblem(error.message)), [load]);
  const send = async (event) => {
    event.preventDefault();
    const form = event.target;
    try {
      await shoal("v1/statuses", { status: form.elements.comment.value, in_reply_to_id: status.id });
      form.reset();
      await load();
      onChange(await shoal(`v1/statuses/${status.id}`));
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<div className="comments">
    ${comments.map((one) => html`<p key=${one.id}><strong>${one.account.display_name}</strong> ${textOf(one)}</p>`)}
    ${shop.user && html`<form onSubmit=${send}><input name="comment" aria-label="Comment" placeholder="Write a comment" required maxLength="500" /><button>Send</button></form>`}
    <${Problem} text=${problem} />
  </div>`;
}

/** A list of reviews. `load` requests them, `added` are newer ones. */
function Reviews({ load, version = 0, added = [], empty = "No reviews yet." }) {
  const { shop, shoal } = useContext(Shop);
  const [found, setFound] = useState(null);
  const [followed, setFollowed] = useState({});
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let outdated = false;
    const shown = (statuses) => {
      if (outdated) return;
      setFound(statuses);
      setProblem("");
    };
    void load(shoal).then(shown, (error) => outdated || setProblem(error.message));
    return () => void (outdated = true);
  }, [shoal, version]);
  const statuses = [...added, ...(found ?? [])].filter((one, at, all) => one.shoal?.data?.stars && all.findIndex((other) => other.id === one.id) === at);
  const authors = [...new Set(statuses.map((one) => one.account.id))].join();
  useEffect(() => {
    if (!shop.user || !authors) return;
    const ids = authors.split(",").map((id) => `id[]=${id}`).join("&");
    shoal(`v1/accounts/relationships?${ids}`).then((all) => setFollowed(Object.fromEntries(all.map((one) => [one.id, one.following]))), () => {});
  }, [shoal, authors]);
  const follow = async (id, wanted) => {
    const { following } = await shoal(`v1/accounts/${id}/${wanted ? "follow" : "unfollow"}`, {});
    setFollowed((current) => ({ ...current, [id]: following }));
  };
  if (problem) return html`<${Problem} text=${problem} />`;
  if (!found) return html`<p className="quiet">Loading…</p>`;
  if (!statuses.length) return html`<p className="quiet">${empty}</p>`;
  return html`<div className="reviews">
    ${statuses.map((status) => html`<${Review} key=${status.id} status=${status} followed=${followed[status.account.id]} onFollow=${follow} />`)}
  </div>`;
}

function Composer({ product, onPosted }) {
  const { shop } = useContext(Shop);
  const [stars, setStars] = useState(5);
  const [photo, setPhoto] = useState(null);
  const [busy, setBusy] = useState(false);
  const [notice, setNotice] = useState("");
  const [problem, setProblem] = useState("");
  if (!shop.user) return html`<p className="quiet"><${Link} to="/login">Log in<//> to review the ${product.name}.</p>`;
  const send = async (event) => {
    event.preventDefault();
    const form = event.target;
    setBusy(true);
    setNotice("");
    setProblem("");
    try {
      const headers = { "Idempotency-Key": crypto.randomUUID() };
      const response = await fetch(`/api/products/${product.slug}/reviews`, { method: "POST", headers, body: new FormData(form) });
      const posted = await answer(response);
      if (posted.held_id) setNotice("Thank you! We read the first review of each customer before we publish it.");
      else onPosted(posted);
      form.reset();
      setPhoto(null);
      setStars(5);
    } catch (error) {
      setProblem(error.message);
    }
    setBusy(false);
  };
  const choose = (event) => setPhoto(event.target.files[0] ? URL.createObjectURL(event.target.files[0]) : null);
  return html`<form className="composer" onSubmit=${send}>
    <h2>Your review</h2>
    <fieldset aria-label="Stars">${[1, 2, 3, 4, 5].map((n) => html`<label key=${n} className=${n <= stars ? "lit" : ""}>
      <input type="radio" name="stars" value=${n} checked=${n === stars} onChange=${() => setStars(n)} aria-label=${`${n} of 5 stars`} />★</label>`)}</fieldset>
    <textarea name="text" aria-label="Review" rows="3" required maxLength="2000" placeholder=${`How is your ${product.name}?`} />
    ${photo && html`<img className="photo" src=${photo} alt="Your photo" />`}
    <div className="row"><label className="file">Add a photo<input type="file" name="photo" accept="image/*" onChange=${choose} /></label>
      <button className="button" disabled=${busy}>${busy ? "Posting…" : "Post review"}</button></div>
    ${notice && html`<p className="notice" role="status">${notice}</p>`}
    <${Problem} text=${problem} />
  </form>`;
}

function ProductPage({ slug }) {
  const { shop, refresh } = useContext(Shop);
  const [added, setAdded] = useState([]);
  const product = shop.products.find((one) => one.slug === slug);
  if (!product) return html`<h1>There is no such product</h1>`;
  const posted = (status) => {
    setAdded((current) => [status, ...current]);
    void refresh();
  };
  return html`<section className="product">
      <img className="picture" src=${`/static/products/${slug}.svg`} alt=${product.name} />
      <div><h1>${product.name}</h1>
        <p className="rating">${product.reviews ? html`<${Stars} value=${product.stars} count=${product.reviews} />` : html`<small className="count">No reviews yet</small>`}</p>
        <p className="lead">${product.text}</p><p className="price">${product.price}</p></div>
    </section>
    <${Composer} product=${product} onPosted=${posted} />
    <h2>Reviews</h2>
    <${Reviews} added=${added} load=${(shoal) => shoal(`v1/timelines/tag/${product.tag}?limit=20&with_data=true`)} />`;
}

function Feed() {
  const { shop, shoal } = useContext(Shop);
  const [added, setAdded] = useState([]);
  const [version, setVersion] = useState(0);
  useEffect(() => {
    if (!shop.user) return undefined;
    let socket;
    let left = false;
    void memberToken().then((text) => {
      if (left) return;
      socket = new WebSocket(`${shop.shoal.replace(/^http/, "ws")}/api/v1/streaming?stream=user`, text);
      // A review may have arrived after the list was read.
      socket.onopen = () => setVersion((now) => now + 1);
      socket.onmessage = async ({ data }) => {
        const { event, payload } = JSON.parse(data);
        if (event !== "update") return;
        // Unlike the stream, the status has the data of the shop.
        const status = await shoal(`v1/statuses/${JSON.parse(payload).id}`);
        setAdded((current) => [status, ...current]);
      };
    });
    return () => {
      left = true;
      socket?.close();
    };
  }, [shop.user?.name]);
  if (!shop.user) return html`<h1>Following</h1><p className="quiet"><${Link} to="/login">Log in<//> to see the reviews of people whom you follow.</p>`;
  return html`<h1>Following</h1>
    <${Reviews} added=${added} version=${version} load=${() => own("feed")} empty="Follow people whose reviews you like. New ones appear here." />`;
}

function News() {
  const { shop, shoal } = useContext(Shop);
  const [held, setHeld] = useState([]);
  useEffect(() => void (shop.user && shoal("shoal/v1/held").then(setHeld, () => {})), [shoal]);
  if (!shop.user) return html`<h1>News</h1>`;
  return html`<h1>${shop.user.points} points</h1><p className="quiet">Each like of one of your reviews is worth 5 points. 100 points are a free mug.</p>
    ${held.map((one) => html`<p key=${one.id} className="notice">${one.rejected_at ? `Not published. ${one.refusal}` : "Waiting for our staff."} <q>${one.text}</q></p>`)}
    <ul className="news">${shop.user.news.map((one, at) => html`<li key=${at}><span>${one.text}</span>${one.points > 0 && html`<strong>+${one.points}</strong>`}</li>`)}</ul>
    ${!shop.user.news.length && html`<p className="quiet">Nothing has happened yet.</p>`}`;
}

function Staff() {
  const [held, setHeld] = useState(null);
  const [problem, setProblem] = useState("");
  const failed = (error) => setProblem(error.message);
  const load = useCallback(() => own("staff/held").then(setHeld, failed), []);
  useEffect(() => void load(), [load]);
  const decide = (id, action) => async (event) => {
    const reason = event.target.closest("article").querySelector("input").value;
    await own(`staff/held/${id}`, { action, reason }).then(load, failed);
  };
  return html`<h1>Waiting reviews</h1><${Problem} text=${problem} />
    ${held?.map((one) => html`<article key=${one.id} className="review">
      <header><${Avatar} name=${one.author} /><strong>${one.author}</strong></header><p className="text">${one.text}</p>
      <div className="row"><button onClick=${decide(one.id, "approve")}>Approve</button>
        <input aria-label=${`Reason for ${one.author}`} placeholder="Reason, for the author" maxLength="500" />
        <button className="chip" onClick=${decide(one.id, "reject")}>Reject</button></div>
    </article>`)}
    ${held?.length === 0 && html`<p className="quiet">No review is waiting.</p>`}`;
}

function Account({ isNew }) {
  const { refresh } = useContext(Shop);
  const [problem, setProblem] = useState("");
  const send = async (event) => {
    event.preventDefault();
    try {
      await own(isNew ? "signup" : "login", Object.fromEntries(new FormData(event.target)));
      token = null;
      await refresh();
      go("/");
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<form className="account" onSubmit=${send}>
    <h1>${isNew ? "Create your account" : "Welcome back"}</h1>
    ${isNew && html`<label>Name<input name="name" autoComplete="name" required maxLength="30" /></label>`}
    <label>E-mail address<input name="email" type="email" autoComplete="email" required /></label>
    <label>Password<input name="password" type="password" autoComplete=${isNew ? "new-password" : "current-password"} required minLength="8" /></label>
    <button className="button">${isNew ? "Sign up" : "Log in"}</button>
    <p className="quiet">${isNew ? html`Have an account? <${Link} to="/login">Log in<//>` : html`New here? <${Link} to="/signup">Sign up<//>`}</p>
    <${Problem} text=${problem} />
  </form>`;
}

const PAGES = { "/": Front, "/feed": Feed, "/news": News, "/staff": Staff, "/login": Account, "/signup": () => html`<${Account} isNew />` };

function App() {
  const [shop, setShop] = useState(null);
  const [path, setPath] = useState(location.pathname);
  const refresh = useCallback(async () => setShop(await own("shop")), []);
  useEffect(() => {
    const move = () => setPath(location.pathname);
    addEventListener("popstate", move);
    void refresh();
    // Webhooks change ratings and points.
    const timer = setInterval(() => document.hidden || refresh().catch(() => {}), 3000);
    return () => {
      clearInterval(timer);
      removeEventListener("popstate", move);
    };
  }, [refresh]);
  const shoal = useCallback((...given) => shoalOf(shop)(...given), [shop?.shoal, shop?.user?.name]);
  if (!shop) return null;
  const product = path.match(/^\/p\/(\w+)$/)?.[1];
  const Page = PAGES[path] ?? (() => html`<h1>There is no such page</h1>`);
  return html`<${Shop.Provider} value=${{ shop, shoal, refresh }}>
    <${Header} />
    <main>${product ? html`<${ProductPage} key=${product} slug=${product} />` : html`<${Page} key=${path} />`}</main>
    <footer className="bottom">Driftwood is an example of a shop with Shoal.</footer>
  <//>`;
}

ReactDOM.createRoot(document.getElementById("shop")).render(html`<${App} />`);
