"use strict";
// The chart of a page: a line for each run of each row, with plotly.

const FONT = { family: "system-ui, sans-serif", size: 13 };

function traces(data, metric, axis) {
  const lines = [];
  const titled = new Set();  // rows whose label is in the legend
  data.rows.forEach((row) => row.runs.forEach((run) => {
    const columns = run.splits[metric.split];
    if (!columns?.[metric.kind]) return;
    const present = columns[metric.kind].map((_, index) => index).filter((index) => columns[metric.kind][index] !== null);
    lines.push({
      x: present.map((index) => columns[axis][index]), y: present.map((index) => columns[metric.kind][index]),
      name: run.name, legendgroup: row.label, legendgrouptitle: titled.has(row.label) ? undefined : { text: wrapped(row.label) },
      visible: row.hidden ? "legendonly" : true,  // extra rows, and rows that have not learned
      mode: present.length > 1 ? "lines" : "markers", opacity: titled.has(row.label) ? 0.6 : 1,
      line: { color: row.colour, dash: run.name === "authors' log" ? "longdashdot" : row.dash, width: 1.6 },
      hovertemplate: `${row.label}, ${run.name}<br>${axis} %{x}: %{y:.5g}<extra></extra>`,
    });
    titled.add(row.label);
  }));
  return lines;
}

function wrapped(label) {  // a long label on several lines
  return label.replace(/(.{18}\S*) /g, "$1<br>");
}

function paperLines(data, metric) {  // the paper's values, dotted
  const values = data.rows.map((row) => [row.colour, row.paper[`${metric.split}_${metric.kind}`]]);
  return values.filter(([, value]) => value !== undefined).map(([color, value]) => (
    { type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, line: { color, width: 1, dash: "dot" } }));
}

function draw(section) {
  const data = window.highway?.[section.dataset.curves];
  if (!data?.metrics?.length) { section.hidden = true; return; }
  const [metrics, axis, log] = section.querySelectorAll("select, input");
  data.metrics.forEach((metric, number) => metrics.add(new Option(metric.title, number)));
  const update = () => {
    const metric = data.metrics[metrics.value], type = log.checked ? "log" : "linear";
    const shapes = log.checked ? [] : paperLines(data, metric);
    Plotly.react(section.querySelector(".plot"), traces(data, metric, axis.value), {
      shapes, font: FONT, hovermode: "closest", margin: { l: 60, r: 10, t: 10, b: 45 }, showlegend: true,
      xaxis: { title: { text: axis.value }, automargin: true, uirevision: axis.value },
      yaxis: { title: { text: metric.title }, type, uirevision: metric.title + type },
      legend: { groupclick: "toggleitem", tracegroupgap: 2, font: { size: 11 }, ...narrow() },
      uirevision: "kept",  // hidden lines survive a change of the metric, and a zoom that of the other axis
    }, { responsive: true, displayModeBar: false });
  };
  [metrics, axis, log].forEach((control) => control.addEventListener("change", update));
  update();
}

function narrow() {  // on a phone, the legend is below the chart
  return window.innerWidth < 640 ? { orientation: "h", y: -0.25 } : {};
}

function refresh() {  // with --watch: reload the page, unless a control has the focus
  const every = Number(document.querySelector("meta[name=refresh-every]")?.content);
  if (every) setInterval(() => { if (!document.activeElement?.matches("input, select")) location.reload(); }, every * 1000);
}

document.querySelectorAll("[data-curves]").forEach(draw);
refresh();
