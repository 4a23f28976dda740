"use strict";
// Tables that sort, filters, and the choice of a budget.

function sortable(table) {
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...table.tBodies[0].rows];
      const keyed = rows.map((row) => [keyOf(row.cells[column]), row]);
      keyed.sort(([a], [b]) => compare(a, b, up));
      table.tBodies[0].append(...keyed.map(([, row]) => row));
    });
  });
}

function unfold(paragraph) {  // the columns of other metrics
  const button = paragraph.firstElementChild, table = paragraph.nextElementSibling.querySelector("table");
  paragraph.hidden = false;
  table.classList.add("folded");
  button.addEventListener("click", () => button.setAttribute("aria-expanded", !table.classList.toggle("folded")));
}

function keyOf(cell) {
  const text = cell.dataset.value ?? cell.textContent.trim();
  const number = text === "" ? NaN : Number(text.replaceAll(",", ""));
  return Number.isNaN(number) ? text : number;
}

function compare(a, b, up) {  // missing values come last in both directions
  if (a === "" || b === "") return (a === "") - (b === "");
  const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  return up ? order : -order;
}

function filters() {
  const chosen = [...document.querySelectorAll("[data-filter]")];
  const apply = () => document.querySelectorAll("tr[data-budget]").forEach((row) => {
    row.hidden = chosen.some((filter) => filter.value && row.dataset[filter.dataset.filter] !== filter.value);
  });
  chosen.forEach((filter) => filter.addEventListener("change", apply));
}

function budgets() {
  const sections = [...document.querySelectorAll("section.budget")];
  const radios = [...document.querySelectorAll("input[name=budget]")];
  const show = (name) => {
    sections.forEach((section) => { section.hidden = section.dataset.budget !== name; });
    radios.forEach((radio) => { radio.checked = radio.value === name; });
    sections.filter((section) => !section.hidden).forEach((section) => section.querySelectorAll(".curves").forEach(drawOnce));
  };
  radios.forEach((radio) => radio.addEventListener("change", () => {
    history.replaceState(null, "", "#" + radio.value);
    show(radio.value);
  }));
  const chosen = location.hash.slice(1);
  if (sections.length) show((sections.find((section) => section.dataset.budget === chosen) ?? sections[0]).dataset.budget);
}

function picks(section) {  // rows that are marked on this page, to compare them on another
  const boxes = [...section.querySelectorAll(".pick")], line = section.querySelector(".picked");
  if (!line) return;
  const change = () => {
    const marked = boxes.filter((box) => box.checked);
    const link = Object.assign(document.createElement("a"), { textContent: `Compare ${marked.length === 1 ? "this row with others" : `these ${marked.length} rows`}`, href: "../compare.html#" + marked.map((box) => box.value).join(",") });
    line.replaceChildren(...(marked.length ? [link] : ["Mark rows to compare them."]));
  };
  boxes.forEach((box) => { box.onchange = change; });
}

function refresh() {  // with --watch: reload the page, unless a control has the focus
  const every = Number(document.querySelector("meta[name=refresh-every]")?.content);
  if (every && location.protocol !== "file:") {
    setInterval(() => { if (!document.activeElement?.matches("input, select")) location.reload(); }, every * 1000);
  }
}

document.querySelectorAll("table.sortable").forEach(sortable);
document.querySelectorAll(".unfold").forEach(unfold);
document.querySelectorAll("section.budget").forEach(picks);
filters();
budgets();
refresh();
