"use strict";
// Tables that sort, filters, and the interactive curves. The numbers come from scripts that set window.highway[name].

function sortable(table) {
  const heads = [...table.tHead.rows[0].cells];
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
  document.querySelectorAll(".curves").forEach((section) => { if (!section.closest("section.budget")) drawOnce(section); });
}

const AT_FIRST = 12;  // rows drawn when the page opens
const MANY = 200;     // lines above which WebGL draws them
const FAINT = 0.45;   // opacity of a seed beside others

function drawOnce(section) {
  if (section.dataset.ready) return;
  section.dataset.ready = "yes";
  requestAnimationFrame(() => setTimeout(() => curves(section), 0));  // the page is painted first
}

function curves(section) {
  const data = (window.highway ?? {})[section.dataset.name];
  if (!data || !data.metrics.length) { section.hidden = true; return; }
  const $ = (selector) => section.querySelector(selector);
  data.metrics.forEach((metric, number) => $(".metric").add(new Option(metric.title, number)));
  const authors = data.rows.some((row) => row.log);
  $(".logs").parentElement.hidden = !authors;
  $(".logs").checked = data.comparable;  // smaller models and shorter runs need another axis
  const boxes = data.rows.map((row, number) => toggle($(".toggles"), row, number < AT_FIRST, draw));
  if (data.rows.length < 2) $(".toggles").hidden = true;
  for (const [name, state] of [["all", true], ["none", false]]) {
    $("." + name).addEventListener("click", () => { boxes.forEach((box) => { box.checked = state; }); draw(); });
  }
  section.querySelectorAll("select, .log, .logs").forEach((control) => control.addEventListener("change", draw));
  $(".smooth").addEventListener("input", draw);
  $(".note").textContent = data.thinned ? `Curves are thinned to ${data.thinned} evenly spaced points; the page of a run shows every point.` : "";
  const plot = $(".plot");
  function draw() {
    const metric = data.metrics[$(".metric").value], over = $(".over").value;
    const rows = data.rows.filter((_, number) => boxes[number].checked);
    const many = rows.reduce((count, row) => count + row.seeds.length, 0) > MANY;
    const traces = rows.flatMap((row) => tracesOf(row, metric, over, Number($(".smooth").value), many, $(".logs").checked));
    Plotly.react(plot, traces, layout(metric, over, $(".log").checked, rows), { responsive: true, displaylogo: false });
    section.dataset.traces = traces.length;
  }
  draw();
  plot.on("plotly_click", ({ points }) => { if (points[0].data.meta) location.href = "../" + points[0].data.meta; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

function toggle(fieldset, row, checked, draw) {
  const label = document.createElement("label"), box = document.createElement("input"), swatch = document.createElement("span");
  box.type = "checkbox";
  box.checked = checked;
  box.addEventListener("change", draw);
  swatch.className = "swatch";
  swatch.style.borderTop = `3px ${{ dash: "dashed", dot: "dotted", dashdot: "dashed" }[row.dash] ?? "solid"} ${ink(row.colour)}`;
  label.append(box, " ", swatch, " ", row.label);
  fieldset.append(label);
  return box;
}

function ink(colour) {  // black becomes white on a dark page
  return colour === "#222222" ? getComputedStyle(document.documentElement).getPropertyValue("--ink").trim() : colour;
}

function tracesOf(row, metric, over, smoothing, many, authors) {
  const traces = [];
  const line = (splits, name, opacity, width, dash, page) => {
    const columns = splits[metric.split];
    if (!columns?.[metric.kind]?.length) return;
    traces.push({
      x: columns[over], y: smooth(columns[metric.kind], smoothing), type: many ? "scattergl" : "scatter", mode: "lines",
      name: `${row.label}, ${name}`, opacity, line: { color: ink(row.colour), width, dash }, showlegend: false,
      hovertemplate: `%{y:.5g} at ${over} %{x:,.6g}<extra>${escaped(row.label)}, ${name}</extra>`, meta: page,
    });
  };
  row.seeds.forEach((seed) => line(seed.splits, seed.name, row.seeds.length > 1 ? FAINT : 1, 1.6, row.dash, seed.page));
  if (row.seeds.length > 1) line(meanOf(row.seeds, metric), "mean", 1, 2.2, row.dash, "");
  if (row.log && authors) line(row.log, "the authors' log", 0.8, 1, "dot", "");
  return traces;
}

function meanOf(seeds, metric) {  // of finished seeds, at the steps that all of them measured
  const all = seeds.filter((seed) => !seed.name.includes(",")).map((seed) => seed.splits[metric.split]).filter((columns) => columns?.[metric.kind]);
  if (all.length < 2) return {};
  const measured = (columns) => columns.step.map((_, index) => index).filter((index) => columns[metric.kind][index] !== null);
  const indices = all.map((columns) => new Map(measured(columns).map((index) => [columns.step[index], index])));
  const steps = [...indices[0].keys()].filter((step) => indices.every((seed) => seed.has(step)));
  const mean = (name) => steps.map((step) => all.reduce((sum, columns, seed) => sum + columns[name][indices[seed].get(step)], 0) / all.length);
  return { [metric.split]: Object.fromEntries(["step", "epoch", "seconds", "tokens", metric.kind].map((name) => [name, mean(name)])) };
}

function smooth(values, weight) {  // an exponential moving average, corrected for its start
  if (!weight) return values;
  let sum = 0, mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

function layout(metric, over, log, rows) {
  const style = getComputedStyle(document.documentElement), get = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: get("--grid"), zerolinecolor: get("--grid"), automargin: true };
  const paper = rows.map((row) => [row, row.paper[`${metric.split}_${metric.kind}`]]).filter(([, value]) => value !== undefined);
  return {
    margin: { l: 50, r: 10, t: 10, b: 45 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: get("--ink"), family: "system-ui, sans-serif", size: 13 }, hovermode: "closest",
    xaxis: { ...axis, title: { text: over === "seconds" ? "seconds of training" : over === "tokens" ? "tokens read" : over } },
    yaxis: { ...axis, title: { text: metric.title }, type: log ? "log" : "linear" },
    shapes: paper.map(([row, y]) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: y, y1: y, line: { color: ink(row.colour), width: 1, dash: "dot" } })),
  };
}

function escaped(text) {  // plotly interprets some tags in labels
  return text.replace(/[&<>]/g, (character) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[character]);
}

function refresh() {  // with --watch: reload the page, unless a control has the focus
  const every = Number(document.querySelector("meta[name=refresh-every]")?.content);
  if (every && location.protocol !== "file:") {
    setInterval(() => { if (!document.activeElement?.matches("input, select")) location.reload(); }, every * 1000);
  }
}

document.querySelectorAll("table.sortable").forEach(sortable);
filters();
budgets();
refresh();
