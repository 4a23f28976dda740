"use strict";
// A chart of lines as SVG: axes, labels at the ends of lines, the nearest point under the pointer, and zoom by dragging.
//
// A line: {name, label, colour, dash, width, opacity, x, y, page, kind}. `label` stands at its end; `page` opens on a click.

const NARROW = 640, LABELS = 14, LINE_HEIGHT = 14;  // pixels; labels; pixels
const NEAR = 40;        // pixels between the pointer and the point that it shows
const EARLY = 1 / 20;   // the share of a line whose values may lie above the chart
const SVG = "http://www.w3.org/2000/svg";

function drawChart(plot, chart) {  // chart: {lines, marks, over, whole, title, log}; whole: x counts
  plot.chart = chart;
  plot.range = null;
  render(plot);
  if (plot.watched) return;
  plot.watched = true;
  new ResizeObserver(() => { if (plot.clientWidth !== plot.drawnAt) render(plot); }).observe(plot);
  listen(plot);
}

function render(plot) {
  const { lines, marks, over, whole, title, log } = plot.chart;
  const width = plot.drawnAt = plot.clientWidth || 700, height = plot.clientHeight || 400;
  const named = lines.filter((line) => line.label && lastOf(line) >= 0);
  const labelled = width >= NARROW && named.length > 1 && named.length <= LABELS;
  const right = labelled ? 14 + Math.max(...named.map((line) => widthOf(shortened(line.label)))) : 12;
  const area = { left: 62, top: 12, right: width - right, bottom: height - 44, width };
  const [x, y] = scales(lines, marks, area, plot.range, log);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title} over ${over}: ${named.map((line) => line.label).join(", ")}` });
  const clip = `clip-${plot.number ??= drawChart.count = (drawChart.count ?? 0) + 1}`;
  const outline = { x: area.left, y: area.top, width: Math.max(area.right - area.left, 0), height: area.bottom - area.top };
  svg.append(element("clipPath", { id: clip }, element("rect", outline)), axes(area, x, y, over, whole, title));
  const inside = element("g", { "clip-path": `url(#${clip})` });
  for (const mark of marks) inside.append(element("path", { class: "mark", d: `M${area.left} ${y.at(mark.y)}H${area.right}`, stroke: ink(mark.colour), "stroke-dasharray": "2 4", "data-mark": mark.name }));
  for (const line of lines) inside.append(drawn(line, x, y, area));
  svg.append(inside);
  plot.labels = labelled ? ends(named, x, y, area) : [];
  for (const end of plot.labels) svg.append(element("text", { class: "end", x: end.x, y: end.y, fill: ink(end.line.colour) }, shortened(end.line.label)));
  svg.append(element("g", { class: "pointer" }));
  plot.replaceChildren(svg);
  Object.assign(plot, { area, x, y, svg });
}

function drawn(line, x, y, area) {
  const colour = ink(line.colour), points = pixels(line, x, y, area);
  if (points.length === 1) return element("circle", { cx: points[0][0], cy: points[0][1], r: 4, fill: colour, "data-line": line.name });
  const d = points.map(([left, top], number) => `${number ? "L" : "M"}${left.toFixed(1)} ${top.toFixed(1)}`).join("");
  const dash = line.dash === "solid" ? {} : { "stroke-dasharray": line.dash };
  return element("path", { d, fill: "none", stroke: colour, "stroke-width": line.width, "stroke-linejoin": "round", opacity: line.opacity, "data-line": line.name, ...dash });
}

function pixels(line, x, y, area) {  // at most the lowest and the highest point of each column of pixels
  const all = [];
  line.x.forEach((value, index) => { if (line.y[index] !== null && value !== null) all.push([x.at(value), y.at(line.y[index])]); });
  if (all.length < 4 * (area.right - area.left)) return all;
  const columns = new Map();
  for (const point of all) {
    const key = Math.round(point[0]), column = columns.get(key);
    if (!column) columns.set(key, [point, point]);
    else if (point[1] < column[0][1]) column[0] = point;
    else if (point[1] > column[1][1]) column[1] = point;
  }
  return [...columns.values()].flatMap(([low, high]) => low === high ? [low] : low[0] < high[0] ? [low, high] : [high, low]);
}

function scales(lines, marks, area, range, log) {
  const xs = [Infinity, -Infinity], ys = [Infinity, -Infinity];
  for (const { x, y } of lines) {
    const from = range || y.at(-1) >= y[0] ? 0 : Math.floor(y.length * EARLY);
    x.forEach((value, index) => {
      if (y[index] === null || value === null) return;
      xs[0] = Math.min(xs[0], value); xs[1] = Math.max(xs[1], value);
      if (index < from || (range && (value < range[0] || value > range[1]))) return;
      ys[0] = Math.min(ys[0], y[index]); ys[1] = Math.max(ys[1], y[index]);
    });
  }
  if (ys[0] > ys[1]) ys.splice(0, 2, 0, 1);
  if (xs[0] > xs[1]) xs.splice(0, 2, 0, 1);
  for (const { y } of marks) { ys[0] = Math.min(ys[0], y); ys[1] = Math.max(ys[1], y); }
  const logarithmic = log && ys[0] > 0, bend = logarithmic ? Math.log10 : (value) => value;
  const margin = (bend(ys[1]) - bend(ys[0]) || Math.abs(bend(ys[0])) || 1) * 0.04;
  return [scale(range ?? (xs[0] === xs[1] ? [xs[0] - 0.5, xs[1] + 0.5] : xs), area.left, area.right, (value) => value, 0),
    scale(ys, area.bottom, area.top, bend, margin)];
}

function scale([low, high], from, to, bend, margin) {
  const start = bend(low) - margin, end = bend(high) + margin;
  const back = (pixel) => start + (pixel - from) / (to - from) * (end - start);
  return { at: (value) => from + (bend(value) - start) / (end - start) * (to - from), back, start, end, log: bend === Math.log10 };
}

function ticks({ start, end, log }, count, least = 0) {
  if (log && end - start > 1) {
    const exponents = Array.from({ length: Math.floor(end) - Math.ceil(start) + 1 }, (_, number) => Math.ceil(start) + number);
    return exponents.map((exponent) => 10 ** exponent);
  }
  const [low, high] = log ? [10 ** start, 10 ** end] : [start, end], rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough)), step = Math.max([1, 2, 2.5, 5, 10].find((each) => each * power >= rough) * power, least);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, number) => Number(((first + number) * step).toPrecision(12)));
}

function axes(area, x, y, over, whole, title) {
  const group = element("g", { class: "axes" });
  for (const value of ticks(y, 6)) {
    group.append(element("path", { class: "grid", d: `M${area.left} ${y.at(value)}H${area.right}` }),
      element("text", { x: area.left - 6, y: y.at(value) + 4, "text-anchor": "end" }, value.toLocaleString("en", { maximumSignificantDigits: 6 })));
  }
  for (const value of ticks(x, Math.max(2, Math.floor((area.right - area.left) / 90)), whole ? 1 : 0)) {
    const text = value.toLocaleString("en", { maximumSignificantDigits: 6 }), middle = Math.min(x.at(value), area.width - widthOf(text) / 2 - 1);
    group.append(element("path", { class: "grid", d: `M${x.at(value)} ${area.top}V${area.bottom}` }),
      element("text", { x: middle, y: area.bottom + 17, "text-anchor": "middle" }, text));
  }
  const middle = (area.top + area.bottom) / 2;
  group.append(element("text", { x: (area.left + area.right) / 2, y: area.bottom + 37, "text-anchor": "middle" }, over),
    element("text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, title));
  return group;
}

function ends(named, x, y, area) {  // where the labels stand: none on top of another
  const found = named.map((line) => ({ line, x: Math.min(x.at(line.x[lastOf(line)]), area.right) + 5, wanted: y.at(line.y[lastOf(line)]) + 4 }));
  found.sort((a, b) => a.wanted - b.wanted);
  found.forEach((end, number) => { end.y = Math.max(end.wanted, area.top + 8, number ? found[number - 1].y + LINE_HEIGHT : -Infinity); });
  for (let number = found.length - 1, limit = area.bottom; number >= 0; number -= 1, limit = found[number + 1].y - LINE_HEIGHT) {
    found[number].y = Math.min(found[number].y, limit);
  }
  return found;
}

function lastOf(line) { return line.y.findLastIndex((value) => value !== null); }

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "12px system-ui, sans-serif";  // that of a chart's texts in site.css

function widthOf(text) { return ruler.measureText(text).width; }

function shortened(text) { return text.length > 26 ? text.slice(0, 25) + "…" : text; }

const PLAIN = "#222222";  // of highway/report/style.py

function ink(colour) { return colour === PLAIN ? "var(--ink)" : colour; }  // black becomes white on a dark page

function element(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function nearest(plot, left, top) {
  let best = null;
  for (const line of plot.chart.lines) {
    line.x.forEach((value, index) => {
      if (line.y[index] === null || value === null) return;
      const distance = Math.hypot(plot.x.at(value) - left, plot.y.at(line.y[index]) - top);
      if (distance < (best?.distance ?? NEAR)) best = { line, distance, x: value, y: line.y[index] };
    });
  }
  return best;
}

function listen(plot) {
  let from = null, waits = false;
  const place = (event) => {
    const box = plot.svg.getBoundingClientRect(), share = plot.drawnAt / box.width;
    return [(event.clientX - box.left) * share, (event.clientY - box.top) * share];
  };
  const show = (event) => {
    waits = false;
    const [left, top] = place(event), pointer = plot.svg.querySelector(".pointer"), point = nearest(plot, left, top);
    pointer.replaceChildren();
    if (from !== null) pointer.append(element("rect", { x: Math.min(from, left), y: plot.area.top, width: Math.abs(left - from), height: plot.area.bottom - plot.area.top, class: "zoom" }));
    else if (point) pointer.append(...tip(plot, point));
  };
  plot.addEventListener("pointermove", (event) => { if (!waits) { waits = true; requestAnimationFrame(() => show(event)); } });
  plot.addEventListener("pointerleave", () => { from = null; plot.svg.querySelector(".pointer").replaceChildren(); });
  plot.addEventListener("pointerdown", (event) => { if (event.pointerType === "mouse") [from] = place(event); });
  plot.addEventListener("pointerup", (event) => {
    const [left, top] = place(event), start = from ?? left;
    from = null;
    if (Math.abs(left - start) > 8) {
      plot.range = [Math.min(start, left), Math.max(start, left)].map(plot.x.back);
      render(plot);
    } else {
      const point = nearest(plot, left, top);
      if (event.pointerType === "mouse" && point?.line.page) location.href = point.line.page;
    }
  });
  plot.addEventListener("dblclick", () => { plot.range = null; render(plot); });
}

function tip(plot, { line, x, y }) {
  const left = plot.x.at(x), top = plot.y.at(y), text = [line.name, `${Number(y.toPrecision(5))} at ${plot.chart.over} ${x.toLocaleString("en")}`];
  const width = 16 + Math.max(...text.map(widthOf)), right = left + width + 10 > plot.drawnAt;
  const at = { x: Math.max(right ? left - width - 10 : left + 10, 0), y: Math.max(top - 46, 0) };
  return [element("circle", { cx: left, cy: top, r: 4, fill: ink(line.colour) }), element("rect", { ...at, width, height: 38, rx: 3, class: "tip" }),
    ...text.map((part, number) => element("text", { x: at.x + 8, y: at.y + 15 + 16 * number }, part))];
}

function asFile(plot, name) {  // the chart as a file, in the colours of a light page
  const copy = plot.svg.cloneNode(true);
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("style", "--ink:#1b1b1b;--grid:#e6e6e6;--soft:#565656;background:#fff;font:12px system-ui,sans-serif");
  copy.prepend(element("style", {}, "text{fill:#1b1b1b}.grid{stroke:#e6e6e6}"));
  copy.querySelectorAll(".end").forEach((label) => { label.style.fill = label.getAttribute("fill"); });
  offer(`${name}.svg`, new XMLSerializer().serializeToString(copy), "image/svg+xml");
}

function offer(name, text, type) {
  const link = Object.assign(document.createElement("a"), { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
  link.click();
}
