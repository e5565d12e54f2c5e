"use strict";
// Numbers with their units, as the rest of the page has them; and elements whose text is text.
const units = (() => {
  const three = (value, unit) => `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${unit}`;
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const count = (value) => String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  return {
    count,
    us(us) {
      const s = us / 1e6;
      if (us < 0) return "-" + units.us(-us);
      if (us === 0) return "0 ns";
      if (us < 1) return `${Math.round(us * 1e3)} ns`;
      if (us < 1e3) return three(us, "µs");
      if (us < 1e6) return three(us / 1e3, "ms");
      if (s < 60) return three(s, "s");
      if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
      return `${Math.floor(s / 3600)} h ${two((s % 3600) / 60)} min`;
    },
    bytes(bytes) {
      if (bytes < 1024) return `${bytes} B`;
      const names = ["KiB", "MiB", "GiB", "TiB", "PiB"];
      let value = bytes / 1024, at = 0;
      while (value >= 1023.5 && at + 1 < names.length) { value /= 1024; at += 1; }
      return three(value, names[at]);
    },
    share(part) {
      const percent = part * 100;
      if (percent > 0 && percent < 0.05) return "<0.1 %";
      if (percent >= 99.95) return part < 1 ? ">99.9 %" : "100 %";
      return `${percent.toFixed(1)} %`;
    },
    ratio: (ratio) => three(ratio, "").trim(),
    rate: (value) => (value >= 99.95 ? count(value) : value > 0 && value < 0.0995 ? value.toPrecision(2) : value.toFixed(value < 9.995 ? 2 : 1)),
    clock: (wallUs) => new Date(wallUs / 1e3).toISOString().slice(0, 19).replace("T", " ") + " UTC",
  };
})();
// What the page has for its scripts.
const data = (id) => JSON.parse(document.getElementById(id).textContent);
// Makes an element. Texts become text, never markup.
function make(name, attributes, ...children) {
  const svg = ["svg", "rect", "line", "path", "circle", "text", "title"].includes(name);
  const element = svg ? document.createElementNS(document.getElementById("svg").namespaceURI, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === false || value === undefined || value === null) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}
