// What pages gain with scripts: they stay fresh, take the keyboard, and say more under the pointer. Nothing needs it.
const $ = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const words = document.body.dataset;

// --- the address in the printed link: its token is behind the #, which no server and no log ever sees
const login = $("#login");
if (login && location.hash.length > 16) {
  login.elements.token.value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
  login.requestSubmit();
}
if (new URLSearchParams(location.search).has("said")) {
  const address = new URL(location.href);
  for (const name of ["said", "n", "m"]) address.searchParams.delete(name);
  history.replaceState(null, "", address);
}

// --- live: the page is asked for once more, and its live parts are exchanged where they differ
const live = $("#live");
const held = () => $("details.ask[open]") || $("dialog[open]");
const busy = (part) => part.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox])");
let still = false, stale = false, asking = false, source = null, at = -1;

async function refresh() {
  if (still || document.hidden || held()) { stale = true; return; }
  if (asking) { stale = true; return; }
  asking = true; stale = false;
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, credentials: "same-origin" });
    if (answer.redirected && new URL(answer.url).pathname === "/login") { location.reload(); return; }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!held()) exchange(fresh);
    show(answer.ok ? "on" : "away");
  } catch { show("away"); }
  asking = false;
  if (stale) setTimeout(refresh, 1000);
}
function exchange(fresh) {
  for (const part of all("[data-live]")) {
    const next = fresh.getElementById(part.id);
    if (!next || busy(part)) continue;
    if (plain(next) === plain(part)) continue;
    const marked = new Set(all("input[name=id]:checked", part).map((box) => box.value));
    const focus = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") || document.activeElement.value : null;
    part.replaceWith(document.adoptNode(next));
    for (const box of all("input[name=id]", next)) box.checked = marked.has(box.value);
    if (focus) all("a[href], input", next).find((each) => each.getAttribute("href") === focus || each.value === focus)?.focus({ preventScroll: true });
    if (at >= 0) go(at, false);
  }
  count();
}
// Seals differ every time; they are no reason to exchange anything.
const plain = (part) => part.outerHTML.replace(/name="seal" value="[^"]*"/g, "").replace(/ class="at"| at(?=")/g, "").replace(/ hidden=""/g, "");
function show(state) {
  if (!live) return;
  live.hidden = false;
  live.className = `live ${still ? "" : state}`;
  $("span", live).textContent = still ? words.stillWord : state === "away" ? words.awayWord : words.liveWord;
}
function connect() {
  if (!live || source || !$("[data-live]")) return;
  source = new EventSource("/events");
  source.addEventListener("hello", () => show("on"));
  let last = 0, timer = null;
  source.addEventListener("change", () => {
    const wait = Math.max(0, 1000 - (Date.now() - last));
    timer ??= setTimeout(() => { timer = null; last = Date.now(); refresh(); }, wait);
  });
  source.onerror = () => { show("away"); if (source?.readyState === EventSource.CLOSED) { source = null; setTimeout(() => { connect(); refresh(); }, 5000); } };
}
function toggle() { still = !still; show("on"); if (!still) refresh(); }
live?.addEventListener("click", toggle);
document.addEventListener("visibilitychange", () => {
  // A page that nobody sees holds no connection.
  if (document.hidden) { source?.close(); source = null; } else { connect(); refresh(); }
});
document.addEventListener("toggle", () => { if (!held() && stale) refresh(); }, true);
connect();

// --- marked rows
const bulk = $("#bulk");
function count() {
  const number = all("input[name=id]:checked").length, whole = $("#all");
  if (whole) { whole.hidden = false; whole.checked = number > 0 && number === all("input[name=id]").length; }
  if (!bulk) return;
  bulk.classList.toggle("none", !number);
  $("#marked").textContent = `${$("#marked").dataset.word} ${number}`;
}
document.addEventListener("change", (event) => {
  if (event.target.id === "all") for (const box of all("input[name=id]")) box.checked = event.target.checked;
  if (event.target.matches("#all, input[name=id]")) count();
});
count();

// --- the keyboard
const rows = () => all("[data-row]");
function go(to, scroll = true) {
  const found = rows();
  if (!found.length) return;
  at = Math.min(Math.max(to, 0), found.length - 1);
  found.forEach((row, number) => row.classList.toggle("at", number === at));
  if (scroll) found[at].scrollIntoView({ block: "nearest" });
}
let went = 0;
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { all("details.ask[open]").forEach((each) => { each.open = false; }); document.activeElement?.blur(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=checkbox]), textarea, select") || $("dialog[open]")) return;
  if (went && Date.now() - went < 1500) {
    went = 0;
    const tab = all("[data-go]").find((each) => each.dataset.go === event.key);
    if (tab) { event.preventDefault(); tab.click(); return; }
  }
  switch (event.key) {
    case "g": went = Date.now(); break;
    case "/": event.preventDefault(); $("#search") ? $("#search").focus() : location.assign("/jobs#search"); break;
    case "j": go(at + 1); break;
    case "k": go(at - 1); break;
    case "x": { const box = at >= 0 && $("input[name=id]", rows()[at]); if (box) { box.checked = !box.checked; count(); } break; }
    case "Enter": if (at >= 0 && !document.activeElement.matches("a, button, summary")) $("[data-open]", rows()[at])?.click(); break;
    case "p": if (live) toggle(); break;
    case "?": $("#help")?.showModal(); break;
  }
});
if (location.hash === "#search") $("#search")?.focus();
const help = $("#help-open");
if (help) { help.hidden = false; help.addEventListener("click", () => $("#help").showModal()); }
document.addEventListener("click", (event) => {
  for (const each of all("details.ask[open]")) if (!each.contains(event.target)) each.open = false;
  const copy = event.target.closest("[data-copy]");
  if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => { copy.classList.add("on"); });
});
if (navigator.clipboard) for (const each of all("[data-copy]")) each.hidden = false;

// --- what a chart says at a place: the words of its title, at once and beside the pointer
let tip = null;
document.addEventListener("pointerover", (event) => {
  tip?.remove(); tip = null;
  const probe = event.target.closest?.(".probe");
  if (!probe) return;
  const title = $("title", probe);
  if (title) { probe.dataset.said = title.textContent; title.remove(); }
  const plot = probe.closest(".plot");
  tip = document.createElement("div");
  tip.className = "tip"; tip.textContent = probe.dataset.said;
  plot.append(tip);
  const box = plot.getBoundingClientRect(), place = probe.getBoundingClientRect();
  const x = place.left - box.left + place.width / 2;
  tip.style.setProperty("left", `${Math.max(0, x > box.width / 2 ? x - tip.offsetWidth - 10 : x + 10)}px`);
  tip.style.setProperty("top", "4px");
});

// --- how long ago something was goes on, though nothing changes
setInterval(() => { if (stale) refresh(); }, 5000);
setInterval(() => { if (!still) refresh(); }, 15000);
