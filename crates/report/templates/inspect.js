const page = data("data-page"), statements = data("data-statements");
const timed = statements.some((one) => one.captured);
const of = (key) => (one) => (one.captured ? one.captured[key] : -1);
const time = (key, label, title) => ({ key, label, title, value: of(key), text: (one) => (one.captured ? units.us(one.captured[key] / 1e3) : "–") });
const number = (key, label, title, text = units.count) => ({ key, label, title, value: (one) => one[key] ?? -1, text: (one) => (one[key] === null ? "–" : text(one[key])) });
// Zeros of what is rare are left out, so that what is there is seen.
const rare = (text) => (value) => (value ? text(value) : "");
const shareOf = (one) => (one.captured && page.total_ns ? one.captured.total_ns / page.total_ns : null);
const share = { key: "share", label: "share", title: "its part of the time of all statements", value: (one) => shareOf(one) ?? -1, text: (one) => (shareOf(one) === null ? "–" : units.share(shareOf(one))) };
const columns = [number("calls", "calls", "how often it was sent")];
if (timed) columns.unshift(share, time("total_ns", "total", "its time in all"));
if (timed) columns.push(time("mean_ns", "mean"), time("p50_ns", "p50", "half of the calls took no longer"), time("p95_ns", "p95", "95 % took no longer"), time("p99_ns", "p99", "99 % took no longer"), time("max_ns", "max", "the slowest call"));
const some = (key) => statements.some((one) => one[key]);
if (some("errors")) columns.push({ ...number("errors", "failed", "how often it failed", rare(units.count)), bad: (one) => one.errors > 0 });
if (some("rows")) columns.push(number("rows", "rows", "rows returned or affected"));
if (some("temporary_bytes")) columns.push(number("temporary_bytes", "temp files", "bytes of temporary files", rare(units.bytes)));
if (some("lock_waited_us")) columns.push(number("lock_waited_us", "waited", "time waited for locks", rare(units.us)));

function overTime(one) {
  const width = (page.span_us + 1) / page.stretches, most = (at) => Math.max(...one.over_time.map((stretch) => stretch[at]));
  const chart = (title, at, unit) => ({
    title, note: `in ${units.us(width)}`, alt_text: `at most ${units[unit](most(at))} in ${units.us(width)}`, height: 110,
    x: { unit: "clock", from: page.start_wall_us, to: page.start_wall_us + page.span_us + 1, step: width }, y: { unit, whole: unit === "count" },
    series: [{ colour: "c1", shape: "bars", points: one.over_time.map((stretch) => [page.start_wall_us + stretch[0] * width, stretch[at]]) }],
  });
  const host = make("div", { class: "charts" });
  drawCharts(host, [chart("Calls over time", 1, "count"), ...(one.captured ? [chart("Time over time", 2, "us")] : [])]);
  return [host];
}
function detail(one) {
  const list = make("dl");
  const row = (name, ...value) => list.append(make("dt", {}, name), make("dd", {}, ...value));
  row("fingerprint", make("code", {}, one.fingerprint), one.class ? ` ${one.class}` : "");
  if (one.example) {
    const at = one.example, where = at.place.line ? `${page.sources[at.place.source] || ""}:${at.place.line}, ` : "";
    row(at.duration_us === null ? "first call" : "slowest call", (at.duration_us === null ? "" : units.us(at.duration_us) + ", ") + where + `session ${at.session}, sent ${units.clock(page.start_wall_us + at.due_us)} (${units.us(at.due_us)} after the start)`);
  }
  if (one.errors) row("failed", one.error_codes.map((code) => `${code.sqlstate === "?????" ? "code not in the log" : code.sqlstate}${page.conditions[code.sqlstate] ? " " + page.conditions[code.sqlstate] : ""} × ${units.count(code.count)}`).join(" · "));
  if (one.temporary_files) row("temporary files", `${units.count(one.temporary_files)}, ${units.bytes(one.temporary_bytes)}`);
  if (one.lock_waits || one.lock_waited_us) row("lock waits", `${units.count(one.lock_waits)}, ${units.us(one.lock_waited_us)} in those that ended`);
  const parts = [make("pre", { tabindex: "0" }, one.sql || "(its text is unknown)"), list];
  if (one.example && one.example.literal) {
    const literal = one.example.literal;
    parts.push(make("h3", {}, (one.example.duration_us === null ? "The first call" : "The slowest call") + " as it was sent" + (literal.cut ? " (cut)" : "")), make("pre", { tabindex: "0" }, literal.sql));
    if (literal.parameters.length) parts.push(make("pre", { tabindex: "0" }, literal.parameters.map((value, at) => `$${at + 1} = ${value === null ? "NULL" : `'${value}'`}`).join("\n")));
  }
  return one.over_time.length ? parts.concat(overTime(one)) : parts;
}
const host = document.getElementById("statement-table");
if (host) dataTable(host, {
  rows: statements, columns, caption: "Statements", detail,
  what: { label: "statement", text: (one) => (one.sql || one.fingerprint).slice(0, 400) },
  filters: [{ label: "Class", value: (one) => one.class || "" }],
  search: (one) => `${one.sql || ""} ${one.fingerprint} ${one.class || ""} ${one.error_codes.map((code) => code.sqlstate).join(" ")}`,
  order: { total: "total_ns", calls: "calls", mean: "mean_ns", max: "max_ns" }[timed ? page.order : "calls"],
});
