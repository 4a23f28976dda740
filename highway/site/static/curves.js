"use strict";
// The curves of runs with their controls. The numbers come from scripts that set window.highway[name]; a script is
// loaded when its chart is first shown, so a page is there before its curves.

const AT_FIRST = 12;  // rows drawn when the page opens; none that has not learned, which would squeeze the others
const FAINT = 0.4;    // opacity of a seed beside others

function drawOnce(section) {
  if (section.dataset.ready || !section.dataset.source) return;
  section.dataset.ready = "yes";
  load(section.dataset.source).then(() => curves(section, (window.highway ?? {})[section.dataset.name]));
}

function load(source) {
  return new Promise((resolve) => {
    const script = Object.assign(document.createElement("script"), { src: source, onload: resolve, onerror: resolve });
    document.head.append(script);
  });
}

function curves(section, data) {
  if (!data || !data.metrics.length) { section.hidden = true; return; }
  const $ = (selector) => section.querySelector(selector), plot = $(".plot");
  $(".metric").replaceChildren(...data.metrics.map((metric, number) => new Option(metric.title, number)));
  const authors = data.rows.some((row) => row.log);
  $(".logs").parentElement.hidden = !authors;
  $(".logs").checked = data.comparable;  // smaller models and shorter runs need another axis
  section.querySelectorAll(".toggles label").forEach((label) => label.remove());
  const learned = data.rows.filter((row) => !row.unlearned), first = (learned.length ? learned : data.rows).slice(0, AT_FIRST);
  const boxes = data.rows.map((row) => toggle($(".toggles"), row, first.includes(row), draw));
  $(".toggles").hidden = data.rows.length < 2;
  for (const [name, state] of [["all", true], ["none", false]]) {
    $("." + name).onclick = () => { boxes.forEach((box) => { box.checked = state; }); draw(); };
  }
  section.querySelectorAll("select, .log, .logs").forEach((control) => { control.onchange = draw; });
  $(".smooth").oninput = draw;
  $(".picture").onclick = () => asFile(plot, section.dataset.name.replaceAll("/", "-"));
  const thinned = data.thinned ? `Curves are thinned to ${data.thinned} points; the page of a run shows every point.` : "";
  function draw() {
    const metric = data.metrics[$(".metric").value], over = $(".over").value;
    const rows = data.rows.filter((_, number) => boxes[number].checked);
    const lines = rows.flatMap((row) => linesOf(row, metric, over, Number($(".smooth").value), $(".logs").checked));
    const values = rows.map((row) => ({ name: row.label, colour: row.colour, y: row.paper[`${metric.split}_${metric.kind}`] }));
    const marks = values.filter((mark) => mark.y !== undefined);
    $(".note").textContent = [...explained(lines, marks, rows, metric), thinned].filter(Boolean).join(" ");
    drawChart(plot, { lines, marks, over: over === "seconds" ? "seconds of training" : over === "tokens" ? "tokens read" : over, whole: over === "step" || over === "tokens", title: metric.title, log: $(".log").checked });
    section.dataset.lines = lines.length;
    $(".data").open = false;
    $(".data").ontoggle = () => { if ($(".data").open) dataTable($(".data"), lines, metric, over); };
  }
  draw();
}

function explained(lines, marks, rows, metric) {  // what each kind of line is, where it is drawn
  const kinds = new Set(lines.map((line) => line.kind));
  const absent = rows.filter((row) => !lines.some((line) => line.row === row.id)).map((row) => row.label);
  return [
    kinds.has("mean") ? "Faint lines are single seeds, the strong line is their mean at common steps." : "",
    kinds.has("log") ? "Dotted curves are the authors' logs." : "",
    marks.length ? "Dotted horizontal lines are the paper's numbers, in the colour of their row." : "",
    absent.length ? `Without ${metric.title}: ${absent.join(", ")}.` : "",
  ];
}

function dataTable(details, lines, metric, over) {  // the chart as a table, and as a file
  const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  for (const title of ["curve", "points", `last ${over}`, "first", "lowest", "highest", "last"]) {
    head.append(Object.assign(document.createElement("th"), { textContent: title, scope: "col", className: title === "curve" ? "" : "number" }));
  }
  for (const line of lines) {
    const values = line.y.filter((value) => value !== null), row = body.insertRow();
    row.append(Object.assign(document.createElement("th"), { textContent: line.name, scope: "row" }));
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    for (const value of [values.length, line.x.at(-1), values[0], low, high, values.at(-1)]) {
      row.append(Object.assign(document.createElement("td"), { textContent: Number(value.toPrecision(5)), className: "number" }));
    }
  }
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "every point as CSV" });
  const text = (name) => `"${(/^[=+\-@]/.test(name) ? "'" : "") + name.replaceAll('"', '""')}"`;  // no formula
  const points = () => lines.flatMap((line) => line.x.map((x, index) => [text(line.name), x, line.y[index]].join(",")));
  button.onclick = () => offer(`${metric.split}_${metric.kind}.csv`, [`curve,${over},${metric.split}_${metric.kind}`, ...points()].join("\n"), "text/csv");
  details.replaceChildren(details.firstElementChild, button, table);
}

function toggle(fieldset, row, checked, draw) {
  const label = document.createElement("label"), box = document.createElement("input");
  Object.assign(box, { type: "checkbox", checked, onchange: draw });
  label.append(box, " ", swatch(row), " ", row.label, row.unlearned ? " (has not learned)" : "");
  fieldset.append(label);
  return box;
}

function swatch(row) {
  const made = element("svg", { class: "swatch", "aria-hidden": "true" });
  made.append(element("line", { x1: 0, y1: 4, x2: 36, y2: 4, "stroke-width": 2.5, stroke: ink(row.colour), "stroke-dasharray": row.dash === "solid" ? "none" : row.dash }));
  return made;
}

function linesOf(row, metric, over, smoothing, authors) {
  const lines = [];
  const add = (splits, name, opacity, width, dash, page, kind) => {
    const columns = splits[metric.split], measured = columns?.[metric.kind]?.filter((value) => value !== null).length;
    if (!measured) return;
    lines.push({ x: columns[over], y: smooth(columns[metric.kind], smoothing), name: `${row.label}, ${name}`, label: "", colour: row.colour, dash, width, opacity, page, kind, row: row.id });
  };
  row.seeds.forEach((seed) => add(seed.splits, seed.name, row.seeds.length > 1 ? FAINT : 1, row.seeds.length > 1 ? 1.2 : 1.8, row.dash, seed.page && "../" + seed.page, "seed"));
  if (row.seeds.length > 1) add(meanOf(row.seeds, metric), "mean", 1, 2.4, row.dash, "", "mean");
  const last = lines.at(-1);
  if (last) last.label = row.label;
  if (row.log && authors) add(row.log, "the authors' log", 0.9, 1.4, "1.5 3", "", "log");
  return lines;
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

document.querySelectorAll(".curves").forEach((section) => { if (!section.closest("section.budget")) drawOnce(section); });
