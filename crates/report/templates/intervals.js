// Ratios with their intervals, as bars of a line or a cell: on one axis of ratios, the margin as a band around 1.
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
