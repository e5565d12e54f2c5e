const page = data("data-page"), statements = data("data-statements");
// What only an open statement shows is read when the first is opened.
let details = null;
const more = (one) => { details = details || data("data-details"); return details[one.fingerprint] || {}; };
const kinds = {
  slower: ["bad", "slower"], looks_slower: ["unsure", "looks slower"], slower_along: ["even", "slower with the others"],
  faster: ["good", "faster"], looks_faster: ["unsure", "looks faster"], faster_along: ["even", "faster with the others"],
  same: ["even", "same"], too_noisy: ["unsure", "too noisy"],
  insufficient_data: ["unsure", "not enough data"],
};
const kindOf = (one) => kinds[one.kind][0];
const measureOf = (one) => one.measure || "median";
const ratioOf = (one) => one.ratios[measureOf(one)] || null;
const known = (one) => { const ratio = ratioOf(one); return ratio && ratio[1] !== null ? ratio : null; };
const signed = (us) => (us === null ? "–" : (us < 0 ? "−" : "+") + units.us(Math.abs(us)));
const ratioText = (ratio) => (ratio ? `${units.ratio(ratio[0])}×` + (ratio[1] === null ? "" : ` [${units.ratio(ratio[1])} – ${units.ratio(ratio[2])}]`) : "–");
const change = (before, after, text) => {
  const both = [before, after].map((value) => (value === null || value === undefined ? "–" : text(value)));
  const unit = both.map((value) => value.split(" "));
  if (unit[0].length === 2 && unit[1].length === 2 && unit[0][1] === unit[1][1]) both[0] = unit[0][0];
  return both.join(" → ");
};
const times = ["mean", "p50", "p95", "p99", "max"];
const at = (side, name) => (side ? side[times.indexOf(name)] : null);
const timeChange = (one, name) => change(at(one.before, name), at(one.after, name), units.us);
const name = (one) => one.sql || one.fingerprint;
const mark = (one) => [make("i", { class: `mark ${kindOf(one)}`, "aria-hidden": "true" }), kinds[one.kind][1]];
const cost = (one) => Math.abs(one.added || 0);

// What changed, by its cause: an interval a line.
const groups = [
  ["Changed independently: another plan, more work, or more time than the run’s common change", ["slower", "faster"]],
  ["Not proven, but look", ["looks_slower", "looks_faster"]],
  ["Moved along: the same work took another time, as that of others", ["slower_along", "faster_along"]],
];
const groupOf = (one) => groups.findIndex(([, members]) => members.includes(one.kind));
const changed = statements.filter((one) => groupOf(one) >= 0).sort((a, b) => groupOf(a) - groupOf(b) || cost(b) - cost(a));
const leading = (changed.length ? changed : statements.filter(known).sort((a, b) => cost(b) - cost(a))).slice(0, changed.length ? 12 : 5);
const axis = intervals(leading.map(known), page.margin);
const forest = document.getElementById("forest");
const percent = `${Math.round(page.margin * 100)} %`;
forest.replaceChildren(make("p", { class: "quiet" }, changed.length
  ? `How many times as long a call takes after the change, with the ${page.level} % interval; causes first, the greatest difference in all first. The band is the margin of ${percent}, within which a difference counts as none.`
  : leading.length ? `No statement changed. These are the most expensive, with their ${page.level} % intervals; the band is the margin of ${percent}.`
    : "No statement has enough calls in both runs to be compared."));
if (leading.length) forest.append(make("ol", { class: "forest" },
  make("li", { class: "head", "aria-hidden": "true" }, make("span"), axis.axis(), make("span", { class: "number" }, "times as long"), make("span", { class: "number" }, "in all")),
  leading.map((one, at) => [at && groupOf(leading[at - 1]) === groupOf(one) || groupOf(one) < 0 ? [] : make("li", { class: "head group" }, groups[groupOf(one)][0]), make("li", {},
    make("a", { href: "#statement=" + one.fingerprint }, make("i", { class: `mark ${kindOf(one)}`, "aria-hidden": "true" }), make("span", { class: "sql" }, name(one).slice(0, 300)),
      one.evidence || one.why ? make("small", {}, [one.evidence, one.why].filter(Boolean).join("; ")) : []),
    axis.bar(known(one) || ratioOf(one), kindOf(one)),
    make("span", { class: "number" }, ratioText(ratioOf(one)), make("small", {}, `${measureOf(one) === "median" ? "p50" : measureOf(one)} ${timeChange(one, measureOf(one) === "median" ? "p50" : measureOf(one))}`)),
    make("span", { class: "number" }, signed(one.added), make("small", {}, `${units.count(one.calls[0])} calls`)))]).flat(),
  changed.length > leading.length ? make("li", { class: "head" }, make("a", { href: "#statements" }, `and ${units.count(changed.length - leading.length)} more that changed, in the table`)) : []));

// The table.
const wide = intervals(statements.filter((one) => one.finding !== "insufficient_data").map(known), page.margin, 4);
const rank = { slower: 7, looks_slower: 6, slower_along: 5, faster: 4, looks_faster: 3, faster_along: 2, too_noisy: 1, insufficient_data: 1, same: 0 };
const columns = [
  { key: "finding", label: "finding", left: true, title: "causes first; what the words mean, at the end of this page", value: (one) => rank[one.kind] * 1e15 + Math.min(cost(one), 9e14), cell: mark },
  { key: "ratio", label: "times as long", left: true, title: "after divided by before, with its interval; the band is the margin", value: (one) => (known(one) || [-1])[0], cell: (one) => [wide.bar(known(one), kindOf(one)), make("span", { class: "beside" }, ratioText(known(one)))] },
  { key: "added", label: "added", title: "the difference of the means times the calls of a run before: what the change costs in all", value: (one) => (one.added === null ? -Infinity : one.added), text: (one) => signed(one.added) },
  { key: "calls", label: "calls", minor: true, title: "how often it was sent", value: (one) => one.calls[0] + one.calls[1], text: (one) => (one.calls[0] === one.calls[1] ? units.count(one.calls[0]) : change(...one.calls, units.count)) },
  { key: "p50", label: "p50", minor: true, title: "half of the calls took no longer", value: (one) => at(one.after, "p50") ?? at(one.before, "p50") ?? -1, text: (one) => timeChange(one, "p50") },
  { key: "p99", label: "p99", minor: true, title: "99 % took no longer", value: (one) => at(one.after, "p99") ?? at(one.before, "p99") ?? -1, text: (one) => timeChange(one, "p99") },
];
if (statements.some((one) => one.errors[0] || one.errors[1])) columns.push({ key: "failed", label: "failed", minor: true, title: "how often it failed", value: (one) => one.errors[1] * 1e9 + one.errors[0], text: (one) => (one.errors[0] || one.errors[1] ? change(one.errors[0], one.errors[1], units.count) : ""), bad: (one) => one.errors[1] > one.errors[0] });

const reasons = {
  one_sided: "it ran on one side only", few_calls: "there are too few calls", few_stretches: "its calls lie in too few stretches of time", unclear: "the interval is too wide to tell",
  may_be_chance: "chance alone could make such a difference",
  tool_stalled: "the replay itself was stopped or starved, and too few calls are outside of these times",
};
function sentence(one) {
  const measure = { median: "the median", mean: "the mean", p99: "the 99th percentile" }[measureOf(one)], ratio = known(one);
  const sure = ratio ? `${units.ratio(ratio[0])} times what it was (${units.ratio(ratio[1])} to ${units.ratio(ratio[2])} with ${page.level} % confidence)` : "";
  const all = one.added === null ? "" : `, ${signed(one.added)} in all`;
  const told = sure ? `${measure} is ${sure}${all}.` : `${all.slice(2)}.`, why = one.evidence ? ` (${one.evidence})` : "";
  if (one.kind === "slower" || one.kind === "faster") return `${one.kind === "slower" ? "Slower" : "Faster"} independently${why}: ${told}`;
  if (one.kind.startsWith("looks")) return `It ${kinds[one.kind][1]}, which is not proven${why}: ${told}`;
  if (one.kind.endsWith("along")) return `The same work took ${one.kind === "slower_along" ? "longer" : "less time"}, as that of others did: ${told}`;
  if (one.finding === "slower" || one.finding === "faster") return `${one.finding === "slower" ? "Slower" : "Faster"}: ${told} That is too little to matter.`;
  if (one.finding === "same") return `The same: within ${percent}` + (sure ? `; ${measure} is ${sure}.` : ".");
  return `${one.kind === "too_noisy" ? "Too noisy" : "Not enough data"} to tell: ${reasons[one.insufficient_data_reason] || "it was not compared"}` + (sure ? `; ${measure} is ${sure}.` : ".");
}
function timesTable(one, extra) {
  const rows = [["service", "sent → done", one.before, one.after]];
  if (extra.response) rows.push(["response", "due → done", ...extra.response]);
  if (extra.lag) rows.push(["session lag", "waiting for the session's previous statement", ...extra.lag]);
  if (one.captured) rows.push(["captured", "the captured server's own, on another day", one.captured, undefined]);
  const shown = ["mean", "p50", "p95", "p99", "max"];
  const cell = (row, key) => (row[3] === undefined ? units.us(at(row[2], key)) : change(at(row[2], key), at(row[3], key), units.us));
  return make("div", { class: "scroll" }, make("table", {}, make("caption", {}, "Times, before → after"),
    make("thead", {}, make("tr", {}, make("th", { class: "left", scope: "col" }, "time"), shown.map((key) => make("th", { scope: "col" }, key)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, make("th", { class: "left", scope: "row", title: row[1] }, row[0]), shown.map((key) => make("td", {}, cell(row, key))))))));
}
function ratiosList(one) {
  const rows = [["median", "p50"], ["mean", "mean"], ["p99", "p99"]].filter(([key]) => one.ratios[key]);
  if (!rows.length) return [];
  const axis = intervals(rows.map(([key]) => one.ratios[key]), page.margin);
  return make("ul", { class: "forest small", "aria-label": "Ratios" }, make("li", { class: "head", "aria-hidden": "true" }, make("span"), axis.axis(), make("span")),
    rows.map(([key, time]) => make("li", { class: key === one.measure ? "told" : null }, make("span", {}, key), axis.bar(one.ratios[key], key === one.measure ? kindOf(one) : ""), make("span", { class: "number" }, ratioText(one.ratios[key]), make("small", {}, timeChange(one, time))))));
}
// Heights are letters, the first at the bottom: from 0 to 1, or null where nothing was.
const heights = (letters) => [...letters].map((letter) => (letter === " " ? null : page.heights.indexOf(letter) / (page.heights.length - 1)));
function charts(one, extra) {
  const drawn = [], sides = (shape, values) => ["before", "after"].map((side, which) => ({ label: side, colour: side, shape, points: values(which) })).filter((series) => series.points.some(([, value]) => value));
  if (extra.medians) {
    const [least, most, letters] = extra.medians, lines = letters.map(heights), step = page.span_us / lines[0].length;
    const series = sides("line", (which) => lines[which].map((height, at) => [(at + 0.5) * step, height === null ? null : least * (most / least) ** height]));
    if (lines.some((line) => line.filter((height) => height !== null).length > 1))
      drawn.push({ title: "Median over time", note: "service time", alt_text: `before and after, from ${units.us(least)} to ${units.us(most)}`, height: 170, x: { unit: "elapsed", from: 0, to: page.span_us }, y: { unit: "us", log: true }, series });
  }
  if (extra.bins) {
    const [first, most, letters] = extra.bins, edge = (bin) => 10 ** ((first + bin) / 10) / 1e3;
    // A bin reaches to the next; the last ends where another would begin.
    const series = sides("outline", (which) => [...heights(letters[which]), 0].map((height, bin) => [edge(bin), height * most]));
    drawn.push({ title: "How long calls took", note: "share of calls by service time", alt_text: "before and after", height: 170, x: { unit: "us", log: true }, y: { unit: "share" }, series });
  }
  const host = make("div", { class: "charts" });
  if (drawn.length) drawCharts(host, drawn);
  return drawn.length ? host : [];
}
function slowest(extra) {
  if (!extra.slowest || !extra.slowest.some((side) => side.length)) return [];
  const rows = extra.slowest.flatMap((side, which) => side.map((row) => [["before", "after"][which], ...row]));
  return [make("h3", {}, "The slowest calls"), make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ["side", "service", "response", "rows", "due at", "session", "sequence"].map((head, place) => make("th", { scope: "col", class: place ? null : "left" }, head)))),
    make("tbody", {}, rows.map(([side, service, response, count, due, session, sequence]) => make("tr", {}, make("td", { class: "left" }, make("i", { class: `key ${side}` }), side), [units.us(service), units.us(response), units.count(count), units.us(due), String(session), String(sequence)].map((text) => make("td", {}, text)))))))];
}
function detail(one) {
  const extra = more(one), list = make("dl");
  const row = (name, ...value) => list.append(make("dt", {}, name), make("dd", {}, ...value));
  row("fingerprint", make("code", {}, one.fingerprint), one.class ? ` ${one.class}` : "", " ", make("a", { href: "#statement=" + one.fingerprint }, "link to this statement"));
  row("calls", one.calls[0] === one.calls[1] ? `${units.count(one.calls[0])} on both sides` : change(...one.calls, units.count));
  if (one.errors.some(Boolean)) row("failed", change(one.errors[0], one.errors[1], units.count), one.errors[2] ? `, captured ${units.count(one.errors[2])}` : "");
  if (one.skipped) row("never sent", change(...one.skipped, units.count));
  for (const [name, text] of extra.also || []) row(name, text);
  return [
    make("p", { class: "finding" }, make("i", { class: `mark ${kindOf(one)}`, "aria-hidden": "true" }), sentence(one)),
    make("pre", { tabindex: "0" }, one.sql || "(its text is unknown)"), ratiosList(one),
    extra.anomalies ? make("ul", { class: "remarks", "aria-label": "Anomalies" }, extra.anomalies.map((anomaly) => make("li", {}, anomaly))) : [],
    extra.plan ? planOf(extra.plan) : [],
    timesTable(one, extra), charts(one, extra), slowest(extra), list,
  ].flat();
}
// Plans beside each other; what only one has, or has otherwise, is marked.
const planOf = (plan) => [
  make("h3", {}, plan.same === null ? "The plan" : plan.same ? "The plan is the same" : "The plan is another"),
  make("ul", { class: "remarks" }, plan.words.map((line) => make("li", {}, line))),
  make("div", { class: "charts" }, plan.sides.map((steps, which) => (steps.length ? make("figure", {}, make("figcaption", {}, make("i", { class: `key ${["before", "after"][which]}` }), ["before", "after"][which]),
    make("ol", { class: "plan", tabindex: "0" }, steps.map(([depth, label, mark, rows, cost, conditions]) => make("li", { class: mark, style: `padding-left:${Math.min(depth, 12) * 1.1 + 1.2}em` },
      make("b", {}, label), ` about ${units.count(rows)} rows, cost ${units.count(cost)}`, mark === "same" ? [] : make("span", { class: "skip" }, mark === "alone" ? " (on this side only)" : " (changed)"), conditions.map((one) => make("small", {}, one)))))) : []))),
];
const host = document.getElementById("statement-table");
const table = host && dataTable(host, {
  rows: statements, columns, caption: "Statements", detail, order: "finding",
  what: { label: "statement", text: (one) => name(one).slice(0, 400) },
  filters: [{ label: "Finding", value: (one) => one.kind, chips: Object.entries(kinds).map(([value, [kind, label]]) => ({ value, label, class: kind })) }],
  search: (one) => `${one.sql || ""} ${one.fingerprint} ${one.class || ""} ${kinds[one.kind][1]} ${one.words || ""}`,
});
// On paper, what is closed cannot be opened: regressions are, and the rest of what the page says.
let after = null;
window.addEventListener("beforeprint", () => { if (table && !after) after = table.print(changed.filter((one) => one.kind === "slower").slice(0, 10)); });
window.addEventListener("afterprint", () => { if (after) after(); after = null; });
