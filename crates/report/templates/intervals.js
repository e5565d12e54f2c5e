// Ratios with their intervals, as bars of a line or a cell: on one axis of ratios, the margin as a band around 1.
function intervals(ratios, margin, most_shown = 4096) {
  // The axis holds what is known well, and the margin on both sides. What lies beyond the most that is
  // shown points there.
  const logs = ratios.filter((one) => one && one[1] !== null).flatMap((one) => [one[1], one[2], one[0]]).filter((one) => one > 0).map(Math.log);
  const least = Math.max(Math.log(1.25), Math.log(1 + margin) * 2.2), most = Math.log(most_shown);
  const [down, up] = [-1, 1].map((side) => Math.min(most, logs.reduce((reach, one) => Math.max(reach, side * one * 1.06), least)));
  const at = (ratio) => 100 * (Math.max(-down, Math.min(up, Math.log(ratio))) + down) / (up + down);
  const part = (kind, low, high) => make("i", { class: kind, style: `left:${low.toFixed(2)}%;width:${(high - low).toFixed(2)}%` });
  const span = Math.exp(up + down), powers = (base) => [-6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6].map((power) => base ** power);
  const steps = span > 1000 ? powers(10) : span > 60 ? powers(4) : span > 8 ? [1 / 20, 1 / 10, 1 / 5, 1 / 2, 1, 2, 5, 10, 20] : [1 / 2, 2 / 3, 0.8, 1, 1.25, 1.5, 2, 3, 4];
  const band = () => part("band", at(1 / (1 + margin)), at(1 + margin));
  return {
    bar(ratio, kind) {
      const bar = make("span", { class: `interval ${kind || ""}`, "aria-hidden": "true" }, band(), make("i", { class: "one", style: `left:${at(1).toFixed(2)}%` }));
      if (!ratio || !(ratio[0] > 0)) return bar;
      if (ratio[1] !== null) bar.append(part("reach", at(ratio[1]), at(ratio[2])));
      const log = Math.log(ratio[0]), beyond = log > up || log < -down;
      bar.append(beyond ? make("i", { class: ratio[0] > 1 ? "beyond more" : "beyond less" }) : make("i", { class: "point", style: `left:${at(ratio[0]).toFixed(2)}%` }));
      return bar;
    },
    axis() {
      const text = (ratio) => (ratio >= 1 ? `${ratio}×` : span > 8 ? `1/${Math.round(1 / ratio)}×` : `${+ratio.toFixed(2)}×`);
      // 1× always has its label; others have one where there is room.
      const ticks = steps.filter((step) => step === 1 || Math.log(step) < up * 0.97 && Math.log(step) > -down * 0.97 && Math.abs(at(step) - at(1)) > 9);
      return make("span", { class: "interval axis", "aria-hidden": "true" }, ticks.map((step) => make("b", { style: `left:${at(step).toFixed(2)}%` }, text(step))));
    },
  };
}
