// Makes buttons of the heads of sortable tables; without this script they are plain tables.
const NUMBER = /^-?(?:∞|\d[\d.]*(?:e[-+]?\d+)?)(?=$|[\s%(])/;
const words = new Intl.Collator("en", { numeric: true });

function sort(table, head, column) {
  const [best, worst] = head.textContent.includes("↑") ? ["descending", "ascending"] : ["ascending", "descending"];
  const way = head.ariaSort === best ? worst : best, sign = way === "ascending" ? 1 : -1;
  const rows = [...table.tBodies[0].rows].map((row) => [row, row.cells[column].textContent.trim()]);
  const known = rows.filter(([, text]) => text && text !== "not defined");
  const numeric = known.every(([, text]) => NUMBER.test(text));
  const value = (text) => +text.match(NUMBER)[0].replace("∞", "Infinity");
  const compare = numeric ? (one, other) => (value(one) > value(other)) - (value(one) < value(other)) : words.compare;
  known.sort(([, one], [, other]) => sign * compare(one, other));
  const last = rows.filter((row) => !known.includes(row)); // undefined values, in either order
  table.tBodies[0].append(...[...known, ...last].map(([row]) => row));
  for (const cell of head.parentNode.cells) cell.ariaSort = null;
  head.ariaSort = way;
}

for (const table of document.querySelectorAll("table[data-sortable]"))
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, head, column));
    head.append(button);
  });
