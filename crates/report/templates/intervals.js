// Ratios with their intervals on one axis of ratios, the margin as a band around 1; and lines in
// small charts. Colours are the style's.
function intervals(ratios, margin, most_shown = 64) {
  // The axis holds what is known well, and is even on both sides: twice as long and half as long
  // are as far from the middle. What lies beyond the most that is shown points there.
  const most = ratios.filter((one) => one && one[1] !== null).flatMap((one) => [one[1], one[2], one[0]]).filter((one) => one > 0).reduce((most, one) => Math.max(most, Math.abs(Math.log(one))), 0);
  const reach = Math.min(Math.log(most_shown), Math.max(Math.log(1.5), Math.log(1 + margin) * 2.2, most * 1.06));
  const at = (ratio) => 50 + 50 * Math.max(-1, Math.min(1, Math.log(ratio) / reach));
  const part = (kind, low, high) => make("i", { class: kind, style: `left:${low.toFixed(2)}%;width:${(high - low).toFixed(2)}%` });
  const steps = reach > Math.log(20) ? [1 / 64, 1 / 16, 1 / 4, 1, 4, 16, 64] : reach > Math.log(8) ? [1 / 10, 1 / 3, 1, 3, 10] : reach > Math.log(3) ? [1 / 10, 1 / 5, 1 / 2, 1, 2, 5, 10] : [1 / 2, 2 / 3, 0.8, 1, 1.25, 1.5, 2];
  const band = () => part("band", at(1 / (1 + margin)), at(1 + margin));
  return {
    bar(ratio, kind) {
      const bar = make("span", { class: `interval ${kind || ""}`, "aria-hidden": "true" }, band(), make("i", { class: "one" }));
      if (!ratio || !(ratio[0] > 0)) return bar;
      if (ratio[1] !== null) bar.append(part("reach", at(ratio[1]), at(ratio[2])));
      const beyond = Math.abs(Math.log(ratio[0])) > reach;
      bar.append(beyond ? make("i", { class: ratio[0] > 1 ? "beyond more" : "beyond less" }) : make("i", { class: "point", style: `left:${at(ratio[0]).toFixed(2)}%` }));
      return bar;
    },
    axis() {
      const text = (ratio) => (ratio >= 1 ? `${ratio}×` : reach > Math.log(3) ? `1/${Math.round(1 / ratio)}×` : `${+ratio.toFixed(2)}×`);
      const ticks = steps.filter((step) => Math.abs(Math.log(step)) < reach * 0.97);
      return make("span", { class: "interval axis", "aria-hidden": "true" }, ticks.map((step) => make("b", { style: `left:${at(step).toFixed(2)}%` }, text(step))));
    },
  };
}
// Lines in a chart of 560 × 170: series of [class, [[x, y], …]], x and y from 0 to 1, a y of null is
// a gap; ticks of [place, text].
function lineChart(label, series, across, up) {
  const left = 64, right = 544, top = 10, bottom = 146;
  const x = (value) => (left + value * (right - left)).toFixed(1), y = (value) => (bottom - value * (bottom - top)).toFixed(1);
  const chart = make("svg", { viewBox: "0 0 560 170", role: "img", "aria-label": label });
  for (const [at, text] of across) chart.append(make("line", { class: "grid", x1: x(at), x2: x(at), y1: top, y2: bottom }), make("text", { x: x(at), y: bottom + 17, "text-anchor": at > 0.93 ? "end" : "middle" }, text));
  for (const [at, text] of up) chart.append(make("line", { class: "grid", x1: left, x2: right, y1: y(at), y2: y(at) }), make("text", { x: left - 6, y: +y(at) + 4, "text-anchor": "end" }, text));
  for (const [kind, points] of series) {
    let path = "", pen = "M";
    points.forEach(([px, py], place) => {
      if (py === null) { pen = "M"; return; }
      const alone = pen === "M" && (place + 1 === points.length || points[place + 1][1] === null);
      path += alone ? `M${x(px)} ${y(py)}h.1` : `${pen}${x(px)} ${y(py)}`;
      pen = "L";
    });
    chart.append(make("path", { class: `line ${kind}`, d: path }));
  }
  return make("div", { class: "plot fluid" }, chart);
}
// Round times from the start.
function timeTicks(span_us) {
  const seconds = [1e-3, 1e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400];
  const step = 1e6 * (seconds.find((one) => span_us / 1e6 / one <= 5) || span_us / 5e6), ticks = [];
  for (let at = 0; at <= span_us; at += step) ticks.push([at / span_us, at ? roundDuration(at) : "0"]);
  return ticks;
}
const roundDuration = (us) => units.us(us).replace(/\.0+ /, " ").replace(/ 00 (s|min)$/, "");
// An axis of durations in ratios, to the next 1, 2 or 5 on either side: {place(us), ticks}.
function durationAxis(values) {
  const known = values.filter((value) => value > 0), low = Math.min(...known), high = Math.max(...known);
  const ones = [];
  for (let power = -3; power < 12; power += 1) for (const one of [1, 2, 5]) ones.push(one * 10 ** power);
  const from = ones.filter((one) => one <= low * 1.0001).pop() || low, to = ones.find((one) => one >= high * 0.9999 && one > from) || high;
  const place = (us) => Math.log(us / from) / Math.log(to / from);
  let within = ones.filter((one) => one >= from * 0.999 && one <= to * 1.001);
  if (within.length > 7) within = within.filter((one) => /^1(0*$|e)|^0\.0*1$/.test(String(+one.toPrecision(3))));
  return { place, ticks: within.map((one) => [place(one), roundDuration(one)]) };
}
