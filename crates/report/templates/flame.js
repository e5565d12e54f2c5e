// The picture zooms and searches by its own script (inferno's); this one gives it a field and a keyboard.
(() => {
  const at = (id) => document.getElementById(id);
  const wanted = at("wanted"), found = at("found"), all = at("all"), about = at("about");
  const boxes = [...document.querySelectorAll("#frames > g")].map((g) => {
    const rect = g.querySelector("rect"), of = (name) => Number(rect.getAttribute(name));
    return { g, rect, text: g.querySelector("text"), x: of("fg:x"), w: of("fg:w"), y: of("y"), name: g.querySelector("title").textContent };
  });
  const byBox = new Map(boxes.map((box) => [box.g, box]));
  // The ground is lowest, which is the greatest y; whatever lies above a box lies within it.
  const heights = [...new Set(boxes.map((box) => box.y))].sort((one, other) => other - one);
  const levels = heights.map((y) => boxes.filter((box) => box.y === y).sort((one, other) => one.x - other.x));
  boxes.forEach((box) => { box.level = heights.indexOf(box.y); });
  const seen = (box) => box && !box.g.classList.contains("hide");
  const within = (inner, outer) => inner.x >= outer.x && inner.x + inner.w <= outer.x + outer.w;
  let here = levels[0] && levels[0][0];

  const say = (box) => { about.textContent = box ? box.name : about.dataset.idle; };
  say(null);
  boxes.forEach((box) => {
    box.g.setAttribute("role", "img");
    box.g.setAttribute("aria-label", box.name);
    box.g.setAttribute("tabindex", box === here ? "0" : "-1");
  });
  const go = (box) => {
    if (!seen(box)) return;
    here.g.setAttribute("tabindex", "-1");
    here = box;
    here.g.setAttribute("tabindex", "0");
    here.g.focus({ preventScroll: true });
    here.g.scrollIntoView({ block: "nearest", inline: "nearest" });
    say(here);
  };
  // A name is black or white, whichever stands out from its box (WCAG 2.2, relative luminance).
  const ink = () => boxes.forEach((box) => {
    const parts = box.rect.getAttribute("fill").match(/[\d.]+/g).map((value) => value / 255);
    const [r, g, b] = parts.map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    box.text.classList.toggle("pale", 0.2126 * r + 0.7152 * g + 0.0722 * b < 0.179);
  });
  ink();
  const changed = () => { all.disabled = at("unzoom").classList.contains("hide"); };
  const look = () => {
    // Its own search keeps what it marked before.
    if (searching) { reset_search(); searching = 0; at("matched").firstChild.nodeValue = ""; }
    found.textContent = "";
    const term = wanted.value;
    if (term) {
      try {
        search(term);
        found.textContent = searching ? at("matched").firstChild.nodeValue : "Matched: nothing";
      } catch (error) {
        found.textContent = "not a regular expression";
      }
    }
    ink();
  };
  const narrow = (box) => { if (at("unzoom").classList.contains("hide") === false) unzoom(); zoom(box.g); changed(); look(); };
  const widen = () => { unzoom(); changed(); look(); };
  // Ctrl-F of the picture's own script comes here.
  search_prompt = () => { wanted.focus(); wanted.select(); };

  wanted.addEventListener("input", look);
  all.addEventListener("click", () => { widen(); if (here) go(here); });
  const flame = at("flame");
  flame.addEventListener("click", (event) => {
    const g = event.target.closest && event.target.closest("#frames > g");
    if (g) go(byBox.get(g));
  });
  // Behind its own script's turn, which zooms.
  window.addEventListener("click", () => { changed(); look(); });
  flame.addEventListener("mouseover", (event) => {
    const g = event.target.closest && event.target.closest("#frames > g");
    if (g) say(byBox.get(g));
  });
  flame.addEventListener("mouseleave", () => say(document.activeElement === (here && here.g) ? here : null));
  flame.addEventListener("focusin", (event) => { const box = byBox.get(event.target); if (box) { here = box; say(box); } });
  flame.addEventListener("focusout", () => say(null));
  const moves = {
    ArrowUp: (box) => (levels[box.level + 1] || []).filter((one) => seen(one) && within(one, box)).sort((one, other) => other.w - one.w)[0],
    ArrowDown: (box) => (levels[box.level - 1] || []).find((one) => seen(one) && within(box, one)),
    ArrowRight: (box) => levels[box.level].find((one) => seen(one) && one.x > box.x),
    ArrowLeft: (box) => levels[box.level].filter((one) => seen(one) && one.x < box.x).pop(),
  };
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      if (document.activeElement === wanted && wanted.value) { wanted.value = ""; look(); }
      else if (!all.disabled) { widen(); if (here) go(here); }
      return;
    }
    if (document.activeElement === wanted) return;
    if (event.key === "/") { event.preventDefault(); search_prompt(); return; }
    const box = byBox.get(document.activeElement);
    if (!box) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); narrow(box); go(box); return; }
    const move = moves[event.key];
    if (move) { event.preventDefault(); go(move(box)); }
  });
})();
