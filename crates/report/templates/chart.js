// Charts as SVG, drawn in the pixels that they have.
//   drawCharts(host, charts, reading) gives {draw(charts), focus()}
//   reading: "own" or "all": pointer and arrow keys read the values of a chart, or of all, in a line above them
//   chart:  {title, note, alt_text, height, layout, x, y, series, shows_last, missing, source}
//     layout: "stacked" puts series on each other, "lanes" gives each a lane of its own
//     shows_last: the legend has values: those that are read, or else the last
//     missing: why there is nothing to draw; source: where values come from
//   x, y:   {unit, log, from, to, first, step, labels: [[value, text]], whole, min_ratio}
//     unit: "clock" (µs since 1970), "elapsed" (µs from the start), or a function of units
//     first, step: where the first of a series' values lies, and how far one is from the next
//   series: {label, colour, dash, shape, unit, is_faint, has_area, values: [y] or points: [[x, y, low, high, is_ringed]]}
//     shape: "line", "points" (a line with dots and intervals), "bars", "area" or "outline"; the last three
//     are steps of x.step, or to the next point. A y of null is a gap.
const PLOT = { right: 14, top: 8, bottom: 24 };
const ROUND = [];
for (let power = -6; power < 16; power += 1) for (const digit of [1, 2, 5]) ROUND.push(Number(`${digit}e${power}`));
const TIME_STEPS = ROUND.filter((us) => us < 1e6).concat([1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1e6));
// A tick has no digits that say nothing.
const short = (text) => text.replace(/(\.\d*[1-9])0+(?=\D|$)/, "$1").replace(/\.0+(?=\D|$)/, "").replace(/ 00 (s|min)$/, "");
const valueText = (unit, value) => (value === null || value === undefined ? "–" : value === 0 ? "0" : units[unit](value));
function xText(axis, value, step) {
  const label = (axis.labels || []).find(([at]) => at === value);
  if (label) return label[1];
  if (axis.unit !== "clock") return short(valueText(axis.unit === "elapsed" ? "us" : axis.unit, value));
  const text = new Date(value / 1e3).toISOString().replace("T", " ");
  return step >= 864e8 ? text.slice(5, 10) : step >= 36e8 ? text.slice(5, 16) : step >= 6e7 ? text.slice(11, 16) : step >= 1e6 ? text.slice(11, 19) : text.slice(11, 23);
}
function timeTicks(axis, count) {
  const span = axis.to - axis.from, step = TIME_STEPS.find((one) => span / one <= count) || span / count, ticks = [];
  for (let at = Math.ceil(axis.from / step - 1e-9) * step; at <= axis.to + step * 1e-9; at += step) ticks.push([at, xText(axis, at, step)]);
  return ticks;
}
// From a 1, 2 or 5 below to one above.
function logTicks(low, high, min_ratio = 1.5) {
  const from = ROUND.findLast((one) => one <= low * 1.001) || low, to = ROUND.find((one) => one >= high * 0.999 && one >= from * min_ratio) || high;
  const within = ROUND.filter((one) => one >= from && one <= to), tens = within.filter((one) => one.toExponential()[0] === "1");
  return { from, to, values: within.length <= 6 ? within : tens.length > 1 ? tens : within.filter((_, at) => at % 2 === 0) };
}
// From 0 in even steps. An axis that is drawn again grows at once, and shrinks when it is far too large.
function evenTicks(most, count, whole, before) {
  if (before && most <= before.to && most >= before.to * 0.4) return before;
  const rough = most > 0 ? (most * 1.02) / count : 1, power = 10 ** Math.floor(Math.log10(rough));
  let step = power * [1, 2, 2.5, 5, 10].find((one) => one * power >= rough * 0.999);
  if (whole) step = Math.max(1, Math.ceil(step));
  const steps = Math.max(1, Math.ceil((most * 1.02) / step - 1e-9));
  return { from: 0, to: steps * step, values: Array.from({ length: steps + 1 }, (_, at) => +(at * step).toPrecision(12)) };
}
// Where a value lies between two ends, from 0 to 1.
function part(axis, value) {
  const at = (one) => (axis.log ? Math.log(Math.max(one, axis.from)) : one);
  return (at(value) - at(axis.from)) / (at(axis.to) - at(axis.from));
}
const isSteps = (series) => ["bars", "area", "outline"].includes(series.shape);
// A series' points: where each begins and ends across, its value, and what it stands on.
function pointsOf(chart) {
  const step = chart.x.step, sums = [];
  return chart.series.map((series, lane) => {
    const given = series.points || (series.values || []).map((value, at) => [chart.x.first + at * step, value]);
    const most = chart.layout === "lanes" ? Math.max(...given.map((one) => one[1])) : 0;
    return given.map(([x, y, low, high, is_ringed], at) => {
      const next = at + 1 < given.length ? given[at + 1][0] : Infinity, end = !isSteps(series) ? x : step ? Math.min(next, x + step) : next === Infinity ? x : next;
      const base = chart.layout === "lanes" ? chart.series.length - 1 - lane + 0.05 : chart.layout === "stacked" ? sums[at] || 0 : 0;
      // In a lane, what is more than nothing is seen.
      const height = most ? (y ? Math.max(0.15, (0.8 * y) / most) : 0) : y;
      sums[at] = base + (y || 0);
      return { x, end, middle: (x + end) / 2, y, base, top: y === null ? null : base + height, low, high, is_ringed };
    });
  });
}
function xAxis(chart, points, width) {
  const axis = { ...chart.x }, all = points.flat().flatMap((one) => [one.x, one.end]);
  if (axis.from === undefined) [axis.from, axis.to] = [Math.min(...all), Math.max(...all)];
  if (axis.labels) {
    // Levels stand clear of the ends.
    const ratio = axis.log ? (axis.to / axis.from) ** 0.05 * (axis.from === axis.to ? 2 : 1) : 0, room = axis.from === axis.to ? 1 : (axis.to - axis.from) * 0.05;
    [axis.from, axis.to] = axis.log ? [axis.from / ratio, axis.to * ratio] : [axis.from - room, axis.to + room];
    axis.ticks = axis.labels;
  } else if (axis.log) {
    const { from, to, values } = logTicks(axis.from, axis.to);
    Object.assign(axis, { from, to, ticks: values.map((value) => [value, xText(axis, value)]) });
  } else axis.ticks = timeTicks(axis, Math.max(2, Math.floor(width / 80)));
  return axis;
}
function yAxis(chart, points, height, before) {
  const { unit, log, whole, min_ratio } = chart.y;
  if (chart.layout === "lanes") return { from: 0, to: chart.series.length, ticks: chart.series.map((series, lane) => [chart.series.length - 1 - lane + 0.5, series.label]) };
  const known = points.flat().flatMap((one) => [one.top, one.low, one.high]).filter((value) => value !== null && value !== undefined && (!log || value > 0));
  const axis = !log ? evenTicks(Math.max(0, ...known), Math.min(5, Math.max(2, Math.floor(height / 26))), whole, before) : known.length ? logTicks(Math.min(...known), Math.max(...known), min_ratio) : logTicks(100, 1e4);
  return { ...axis, log, ticks: axis.values.map((value) => [value, short(valueText(unit, value))]) };
}
// The path of a series: x(value) and y(value) give pixels.
const px = (value) => value.toFixed(1);
function linePath(points, x, y) {
  let path = "", pen = false;
  points.forEach((one, at) => {
    if (one.y === null || one.y === undefined) { pen = false; return; }
    const next = points[at + 1], alone = !pen && (!next || next.y === null || next.y === undefined);
    path += `${pen ? "L" : "M"}${px(x(one.x))} ${px(y(one.top))}${alone ? "h.1" : ""}`;
    pen = true;
  });
  return path;
}
function stepsPath(points, x, y, shape) {
  const boxes = points.map((one) => [x(one.x), x(one.end), y(one.base), y(one.top ?? one.base)]);
  if (shape === "bars") {
    return boxes.filter((_, at) => points[at].y > 0).map(([from, to, low, high]) => { const gap = Math.min(1, (to - from) * 0.1); return `M${px(from + gap)} ${px(low)}V${px(Math.min(high, low - 1))}H${px(to - gap)}V${px(low)}Z`; }).join("");
  }
  if (!boxes.length) return "";
  const over = boxes.map(([from, to, , high]) => `L${px(from)} ${px(high)}H${px(to)}`).join(""), [[start, , floor]] = boxes;
  const under = shape === "outline" ? `V${px(floor)}` : boxes.reverse().map(([from, to, low]) => `L${px(to)} ${px(low)}H${px(from)}`).join("") + "Z";
  return `M${px(start)} ${px(floor)}${over}${under}`;
}
// The elements of a series.
function shapesOf(series, points, x, y) {
  const kind = `${series.colour} ${series.dash || ""}`;
  if (isSteps(series)) return [make("path", { class: series.shape === "outline" ? `line ${kind}` : `area ${kind} ${series.is_faint ? "faint" : ""}`, d: stepsPath(points, x, y, series.shape) })];
  const line = linePath(points, x, y), shapes = [make("path", { class: `line ${kind}`, d: line })];
  if (series.has_area && points.length) shapes.unshift(make("path", { class: `area faint ${kind}`, d: `M${px(x(points[0].x))} ${px(y(0))}${line.replace("M", "L")}V${px(y(0))}Z` }));
  if (series.shape === "points") for (const one of points) {
    const at = { cx: px(x(one.x)), cy: px(y(one.y)) };
    if (one.low !== null && one.low !== undefined) shapes.push(make("path", { class: `error-bar ${kind}`, d: `M${at.cx} ${px(y(one.low))}V${px(y(one.high))}` }));
    shapes.push(make("circle", { class: `area ${kind}`, r: 3, ...at }), one.is_ringed ? make("circle", { class: `line ${kind}`, r: 8, ...at }) : []);
  }
  return shapes.flat();
}
// Labels across; one that would touch the one before it is left out.
function xLabels(axis, x, width, y) {
  let free = 0;
  return axis.ticks.flatMap(([value, text]) => {
    const half = text.length * 3.6, at = Math.max(half, Math.min(x(value), width - half));
    if (at - half < free) return [];
    free = at + half + 6;
    return [make("text", { x: px(at), y, "text-anchor": "middle" }, text)];
  });
}
const keyOf = (series) => make("i", { class: `${isSteps(series) && series.shape !== "outline" ? "swatch" : "key"} ${series.colour} ${series.dash || ""}`, "aria-hidden": "true" });
function makeChart(host, first) {
  const svg = make("svg", { "aria-hidden": "true" }), legend = make("ul", { class: "legend" });
  const plot = make("div", { class: "plot", role: "img" }, svg);
  const missing = make("p", { class: "missing" }), source = make("small", { class: "quiet" });
  host.append(make("figure", {}, make("figcaption", {}, first.title, make("small", {}, first.note || "")), legend, plot, missing, source));
  let chart = first, points = [], values = [], width = 0, left = 0, x = null, y = null, up = null;
  const cursor = make("line", { class: "cursor", y1: PLOT.top, visibility: "hidden" });
  const nearest = (list, at) => list.reduce((best, one) => (!best || Math.abs(x(one.middle) - at) < Math.abs(x(best.middle) - at) ? one : best), null);
  // The point of a series that is read at a place across, if it has one there.
  function pointAt(list, value) {
    const found = nearest(list, x(value));
    return found && Math.abs(x(found.middle) - x(value)) <= Math.max(12, (x(found.end) - x(found.x)) / 2) ? found : null;
  }
  function text(place, value) {
    const list = points[place], one = value === null ? list[list.length - 1] : pointAt(list, value), unit = chart.series[place].unit || chart.y.unit;
    if (!one) return "–";
    return valueText(unit, one.y) + (one.low === null || one.low === undefined ? "" : ` (${valueText(unit, one.low)} – ${valueText(unit, one.high)})`);
  }
  // Of parts, those that are nothing are not named.
  const named = (series, place, value) => `${series.label || chart.title} ${text(place, value)}`;
  const said = (value) => chart.series.map((series, place) => (chart.layout && text(place, value) === "0" ? "" : named(series, place, value))).filter(Boolean).join(", ");
  function mark(value) {
    if (chart.shows_last) values.forEach((element, place) => { element.textContent = text(place, value); });
    cursor.setAttribute("visibility", value === null ? "hidden" : "visible");
    if (value !== null) for (const end of ["x1", "x2"]) cursor.setAttribute(end, px(x(value)));
  }
  // Takes what is to be drawn, and tells the pixels that labels need to its left.
  function take(next) {
    chart = next;
    points = pointsOf(chart);
    up = yAxis(chart, points, (chart.height || 190) - PLOT.bottom - PLOT.top, up);
    return 16 + Math.max(...up.ticks.map(([, text]) => text.length)) * 6.6;
  }
  function draw(room = left) {
    const height = chart.height || 190, base = height - PLOT.bottom;
    left = room;
    width = Math.max(240, plot.clientWidth || 560);
    const across = xAxis(chart, points, width - left);
    x = (value) => left + Math.max(0, Math.min(1, part(across, value))) * (width - left - PLOT.right);
    y = (value) => base - Math.max(0, Math.min(1.02, part(up, value))) * (base - PLOT.top);
    const grid = up.ticks.map(([value]) => `M${left} ${px(y(value))}H${width - PLOT.right}`).join("") + across.ticks.map(([value]) => `M${px(x(value))} ${PLOT.top}V${base}`).join("");
    cursor.setAttribute("y2", base);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(make("path", { class: "grid", d: grid }), make("path", { class: "base", d: `M${left} ${base + 0.5}H${width - PLOT.right}` }),
      ...up.ticks.map(([value, text]) => make("text", { x: left - 7, y: px(y(value) + 4), "text-anchor": "end" }, text)), ...xLabels(across, x, width, height - 7),
      ...chart.series.flatMap((series, place) => shapesOf(series, points[place], x, y)), cursor);
    values = chart.shows_last ? chart.series.map(() => make("b")) : [];
    legend.replaceChildren(...(chart.layout === "lanes" ? [] : chart.series).map((series, place) => (series.label ? make("li", { title: series.label }, keyOf(series), make("span", {}, series.label), values[place]) : "")));
    missing.textContent = chart.missing || "";
    source.textContent = chart.source || "";
    plot.hidden = legend.hidden = Boolean(chart.missing);
    plot.setAttribute("aria-label", `${chart.title}: ${chart.alt_text || said(null)}`);
  }
  return {
    plot, take, draw, mark, said,
    unit: () => chart.x.unit,
    holds: (value) => value >= (chart.x.from ?? -Infinity) && value <= (chart.x.to ?? Infinity),
    // Where a point is across; a step by its beginning.
    place(value) {
      const step = chart.x.step || 0;
      if (chart.x.unit === "clock") return `${new Date((value - step / 2) / 1e3).toISOString().replace("T", " ").slice(0, step < 1e6 ? 23 : 19)} UTC`;
      return `At ${xText(chart.x, value)}${chart.x.unit === "elapsed" ? " since the start" : ""}`;
    },
    // All values of the series with the most points, for the keys; and the one below a pointer.
    stops: () => points.reduce((most, list) => (list.length > most.length ? list : most), []).map((one) => one.middle),
    below(clientX) {
      const box = svg.getBoundingClientRect(), at = ((clientX - box.left) * width) / box.width, found = nearest(points.flat(), at);
      return found && at >= left ? found.middle : null;
    },
    // Draws again where it has another width.
    resized() { if (plot.clientWidth && Math.max(240, plot.clientWidth) !== width) { draw(); mark(null); } },
  };
}
// A line that says what is read off charts. By the mouse it is seen; only what is asked for by keys is told aloud.
const IDLE = "Point at a chart, or go into one and press ← and →, to read its values.";
function readable(all, line, isOfAll) {
  let reader = null, read = null;
  function mark(one, value, isByKey) {
    [reader, read] = [one, value];
    const together = all.filter((other) => other.unit() === one.unit());
    for (const other of all) other.mark(together.includes(other) ? value : null);
    if (isByKey !== undefined) line.setAttribute("aria-live", isByKey ? "polite" : "off");
    const text = value === null ? IDLE : `${one.place(value)}: ${(isOfAll ? together : [one]).map((other) => other.said(value)).filter(Boolean).join(" · ")}`;
    if (line.textContent !== text) line.textContent = text;
  }
  for (const one of all) {
    for (const [name, value] of [["aria-roledescription", "chart"], ["tabindex", "0"], ["aria-keyshortcuts", "ArrowLeft ArrowRight Home End"]]) one.plot.setAttribute(name, value);
    one.plot.addEventListener("pointermove", (event) => mark(one, one.below(event.clientX), false));
    for (const left of ["pointerleave", "blur"]) one.plot.addEventListener(left, () => mark(one, null, false));
    one.plot.addEventListener("keydown", (event) => {
      const stops = one.stops(), step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Escape") mark(one, null, true);
      if (!step || !stops.length) return;
      event.preventDefault();
      const at = reader === one && stops.includes(read) ? stops.indexOf(read) : step < 0 ? stops.length : -1;
      mark(one, stops[Math.max(0, Math.min(stops.length - 1, at + step))], true);
    });
  }
  // What is read stays, as long as it is shown.
  return () => { if (read !== null) mark(reader, reader.holds(read) ? read : null); };
}
function drawCharts(host, charts, reading) {
  host.replaceChildren();
  const all = charts.map((chart) => makeChart(host, chart)), line = make("p", { class: `reading ${reading}`, role: "status" }, IDLE);
  if (reading && all.length) host.before(line);
  const again = reading ? readable(all, line, reading === "all") : () => {};
  function draw(next) {
    // Charts above each other have their times above each other.
    const left = Math.max(40, ...all.map((one, at) => one.take(next[at])));
    for (const one of all) { one.draw(left); one.mark(null); }
    again();
  }
  draw(charts);
  const watch = new ResizeObserver(() => all.forEach((one) => one.resized()));
  for (const one of all) watch.observe(one.plot);
  return { draw, focus() { all[0].plot.scrollIntoView({ block: "center" }); all[0].plot.focus({ preventScroll: true }); } };
}
// The charts that a page has from the beginning.
const chartList = document.getElementById("chart-list");
if (chartList) drawCharts(chartList, data("data-charts"), chartList.dataset.reading);
