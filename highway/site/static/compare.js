"use strict";
// The page that compares rows and runs. The address holds the choice: compare.html#run+run,run names a row of two runs, and a run.

const MOST = 6;
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];  // of highway/report/style.py

const known = new Map();  // name as offered -> names of its runs
const labels = new Map();  // names of runs, joined -> name as offered
const seeds = new Map();  // name of a run -> "seed 3", or "seed 3, diverged"
for (const row of window.highway.runs) {
  offered(row.name, row.runs.map(([name]) => name));
  for (const [name, seed] of row.runs) {
    seeds.set(name, seed);
    if (row.runs.length > 1) offered(`${row.name}, ${seed}`, [name]);
  }
}

function offered(name, runs) {
  known.set(name, runs);
  if (!labels.has(runs.join("+"))) labels.set(runs.join("+"), name);
}

function chosen() { return decodeURIComponent(location.hash.slice(1)).split(",").filter(Boolean).map((item) => item.split("+")); }

function choose(items) { location.hash = items.map((runs) => runs.join("+")).join(","); }

function nameOf(runs) { return labels.get(runs.join("+")) ?? runs.map((run) => labels.get(run) ?? run).join(", "); }

async function show() {
  const items = chosen().slice(0, MOST), list = document.querySelector(".chosen"), state = document.querySelector(".state");
  list.replaceChildren(...items.map((runs, number) => {
    const entry = document.createElement("li"), button = Object.assign(document.createElement("button"), { type: "button", textContent: "remove" });
    button.setAttribute("aria-label", `remove ${nameOf(runs)}`);
    button.onclick = () => choose(items.filter((_, other) => other !== number));
    entry.append(swatch({ colour: COLOURS[number], dash: "solid" }), ` ${nameOf(runs)} `, button);
    return entry;
  }));
  await Promise.all(items.flat().filter((run) => !window.highway[run]).map((run) => load(`cells/${run}.js`)));
  const rows = items.map((runs) => ({ runs, name: nameOf(runs), found: runs.map((run) => window.highway[run]).filter(Boolean) }));
  const lost = rows.filter((row) => !row.found.length).map((row) => row.name), there = rows.filter((row) => row.found.length);
  state.textContent = lost.length ? `No longer here: ${lost.join(", ")}.` : items.length < 2 ? "Choose at least two; rows can also be marked on the page of a table." : "";
  const section = document.querySelector(".curves");
  section.hidden = !there.length;
  document.querySelector(".compared").hidden = !there.length;
  if (!there.length) { section.dataset.lines = 0; return; }
  curves(section, curvesOf(there, items));
  metrics(there);
  settings(there);
}

function curvesOf(there, items) {
  const rows = there.map(({ runs, name, found }) => ({
    id: runs.join("+"), label: name, colour: COLOURS[items.indexOf(runs)], dash: "solid", paper: {}, log: null,
    seeds: found.map((data, number) => ({ ...data.rows[0].seeds[0], name: seeds.get(runs[number]) ?? "its run", page: "" })),
  }));
  const kinds = new Map(there.flatMap(({ found }) => found.flatMap((data) => data.metrics)).map((metric) => [metric.title, metric]));
  const shared = [...kinds.values()].sort((a, b) => (a.split === "train") - (b.split === "train"));
  const words = rows.map((row) => row.label.split(" ")), same = words[0].findIndex((word, number) => words.some((other) => other[number] !== word || number === other.length - 1));
  if (rows.length > 1 && same > 0) rows.forEach((row, number) => { row.label = words[number].slice(same).join(" "); });
  return { rows, metrics: shared, thinned: 0, comparable: true };
}

function table(place, heads, lines) {
  const made = document.createElement("table"), head = made.createTHead().insertRow(), body = made.createTBody();
  for (const title of heads) head.append(Object.assign(document.createElement("th"), { scope: "col", textContent: title, className: "wrapped" }));
  for (const [name, ...cells] of lines) {
    const row = body.insertRow();
    row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: name }));
    for (const text of cells) row.append(Object.assign(document.createElement("td"), { textContent: text }));
  }
  document.querySelector(place).replaceChildren(lines.length ? made : "None.");
}

function metrics(there) {
  const names = [...new Set(there.flatMap(({ found }) => found.flatMap((data) => Object.keys(data.metrics_of_record))))];
  const value = ({ found }, name) => {
    const values = found.map((data) => data.metrics_of_record[name]?.[data.select]).filter((each) => typeof each === "number");
    if (!values.length) return "—";
    const mean = values.reduce((sum, each) => sum + each, 0) / values.length;
    const spread = Math.sqrt(values.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (values.length - 1));
    return Number(mean.toPrecision(6)) + (values.length > 1 ? ` ± ${Number(spread.toPrecision(2))}` : "");
  };
  table(".metrics", ["metric", ...there.map((row) => row.name)], names.map((name) => [name, ...there.map((row) => value(row, name))]));
}

function settings(there) {
  const of = ({ found }) => found[0].settings;
  const keys = [...new Set(there.flatMap((row) => Object.keys(of(row))))].sort();
  const differing = keys.filter((key) => new Set(there.map((row) => of(row)[key])).size > 1);
  table(".settings", ["setting", ...there.map((row) => row.name)], differing.map((key) => [key, ...there.map((row) => of(row)[key] ?? "—")]));
}

document.querySelector("#rows").append(...[...known.keys()].map((name) => new Option(name, name)));
document.querySelector(".search").addEventListener("change", (event) => {
  const runs = known.get(event.target.value), items = chosen();
  if (!runs) return;
  event.target.value = "";
  if (items.length < MOST && !items.some((item) => item.join() === runs.join())) choose([...items, runs]);
});
addEventListener("hashchange", show);
show();
