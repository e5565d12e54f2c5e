const page = data("data-page"), id = (name) => document.getElementById(name);
const state = { points: [], now: null, step: 1, over: false, lost: false, paused: false, range: 0 };
const put = (name, text) => { const element = id(name); if (element.textContent !== text) element.textContent = text; };
const us = (value) => valueText("us", value);
// A duration without the digits that would only flicker.
function seconds(value) {
  const s = Math.max(0, Math.round(value / 1e6));
  return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${String(s % 60).padStart(2, "0")} s` : `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} min`;
}

const times = (kind, quantile) => (point) => (point.times[kind] ? point.times[kind][quantile] : null);
// Lines go through points; an area is as wide as the time that a point covers.
const at = (point) => point.at_s * 1e6;
const line = (label, colour, value, more) => (points) => ({ label, colour, shape: "line", ...more, points: points.map((point) => [at(point), value(point)]) });
const area = (label, colour, value, more) => (points) => ({ label, colour, shape: "area", ...more, points: points.map((point) => [at(point) - (state.step * 1e6) / 2, value(point)]) });
const dashed = { dash: "dashed" }, dotted = { dash: "dotted" };
const latency = { unit: "us", log: true, min_ratio: 10 };
const specs = [
  { title: "Statements", note: "a second", y: { unit: "rate" }, series: [
    ...(page.replay.is_timed ? [line("due", "c7", (point) => point.due_per_s, dashed)] : []),
    line("answered", "c3", (point) => point.answered_per_s, { has_area: true }),
    line("sent", "c1", (point) => point.sent_per_s, dotted),
    line("failed", "c4", (point) => point.failed_per_s, dotted)] },
  { title: "Response time", note: "from due to done, log scale", y: latency, series: [
    line("p50", "c1", times("response", "p50_us")), line("p95", "c5", times("response", "p95_us"), dashed), line("p99", "c4", times("response", "p99_us"))] },
  { title: "Lag, p99", note: "from due to sent, log scale", y: latency, series: [
    line("tool, ours", "c2", times("tool_lag", "p99_us")), line("session, the server’s", "c8", times("session_lag", "p99_us"), dashed)] },
  { title: "Statements in flight", note: "sessions that wait for the server", y: { unit: "count", whole: true }, series: [
    area("in flight", "c8", (point) => point.in_flight, { is_faint: true })] },
  { title: "Waits of the target’s backends", note: "backends on average", y: { unit: "rate" }, layout: "stacked", key: "waits" },
  { title: "CPU of the target by phase", note: "processors on average", y: { unit: "rate" }, layout: "stacked", key: "phases" },
];
// What is observed of the target: names that come as they come, the most first, each with its colour.
const colours = { waits: new Map(), phases: new Map() };
function observed(key, points) {
  const sums = new Map(), taken = colours[key];
  for (const point of points) for (const [name, part] of point[key]) sums.set(name, (sums.get(name) || 0) + part);
  const value = (name) => (point) => { const found = point[key].find(([other]) => other === name); return found ? found[1] : 0; };
  const names = [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name), shown = names.slice(0, 7), rest = names.slice(7);
  for (const name of shown) if (!taken.has(name)) taken.set(name, [1, 2, 3, 4, 5, 6, 8].map((one) => `c${one}`).find((one) => !shown.some((other) => taken.get(other) === one)) || "c1");
  const series = shown.map((name) => area(name, taken.get(name), value(name))(points));
  return rest.length ? [...series, area(`${rest.length} others`, "c7", (point) => rest.reduce((sum, name) => sum + value(name)(point), 0))(points)] : series;
}

// What is seen now: all of it, or its end; as it was when the view was paused.
let view = { points: [], now: null };
function within() {
  const last = view.points.length ? view.points[view.points.length - 1].at_s : 0, to = Math.max(last, 10);
  // A replay that goes on with another begins late.
  const first = view.points.length ? view.points[0].at_s : 0, begin = first > 3 * state.step ? first - state.step : 0;
  const from = state.range ? Math.max(begin, to - state.range) : begin;
  return [view.points.filter((point) => point.at_s >= from), from, to];
}
function chartsNow() {
  const [points, from, to] = within(), now = view.now || {};
  return specs.map((spec) => ({
    ...spec, shows_last: true, x: { unit: "elapsed", from: from * 1e6, to: to * 1e6, step: state.step * 1e6 },
    series: spec.key ? observed(spec.key, points) : spec.series.map((series) => series(points)),
    missing: spec.key && now[spec.key] && now[spec.key].why_not ? `Not observed: ${now[spec.key].why_not}.` : "",
    source: (spec.key && now[spec.key] && now[spec.key].source) || "",
  }));
}
const charts = drawCharts(id("charts"), chartsNow(), "own");

function drawFacts(now) {
  const lately = now.lately, quantile = (kind, name) => (lately.times[kind] ? lately.times[kind][name] : isOver(now) && now.whole[kind] ? now.whole[kind][name] : null);
  put("fact-rate", units.rate(lately.answered_per_s));
  put("fact-rate-of", lately.due_per_s === null ? `${units.rate(lately.sent_per_s)} sent` : `of ${units.rate(lately.due_per_s)} due`);
  put("fact-p50", us(quantile("response", "p50_us")));
  put("fact-p99", us(quantile("response", "p99_us")));
  put("fact-p95", `p95 ${us(quantile("response", "p95_us"))}`);
  put("fact-tool", us(quantile("tool_lag", "p99_us")));
  put("fact-session", us(quantile("session_lag", "p99_us")));
  put("fact-failed", units.count(now.failed));
  put("fact-failed-of", `${units.count(now.skipped)} skipped`);
  id("fact-failed").closest("li").classList.toggle("wrong", now.failed > 0);
  put("fact-sessions", units.count(now.sessions_open));
  put("fact-flight", `${units.count(now.in_flight)} in flight` + (now.sessions_connecting ? `, ${units.count(now.sessions_connecting)} connecting` : ""));
}
const isOver = (now) => ["done", "stopped", "failed"].includes(now.state);
function positionText(now) {
  const parts = [`${Math.floor(now.position * 100)} %`, page.replay.span_us && !isOver(now) ? `${seconds(now.elapsed_us)} of ${seconds(page.replay.span_us)}` : seconds(now.elapsed_us)];
  if (now.overdue_us !== null) parts.push(`${seconds(now.overdue_us)} past its time`);
  else if (now.left_us !== null && !isOver(now)) parts.push(`${seconds(now.left_us)} left`);
  parts.push(`${units.count(now.done + now.failed + now.skipped)} of ${units.count(page.replay.statements)} statements over`);
  return parts.join(" · ");
}
function drawState(now) {
  const lost = state.lost && !state.over, words = lost ? "the program does not answer" : now.state_words;
  id("state").dataset.state = lost ? "lost" : now.state;
  put("state-words", words + (state.paused ? ", view paused" : ""));
  put("position-words", positionText(now));
  const bar = id("position"), percent = Math.floor(now.position * 100);
  bar.setAttribute("aria-valuenow", percent);
  bar.setAttribute("aria-valuetext", positionText(now));
  bar.firstElementChild.style.width = `${(now.position * 100).toFixed(2)}%`;
  const note = lost ? "What is shown is what was seen last. Looking for it again …" : now.note || "";
  put("note", note);
  id("note").classList.toggle("note-on", now.state !== "running" || Boolean(now.note));
  document.title = `${isOver(now) || lost ? words : `${percent} %`} · ${page.replay.workload}`;
  const stop = id("stop");
  if (stop) stop.disabled = lost || isOver(now) || ["stopping", "ending"].includes(now.state);
  // Told aloud only when it becomes another.
  const said = [words, lost || isOver(now) || now.state === "waiting" ? note : ""].filter(Boolean).join(". ");
  if (state.said !== said) { state.said = said; put("said", said); }
}

// Rows stay where they are while one points at them or is in them, so that nothing is missed by a hair.
const rows = new Map();
function drawTop(now) {
  const body = id("top").tBodies[0], held = body.matches(":hover") || body.contains(document.activeElement);
  const present = new Set(now.top.map((one) => one.fingerprint));
  for (const one of now.top) {
    let row = rows.get(one.fingerprint);
    if (!row) {
      const button = make("button", { type: "button", class: "sql", "aria-expanded": "false", onclick: () => button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") !== "true")) });
      const bar = make("i", {}), share = make("span", {}), cells = Array.from({ length: 7 }, (_, at) => make("td", { class: [0, 3, 4].includes(at) ? "minor" : null }));
      row = { button, bar, share, cells, tr: make("tr", {}, make("td", { class: "sql" }, button), make("td", { class: "share" }, make("span", { class: "meter", "aria-hidden": "true" }, bar), share), cells) };
      rows.set(one.fingerprint, row);
    }
    const write = (element, text) => { if (element.textContent !== text) element.textContent = text; };
    write(row.button, one.sql === null ? `statement ${one.fingerprint}` : one.sql || "(its text is unknown)");
    row.bar.style.width = `${(one.share * 100).toFixed(1)}%`;
    write(row.share, units.share(one.share));
    [one.share_lately === null ? "–" : units.share(one.share_lately), units.count(one.calls), us(one.mean_us), us(one.captured_mean_us), us(one.longest_us), us(one.total_us), one.failed ? units.count(one.failed) : ""].forEach((text, at) => write(row.cells[at], text));
    row.cells[6].className = one.failed ? "bad" : "";
  }
  if (!held) {
    now.top.forEach((one, at) => { const { tr } = rows.get(one.fingerprint); if (body.children[at] !== tr) body.insertBefore(tr, body.children[at] || null); });
    for (const [fingerprint, row] of rows) if (!present.has(fingerprint)) { row.tr.remove(); rows.delete(fingerprint); }
  } else for (const one of now.top) { const { tr } = rows.get(one.fingerprint); if (!tr.isConnected) body.append(tr); }
  put("others", now.others ? `${units.count(now.others.different)} other statements: ${units.count(now.others.calls)} calls, ${units.share(now.others.share)} of the time.` : now.top.length ? "" : "None has ended yet.");
}
let wrongShown = "";
function drawWrong(now) {
  const code = (one) => [make("td", { class: "left" }, make("code", {}, one.sqlstate), ` ${one.name}`), make("td", {}, units.count(one.count))];
  const tables = [];
  const table = (caption, heads, lines) => {
    if (!lines.length) return;
    tables.push(make("div", { class: "scroll" }, make("table", { class: "wide" }, make("caption", {}, caption), make("thead", {}, make("tr", {}, heads.map((head, at) => make("th", { scope: "col", class: at ? null : "left" }, head)))), make("tbody", {}, lines.map((cells) => make("tr", {}, cells))))));
  };
  table("Failed statements", ["SQLSTATE", "times", "now"], now.errors.map((one) => [...code(one), make("td", {}, one.lately ? units.count(one.lately) : "")]));
  table("Never sent", ["reason", "statements"], now.skips.map((one) => [make("td", { class: "left text" }, one.explanation || one.reason), make("td", {}, units.count(one.count))]));
  table("Connections that were lost", ["SQLSTATE", "times"], now.connections_lost.map(code));
  table("Connections that could not be opened", ["SQLSTATE", "times"], now.connections_failed.map(code));
  const key = JSON.stringify([now.errors, now.skips, now.connections_lost, now.connections_failed]);
  if (key === wrongShown) return;
  wrongShown = key;
  id("wrong").replaceChildren(...(tables.length ? tables : [make("p", { class: "quiet" }, isOver(now) ? "Nothing." : "Nothing so far.")]));
}
let asked = false;
function draw() {
  // At most once a frame, and not where nobody looks.
  if (asked || !state.now) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    if (!state.paused) view = { points: state.points, now: state.now };
    drawState(state.now);
    if (state.paused && view.drawn) return;
    view.drawn = true;
    drawFacts(view.now);
    charts.draw(chartsNow());
    drawTop(view.now);
    drawWrong(view.now);
  });
}

function listen() {
  const source = new EventSource("events");
  source.addEventListener("whole", (event) => {
    const whole = JSON.parse(event.data);
    Object.assign(state, { step: whole.step_s, points: whole.points, now: whole.now, lost: false });
    draw();
  });
  source.addEventListener("step", (event) => {
    const step = JSON.parse(event.data);
    state.points = state.points.slice(0, step.from).concat(step.points);
    Object.assign(state, { now: step.now, lost: false });
    draw();
  });
  source.addEventListener("end", () => { state.over = true; source.close(); draw(); });
  source.addEventListener("error", () => {
    if (state.over) return;
    state.lost = true;
    if (!state.now) { put("state-words", "the program does not answer"); put("said", "The program does not answer"); }
    draw();
    // The browser itself tries again where the line was lost, not where it was turned away.
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
}

function setRange(seconds) {
  state.range = seconds;
  for (const one of document.querySelectorAll("[data-range]")) one.setAttribute("aria-pressed", String(+one.dataset.range === seconds));
  if (view.now) charts.draw(chartsNow());
}
function pause() {
  state.paused = !state.paused;
  id("pause").setAttribute("aria-pressed", String(state.paused));
  put("pause", state.paused ? "Go on" : "Pause the view");
  draw();
}
async function stop() {
  const dialog = id("stopping");
  dialog.close();
  const answer = await fetch("stop", { method: "POST", headers: { "X-Rehearse-Secret": page.secret } }).catch(() => null);
  put("said", answer && answer.ok ? "Stopping in order." : "The replay could not be stopped here; press Ctrl-C where it runs.");
  if (!answer || !answer.ok) { put("note", id("said").textContent); id("note").classList.add("note-on"); }
}
const open = (name) => { const dialog = id(name); if (dialog && !dialog.open) dialog.showModal(); };
const askToStop = () => { if (id("stop") && !id("stop").disabled) open("stopping"); };
id("pause").addEventListener("click", pause);
id("keys").addEventListener("click", () => open("help"));
if (id("stop")) {
  id("stop").addEventListener("click", askToStop);
  id("stop-now").addEventListener("click", (event) => { event.preventDefault(); stop(); });
}
for (const one of document.querySelectorAll("[data-range]")) one.addEventListener("click", () => setRange(+one.dataset.range));
const go = (name) => { const place = id(name); place.scrollIntoView({ block: "start" }); place.focus({ preventScroll: true }); };
const keys = {
  p: pause, 1: () => setRange(0), 2: () => setRange(300), 3: () => setRange(60), s: askToStop, "?": () => open("help"),
  c: charts.focus,
  t: () => go("statements"), e: () => go("errors"),
  r: () => { if (state.now) { put("said", ""); setTimeout(() => put("said", `${state.now.state_words}, ${positionText(state.now)}`), 50); } },
};
document.addEventListener("keydown", (event) => {
  const within = event.target.closest && event.target.closest("input, select, textarea, dialog"), dialog = within && within.closest("dialog");
  // What had the focus in a dialog keeps it for a moment when that is closed.
  if ((within && (!dialog || dialog.open)) || event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
  if (!id("keys-on").checked && event.key !== "?") return;
  event.preventDefault();
  keys[event.key]();
});
listen();
