// A table of data: sorted by its heads, searched and filtered, each row opened in place.
// dataTable(host, {rows, columns, what, filters, search, detail, order, page})
//   rows:    each has a fingerprint; the address #statement=FINGERPRINT opens that row
//   columns: [{key, label, title, value(row), text(row) or cell(row), bad(row), minor}], sorted by
//            value, the most first; minor ones are left out where the window is narrow
//   what:    {label, text(row)}, what a row is of; it opens the row
//   filters: [{label, value(row), chips}], a choice of all values that occur, or of the chips, each
//            with its number of rows: [{value, label, class}]
//   detail:  (row) => elements, made when the row is opened
// Gives {go(fingerprint), choose(filter, value), print(rows, done)}.
function dataTable(host, options) {
  const { rows, columns, what, detail } = options;
  const filters = (options.filters || []).map((filter) => ({ ...filter, chosen: "" }));
  const page = options.page || 50;
  let shown = page, sorted = options.order, up = false, words = [];
  const haystack = new WeakMap();
  const textOf = (row) => {
    let text = haystack.get(row);
    if (text === undefined) { text = options.search(row).toLowerCase(); haystack.set(row, text); }
    return text;
  };
  const anew = () => { shown = page; draw(); };
  const status = make("span", { role: "status", "aria-live": "polite", class: "quiet" });
  const search = make("input", { type: "search", id: "search", placeholder: "words, a table, a fingerprint …", autocomplete: "off", spellcheck: "false" });
  const controls = make("div", { class: "controls", role: "search" }, make("label", { for: "search" }, "Search "), search);
  filters.forEach((filter, at) => {
    if (filter.chips) {
      const number = (value) => rows.filter((row) => filter.value(row) === value).length;
      const chip = ({ value, label, class: kind }, times) => make("button", { type: "button", class: "chip", "data-value": value, onclick: () => { filter.chosen = value; anew(); } },
        kind ? make("i", { class: `mark ${kind}`, "aria-hidden": "true" }) : [], `${label} ${units.count(times)}`);
      filter.show = make("div", { class: "chips", role: "group", "aria-label": filter.label }, chip({ value: "", label: "all" }, rows.length),
        filter.chips.map((one) => [one, number(one.value)]).filter(([, times]) => times > 0).map(([one, times]) => chip(one, times)));
      filter.mark = () => { for (const one of filter.show.children) one.setAttribute("aria-pressed", String(one.dataset.value === filter.chosen)); };
      controls.append(filter.show);
    } else {
      const id = "choice-" + at, choice = make("select", { id, onchange: () => { filter.chosen = choice.value; anew(); } }, make("option", { value: "" }, "all"));
      for (const value of [...new Set(rows.map(filter.value))].filter(Boolean).sort()) choice.append(make("option", { value }, value));
      filter.mark = () => { choice.value = filter.chosen; };
      controls.append(make("label", { for: id }, filter.label + " "), choice);
    }
  });
  controls.append(status);
  const heads = new Map();
  // Roles are said, since where the window is narrow the style makes cards of the rows.
  const headRow = make("tr", { role: "row" }, make("th", { class: "left", scope: "col", role: "columnheader" }, make("button", { type: "button", disabled: "" }, what.label)));
  for (const column of columns) {
    const head = make("th", { scope: "col", role: "columnheader", title: column.title || null, class: classOf(column) },
      make("button", { type: "button", onclick: () => { up = sorted === column.key ? !up : false; sorted = column.key; anew(); } }, column.label));
    heads.set(column.key, head);
    headRow.append(head);
  }
  function classOf(column, row) {
    return [column.minor && "minor", column.left && "left", row && column.bad && column.bad(row) && "bad"].filter(Boolean).join(" ") || null;
  }
  const body = make("tbody", { role: "rowgroup" });
  const table = make("table", { role: "table", class: columns.length < 4 ? "data wide few" : "data wide" }, make("caption", { class: "skip" }, options.caption), make("thead", { role: "rowgroup" }, headRow), body);
  const more = make("button", { type: "button", class: "more", onclick: () => { const from = shown; shown += page * 4; draw(); const next = openers()[from]; if (next) next.focus(); } });
  host.replaceChildren(controls, make("div", { class: "scroll" }, table), more);
  const open = new Set();
  const openers = () => body.querySelectorAll("td.what > button");
  // The address names what was opened last, so that it can be sent.
  const address = (row) => history.replaceState(null, "", row ? "#statement=" + row.fingerprint : "#" + host.id);

  function line(row) {
    const button = make("button", { type: "button", class: "sql", "aria-expanded": String(open.has(row)) }, what.text(row));
    const tr = make("tr", { id: "row-" + row.fingerprint, role: "row" }, make("td", { class: "what", role: "cell" }, button));
    for (const column of columns) tr.append(make("td", { role: "cell", class: classOf(column, row) }, column.cell ? column.cell(row) : column.text(row)));
    button.addEventListener("click", () => {
      if (open.delete(row)) { button.setAttribute("aria-expanded", "false"); tr.nextSibling.remove(); address(null); return; }
      open.add(row);
      button.setAttribute("aria-expanded", "true");
      tr.after(opened(row));
      address(row);
    });
    return open.has(row) ? [tr, opened(row)] : [tr];
  }
  const opened = (row) => make("tr", { class: "detail", role: "row" }, make("td", { role: "cell", colspan: String(columns.length + 1) }, make("div", { class: "inner" }, detail(row))));

  function draw() {
    const column = columns.find((one) => one.key === sorted);
    const found = rows.filter((row) => filters.every((filter) => !filter.chosen || filter.value(row) === filter.chosen) && words.every((word) => textOf(row).includes(word)));
    if (column) found.sort((a, b) => (column.value(b) - column.value(a)) * (up ? -1 : 1));
    for (const [key, head] of heads) {
      if (key === sorted) head.setAttribute("aria-sort", up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
    for (const filter of filters) filter.mark();
    body.replaceChildren(...found.slice(0, shown).flatMap(line));
    const now = Math.min(shown, found.length);
    status.textContent = found.length === rows.length ? `${units.count(rows.length)} statements` : `${units.count(found.length)} of ${units.count(rows.length)} statements`;
    more.hidden = found.length <= now;
    more.textContent = `Show more (${units.count(now)} of ${units.count(found.length)} are shown)`;
    return found;
  }
  search.addEventListener("input", () => { words = search.value.toLowerCase().split(/\s+/).filter(Boolean); anew(); });
  // Up and down go from statement to statement.
  body.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], all = [...openers()], at = all.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    (all[at + step] || all[at]).focus();
  });
  draw();
  const clear = () => { search.value = ""; words = []; for (const filter of filters) filter.chosen = ""; };
  // A link to a row clears what hides it, opens it and goes there.
  function go(fingerprint) {
    const row = rows.find((one) => one.fingerprint === fingerprint);
    if (!row) return false;
    clear();
    open.add(row);
    shown = Math.max(page, draw().indexOf(row) + page);
    draw();
    address(row);
    const line = document.getElementById("row-" + fingerprint);
    line.scrollIntoView({ block: "start", behavior: "instant" });
    line.querySelector("button").focus({ preventScroll: true });
    return true;
  }
  const named = (hash) => { const found = /^#statement=([0-9a-f]+)$/.exec(hash); return found && go(found[1]); };
  window.addEventListener("hashchange", () => named(location.hash));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#statement=']");
    if (link && named(link.getAttribute("href"))) event.preventDefault();
  });
  named(location.hash);
  return {
    go,
    choose(filter, value) { clear(); filters[filter].chosen = value; anew(); },
    // For paper: these rows are opened, and closed again behind it.
    print(wanted) {
      const before = [...open], added = wanted.filter((row) => !open.has(row));
      for (const row of added) open.add(row);
      draw();
      return () => { open.clear(); for (const row of before) open.add(row); draw(); };
    },
  };
}
