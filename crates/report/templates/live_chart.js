// A chart that grows: lines, or areas on each other, over the time of the replay. It is drawn in the
// pixels that it has, and only what changed of it is written anew.
//   liveChart(host, {title, unit, text(value), tick(value), series: [{label, kind, dash, value(point)}], log, whole, stacked})
// Gives {draw(points, from, to), read(point), clear(), figure, series}.
const NICE = [1, 2, 2.5, 5, 10];
function niceStep(most, count) {
  const rough = most / count, power = 10 ** Math.floor(Math.log10(rough));
  return power * NICE.find((one) => one * power >= rough * 0.999);
}
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
// Time since the start, as 1:30 or 2:05:00.
function clockOf(second) {
  const two = (value) => String(Math.floor(value)).padStart(2, "0"), whole = Math.round(second);
  const rest = `${Math.floor(whole / 60) % 60}:${two(whole % 60)}`;
  return whole < 3600 ? rest : `${Math.floor(whole / 3600)}:${two((whole / 60) % 60)}:${two(whole % 60)}`;
}
function secondTicks(from, to, count) {
  const step = STEPS_S.find((one) => (to - from) / one <= count) || (to - from) / count, ticks = [];
  for (let at = Math.ceil(from / step - 1e-9) * step; at <= to + 1e-9; at += step) ticks.push([at, clockOf(at)]);
  return ticks;
}
// From a 1, 2 or 5 below to one above, a decade at least.
function decades(least, most) {
  const ones = [];
  for (let power = -2; power < 12; power += 1) for (const one of [1, 2, 5]) ones.push(+(one * 10 ** power).toPrecision(1));
  let from = ones.filter((one) => one <= least * 1.001).pop() || ones[0];
  const to = ones.find((one) => one >= most * 0.999 && one >= from * 9.99) || ones[ones.length - 1];
  const within = ones.filter((one) => one >= from && one <= to), tens = within.filter((one) => /^(1|0\.0*1)0*$/.test(String(one)));
  return { from, to, ticks: within.length <= 6 ? within : tens.length > 1 ? tens : within.filter((_, at) => at % 2 === 0) };
}
function swatch(one) {
  const box = make("svg", { width: "18", height: "10", viewBox: "0 0 18 10", "aria-hidden": "true" });
  box.append(one.area ? make("rect", { class: `f${one.colour}`, x: 1, y: 1, width: 14, height: 8, rx: 2 }) : make("path", { class: `line s${one.colour} ${one.dash || ""}`, d: "M1 5H17" }));
  return box;
}
function liveChart(host, options) {
  const height = 190, left = 62, right = 12, top = 8, bottom = 24;
  const svg = make("svg", { "aria-hidden": "true" });
  const plot = make("div", { class: "live-plot", role: "img", "aria-roledescription": "chart", tabindex: "0", "aria-label": options.title, "aria-keyshortcuts": "ArrowLeft ArrowRight Home End" });
  const legend = make("ul", { class: "legend" });
  const figure = make("figure", {}, make("figcaption", {}, options.title, make("small", {}, options.unit)), legend, plot);
  plot.append(svg);
  host.append(figure);
  let series = [], values = [], paths = [], unders = [], width = 560, shown = { from: 0, to: 30, points: [] }, high = 0, low = 0, step = 1;
  const frame = [make("path", { class: "grid", d: "" }), make("path", { class: "base", d: "" })];
  let labels = [];
  const at = make("line", { class: "at", y1: top, y2: height - bottom, visibility: "hidden" });
  function take(list) {
    series = list;
    values = series.map(() => make("b", {}, "–"));
    legend.replaceChildren(...series.map((one, place) => make("li", {}, swatch(one), one.label, values[place])));
    paths = series.map((one) => make("path", { class: one.area ? `area f${one.colour} ${one.faint ? "faint" : ""}` : `line s${one.colour} ${one.dash || ""}` }));
    unders = series.map((one) => (one.under ? make("path", { class: `area f${one.colour} faint` }) : null));
    svg.replaceChildren(...frame, ...unders.filter(Boolean), ...paths, at);
    labels = [];
  }
  take(options.series);
  const x = (second) => left + ((second - shown.from) / Math.max(1e-9, shown.to - shown.from)) * (width - left - right);
  const y = (value) => {
    const part = options.log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : value / high;
    return height - bottom - Math.max(0, Math.min(1.02, part)) * (height - top - bottom);
  };
  function axis(points) {
    const all = options.stacked ? points.map((point) => series.reduce((sum, one) => sum + (one.value(point) || 0), 0)) : points.flatMap((point) => series.map((one) => one.value(point)));
    const known = all.filter((value) => value !== null && value !== undefined && (!options.log || value > 0));
    const most = known.reduce((most, value) => Math.max(most, value), 0);
    if (options.log) {
      const least = known.reduce((least, value) => Math.min(least, value), most), axis = known.length ? decades(least, most) : decades(100, 1e4);
      [low, high] = [axis.from, axis.to];
      return axis.ticks.map((value) => [value, options.tick(value)]);
    }
    // It grows at once, and shrinks when it is far too large.
    if (!high || most > high || most < high * 0.4) {
      step = most > 0 ? niceStep(most * 1.02, 5) : 1;
      if (options.whole) step = Math.max(1, Math.ceil(step));
      high = Math.max(step, Math.ceil((most * 1.02) / step) * step);
    }
    const ticks = [];
    for (let value = 0; value <= high * 1.001; value += step) ticks.push([value, value ? options.tick(value) : "0"]);
    return ticks;
  }
  function draw(points, from, to) {
    if (options.series_of) {
      const wanted = options.series_of(points);
      if (wanted.map((one) => one.label).join("\n") !== series.map((one) => one.label).join("\n")) take(wanted);
    }
    width = Math.max(240, Math.round(plot.clientWidth || 560));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    shown = { from, to, points };
    const ticks = axis(points), base = height - bottom;
    const across = secondTicks(from, to, Math.max(2, Math.floor((width - left) / 80)));
    frame[0].setAttribute("d", ticks.map(([value]) => `M${left} ${y(value).toFixed(1)}H${width - right}`).join(""));
    frame[1].setAttribute("d", `M${left} ${base + 0.5}H${width - right}` + across.map(([place]) => `M${x(place).toFixed(1)} ${base}v4`).join(""));
    const texts = [...ticks.map(([value, text]) => [left - 7, y(value) + 4, "end", text]), ...across.map(([place, text]) => [Math.min(x(place), width - right), height - 7, x(place) > width - right - 18 ? "end" : "middle", text])];
    texts.forEach(([tx, ty, anchor, text], place) => {
      if (!labels[place]) { labels[place] = make("text", {}); svg.append(labels[place]); }
      const label = labels[place];
      label.setAttribute("x", tx.toFixed(1)); label.setAttribute("y", ty.toFixed(1)); label.setAttribute("text-anchor", anchor);
      if (label.textContent !== text) label.textContent = text;
    });
    labels.splice(texts.length).forEach((label) => label.remove());
    const sums = points.map(() => 0);
    series.forEach((one, place) => {
      paths[place].setAttribute("d", one.area ? area(one, points, sums) : line(one, points));
      if (unders[place]) unders[place].setAttribute("d", points.length ? `M${x(points[0].at_s).toFixed(1)} ${base}${line(one, points).replace("M", "L")}V${base}Z` : "");
    });
    const last = points[points.length - 1];
    plot.setAttribute("aria-label", `${options.title}: ` + (last ? series.map((one) => `${one.label} ${said(one, last)}`).join(", ") : "nothing yet"));
  }
  const said = (one, point) => { const value = point && one.value(point); return value === null || value === undefined ? "–" : options.text(value); };
  function line(one, points) {
    let path = "", pen = false;
    points.forEach((point, place) => {
      const value = one.value(point);
      if (value === null || value === undefined) { pen = false; return; }
      const next = points[place + 1], alone = !pen && (!next || one.value(next) === null);
      path += `${pen ? "L" : "M"}${x(point.at_s).toFixed(1)} ${y(value).toFixed(1)}${alone ? "h.1" : ""}`;
      pen = true;
    });
    return path;
  }
  function area(one, points, sums) {
    if (!points.length) return "";
    const up = [], down = [];
    points.forEach((point, place) => {
      const begin = place ? x(points[place - 1].at_s) : Math.max(left, x(point.at_s - point.width_s)), end = x(point.at_s), bottom = sums[place];
      if (options.stacked) sums[place] += one.value(point) || 0;
      const [lower, upper] = [y(options.stacked ? bottom : 0), y(options.stacked ? sums[place] : one.value(point) || 0)];
      up.push(`${begin.toFixed(1)} ${upper.toFixed(1)}L${end.toFixed(1)} ${upper.toFixed(1)}`);
      down.push(`${end.toFixed(1)} ${lower.toFixed(1)}L${begin.toFixed(1)} ${lower.toFixed(1)}`);
    });
    return `M${up.join("L")}L${down.reverse().join("L")}Z`;
  }
  return {
    figure, plot, draw,
    // The values at a point, in the legend; and where it is, if it is marked.
    read(point, marked) {
      series.forEach((one, place) => { const text = said(one, point); if (values[place].textContent !== text) values[place].textContent = text; });
      at.setAttribute("visibility", marked && point ? "visible" : "hidden");
      if (point) { const place = x(point.at_s).toFixed(1); at.setAttribute("x1", place); at.setAttribute("x2", place); }
    },
    // The point at a place of the window.
    point(clientX) {
      const box = svg.getBoundingClientRect(), second = shown.from + (((clientX - box.left) * (width / box.width) - left) / (width - left - right)) * (shown.to - shown.from);
      return shown.points.reduce((best, point) => (!best || Math.abs(point.at_s - second) < Math.abs(best.at_s - second) ? point : best), null);
    },
    says: (point) => series.map((one) => `${one.label} ${said(one, point)}`).join(", "),
  };
}
