// Makes buttons of the heads of sortable tables. Without this script they are plain tables.
const NUMBER = /^-?(?:∞|\.?\d[\d.,]*(?:e[-+]?\d+)?)(?=$|[\s%(])/;
const UNKNOWN = new Set(["", "not defined", "undefined", "none"]);
const order = new Intl.Collator("en", { numeric: true });

function sort(table, head, column) {
  const text = (row) => row.cells[column].textContent.replaceAll("\u00a0", " ").trim();
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: text(row) }));
  const known = rows.filter((one) => !UNKNOWN.has(one.text));
  const numbers = known.every((one) => NUMBER.test(one.text));
  for (const one of known) one.key = numbers ? +one.text.match(NUMBER)[0].replaceAll(",", "").replace("∞", "Infinity") : one.text;
  const first = head.textContent.includes("↑") ? "descending" : "ascending"; // the best on top
  const other = first === "ascending" ? "descending" : "ascending";
  const way = head.getAttribute("aria-sort") === first ? other : first;
  const sign = way === "ascending" ? 1 : -1;
  known.sort((a, b) => sign * (numbers ? (a.key < b.key ? -1 : +(a.key > b.key)) : order.compare(a.key, b.key)));
  table.tBodies[0].append(...known.map((one) => one.row), ...rows.filter((one) => UNKNOWN.has(one.text)).map((one) => one.row));
  for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", way);
}

for (const table of document.querySelectorAll("table[data-sortable]")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head, column));
    head.append(button);
  });
}
