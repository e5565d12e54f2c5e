// A table of data: sorted by its heads, searched and filtered, each row opened in place.
// dataTable(host, {rows, columns, what, filter, search, detail, order, page})
//   columns: [{key, label, title, value(row), text(row), bad(row)}], numbers, the most first
//   what:    {label, text(row)}, what a row is of; it opens the row
//   filter:  {label, value(row)}, a choice of all values that occur
function dataTable(host, options) {
  const { rows, columns, what, filter, detail } = options;
  const page = options.page || 50;
  let shown = page, sorted = options.order, up = false, words = [], chosen = "";
  const haystack = new WeakMap();
  const textOf = (row) => {
    let text = haystack.get(row);
    if (text === undefined) { text = options.search(row).toLowerCase(); haystack.set(row, text); }
    return text;
  };
  const status = make("span", { role: "status", "aria-live": "polite", class: "quiet" });
  const search = make("input", { type: "search", id: "search", placeholder: "words, a table, a fingerprint …", autocomplete: "off", spellcheck: "false" });
  const choice = make("select", { id: "choice" }, make("option", { value: "" }, "all"));
  if (filter) for (const value of [...new Set(rows.map(filter.value))].filter(Boolean).sort()) choice.append(make("option", { value }, value));
  const controls = make("div", { class: "controls", role: "search" },
    make("label", { for: "search" }, "Search "), search,
    filter ? [make("label", { for: "choice" }, filter.label + " "), choice] : [], status);
  const heads = new Map();
  const headRow = make("tr", {}, make("th", { class: "left", scope: "col" }, make("button", { type: "button", disabled: "" }, what.label)));
  for (const column of columns) {
    const head = make("th", { scope: "col", title: column.title || null },
      make("button", { type: "button", onclick: () => { up = sorted === column.key ? !up : false; sorted = column.key; shown = page; draw(); } }, column.label));
    heads.set(column.key, head);
    headRow.append(head);
  }
  const body = make("tbody");
  const table = make("table", { class: columns.length < 4 ? "data wide few" : "data wide" }, make("caption", { class: "skip" }, options.caption), make("thead", {}, headRow), body);
  const more = make("button", { type: "button", class: "more", onclick: () => { const from = shown; shown += page * 4; draw(); const next = body.querySelectorAll("td.what button")[from]; if (next) next.focus(); } });
  host.replaceChildren(controls, make("div", { class: "scroll" }, table), more);
  const open = new Set();

  function line(row) {
    const button = make("button", { type: "button", class: "sql", "aria-expanded": String(open.has(row)) }, what.text(row));
    const tr = make("tr", { id: "row-" + row.fingerprint }, make("td", { class: "what" }, button));
    for (const column of columns) tr.append(make("td", { class: column.bad && column.bad(row) ? "bad" : null }, column.text(row)));
    button.addEventListener("click", () => {
      if (open.delete(row)) { button.setAttribute("aria-expanded", "false"); tr.nextSibling.remove(); return; }
      open.add(row);
      button.setAttribute("aria-expanded", "true");
      tr.after(opened(row));
    });
    return open.has(row) ? [tr, opened(row)] : [tr];
  }
  const opened = (row) => make("tr", { class: "detail" }, make("td", { colspan: String(columns.length + 1) }, make("div", { class: "inner" }, detail(row))));

  function draw() {
    const column = columns.find((one) => one.key === sorted);
    const found = rows.filter((row) => (!chosen || filter.value(row) === chosen) && words.every((word) => textOf(row).includes(word)));
    if (column) found.sort((a, b) => (column.value(b) - column.value(a)) * (up ? -1 : 1));
    for (const [key, head] of heads) {
      if (key === sorted) head.setAttribute("aria-sort", up ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
    body.replaceChildren(...found.slice(0, shown).flatMap(line));
    const now = Math.min(shown, found.length);
    status.textContent = found.length === rows.length ? `${units.count(rows.length)} statements` : `${units.count(found.length)} of ${units.count(rows.length)} statements`;
    more.hidden = found.length <= now;
    more.textContent = `Show more (${units.count(now)} of ${units.count(found.length)} are shown)`;
  }
  search.addEventListener("input", () => { words = search.value.toLowerCase().split(/\s+/).filter(Boolean); shown = page; draw(); });
  choice.addEventListener("change", () => { chosen = choice.value; shown = page; draw(); });
  draw();
  // A link to a row clears what hides it, opens it and goes there.
  return (fingerprint) => {
    const row = rows.find((one) => one.fingerprint === fingerprint);
    if (!row) return false;
    search.value = ""; choice.value = ""; words = []; chosen = "";
    open.add(row);
    const column = columns.find((one) => one.key === sorted);
    const before = rows.filter((one) => column && (column.value(one) - column.value(row)) * (up ? -1 : 1) >= 0).length;
    shown = Math.max(shown, before + page);
    draw();
    const line = document.getElementById("row-" + fingerprint);
    line.scrollIntoView({ block: "center" });
    line.querySelector("button").focus({ preventScroll: true });
    return true;
  };
}
