// Asks for the state of the training every two seconds and draws it. All text goes through textContent: what stands in
// the folder is shown to the letter and never becomes part of the page.
"use strict";

const EVERY = 2000; // milliseconds
const PATIENCE = 10000;
const DOTS = 60; // with more points a curve is drawn without them

const CHARTS = [
  {
    id: "losses",
    digits: 3,
    fromZero: false,
    curves: [
      { key: "training", name: "training", more: " (smoothed labels)", look: "quiet", dots: false },
      { key: "validation", name: "validation", look: "first", dots: true },
    ],
  },
  {
    id: "scores",
    digits: 1,
    fromZero: true,
    curves: [
      { key: "bleu", name: "BLEU", look: "first", dots: true },
      { key: "chrf", name: "chrF", look: "second", dots: true },
    ],
  },
];

const STATES = {
  preparing: "preparing",
  running: "running",
  finished: "finished",
  stopped: "stopped",
  empty: "no training yet",
};

const find = (id) => document.getElementById(id);

// ---- numbers and words

function count(value) {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

function fixed(value, digits) {
  return value === null ? "–" : value.toFixed(digits);
}

// As the terminal says it: 45 s, 12 min, 3 h 05 min, 12 days.
function spell(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes >= 72 * 60) return `${count(minutes / 1440)} days`;
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

// ---- making elements

function make(parent, name, text = "", className = "") {
  const element = parent.appendChild(document.createElement(name));
  element.textContent = text;
  if (className) element.className = className;
  return element;
}

function draw(parent, name, attributes, text = "") {
  const element = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text) element.textContent = text;
  return element;
}

// Unchanged text is left alone, so that a selection and a screen reader keep their place.
function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// ---- curves

// A round distance that cuts a range into about so many parts.
function distance(range, parts) {
  const rough = range / Math.max(parts, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
}

// The multiples of a distance from the one at or below low to the one at or above high.
function around(low, high, step) {
  const [first, last] = [Math.floor(low / step + 1e-9), Math.ceil(high / step - 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}

function nearest(points, step) {
  return points.reduce((best, point) => (Math.abs(point[0] - step) < Math.abs(best[0] - step) ? point : best));
}

class Chart {
  constructor(spec) {
    const figure = find(spec.id);
    this.spec = spec;
    this.plot = figure.querySelector(".plot");
    this.reading = figure.querySelector(".reading");
    this.legend = figure.querySelector(".legend");
    this.lines = spec.curves.map((curve) => ({ ...curve, points: [] }));
    this.best = null;
    this.end = 1; // both charts have the same updates
    this.step = null; // where the cursor stands
    this.listen();
    this.explain();
    new ResizeObserver(() => this.redraw()).observe(this.plot);
  }

  show({ curves, now }) {
    for (const line of this.lines) line.points = curves[line.key];
    this.best = now.best_step;
    this.end = Math.max(now.step, 1);
    this.redraw();
  }

  explain() {
    for (const line of this.lines) {
      const item = make(this.legend, "li");
      const swatch = draw(item, "svg", { "aria-hidden": "true", viewBox: "0 0 26 10" });
      draw(swatch, "path", { d: "M1 5H25", class: `curve ${line.look}` });
      if (line.dots) draw(swatch, "circle", { cx: 13, cy: 5, r: 4, class: `dot ${line.look}` });
      item.append(line.name + (line.more ?? ""));
    }
    if (this.spec.fromZero) {
      const item = make(this.legend, "li");
      const swatch = draw(item, "svg", { "aria-hidden": "true", viewBox: "0 0 26 10" });
      draw(swatch, "path", { d: "M13 0V10", class: "best" });
      item.append("best BLEU");
    }
  }

  listen() {
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerdown", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse" && document.activeElement !== this.plot) this.move(null);
    });
    this.plot.addEventListener("focus", () => this.move(this.step ?? this.last()));
    this.plot.addEventListener("blur", () => this.move(null));
    this.plot.addEventListener("keydown", (event) => this.press(event));
  }

  point(event) {
    if (!this.scale) return;
    const x = event.clientX - this.plot.getBoundingClientRect().left;
    this.move(this.known(this.scale.stepAt(x)));
  }

  press(event) {
    const steps = this.steps();
    if (!steps.length) return;
    const here = steps.indexOf(this.known(this.step ?? this.last()));
    const tenth = Math.max(Math.round(steps.length / 10), 1);
    const moves = {
      ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1,
      PageDown: here - tenth, PageUp: here + tenth, Home: 0, End: steps.length - 1,
    };
    if (!(event.key in moves) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.move(steps[Math.min(Math.max(moves[event.key], 0), steps.length - 1)]);
  }

  longest() {
    return this.lines.map((line) => line.points).reduce((most, some) => (some.length > most.length ? some : most));
  }

  // Where the cursor can stand: at the points of the longest curve.
  steps() {
    return this.longest().map((point) => point[0]);
  }

  known(step) {
    return nearest(this.longest(), step)[0];
  }

  last() {
    return this.steps().at(-1) ?? null;
  }

  move(step) {
    this.step = step;
    this.drawCursor();
    this.tell();
  }

  tell() {
    const steps = this.steps();
    const told = this.step === null ? "" : this.read(this.step);
    const hint = steps.length ? "Point at the curves, or use the arrow keys, to read them." : "Comes with the first validation.";
    write(this.reading, told || hint);
    this.plot.setAttribute("aria-valuemin", steps[0] ?? 0);
    this.plot.setAttribute("aria-valuemax", steps.at(-1) ?? 0);
    this.plot.setAttribute("aria-valuenow", this.step ?? steps.at(-1) ?? 0);
    this.plot.setAttribute("aria-valuetext", this.read(this.step ?? this.last()) || "no points yet");
  }

  read(step) {
    if (step === null) return "";
    const known = this.lines.filter((line) => line.points.length);
    const parts = known.map((line) => {
      const [at, value] = nearest(line.points, step);
      return `${line.name} ${value.toFixed(this.spec.digits)}${at === step ? "" : ` (at ${count(at)})`}`;
    });
    return parts.length ? `Update ${count(step)}: ${parts.join(" · ")}` : "";
  }

  redraw() {
    const [width, height] = [this.plot.clientWidth, this.plot.clientHeight];
    if (!width || !height) return;
    this.plot.replaceChildren();
    this.svg = draw(this.plot, "svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    this.scale = this.lines.some((line) => line.points.length) ? this.fit(width, height) : null;
    if (this.scale) {
      this.drawAxes();
      for (const line of this.lines) this.drawCurve(line);
    }
    this.cursor = draw(this.svg, "g", {});
    this.drawCursor();
    this.tell();
  }

  fit(width, height) {
    const { end } = this;
    const values = this.lines.flatMap((line) => line.points.map((point) => point[1]));
    let [low, high] = [this.spec.fromZero ? 0 : Math.min(...values), Math.max(...values)];
    if (high - low < 1e-6) [low, high] = [this.spec.fromZero ? 0 : low - 0.5, high + 0.5];
    const box = { left: 40, right: width - 14, top: 10, bottom: height - 40 };
    const rise = distance(high - low, height / 50);
    const levels = around(low, high, rise);
    [low, high] = [levels[0], levels.at(-1)];
    const x = (step) => box.left + (step / end) * (box.right - box.left);
    const y = (value) => box.bottom - ((value - low) / (high - low)) * (box.bottom - box.top);
    const stepAt = (place) => Math.round(Math.min(Math.max((place - box.left) / (box.right - box.left), 0), 1) * end);
    return { box, x, y, stepAt, end, rise, levels };
  }

  drawAxes() {
    const { box, x, y, end, rise, levels } = this.scale;
    const decimals = Math.max(0, -Math.floor(Math.log10(rise) + 1e-9));
    for (const value of levels) {
      draw(this.svg, "path", { d: `M${box.left} ${y(value)}H${box.right}`, class: "grid" });
      const place = { x: box.left - 6, y: y(value) + 4, "text-anchor": "end" };
      draw(this.svg, "text", place, value.toFixed(decimals));
    }
    const run = Math.max(distance(end, (box.right - box.left) / 64), 1);
    for (const step of around(0, end, run).filter((each) => each <= end)) {
      draw(this.svg, "path", { d: `M${x(step)} ${box.bottom}v4`, class: "axis" });
      const isAtEdge = x(step) > box.right - 20;
      const place = { x: isAtEdge ? box.right + 10 : x(step), y: box.bottom + 18, "text-anchor": isAtEdge ? "end" : "middle" };
      draw(this.svg, "text", place, count(step));
    }
    draw(this.svg, "path", { d: `M${box.left} ${box.bottom}H${box.right}`, class: "axis" });
    const middle = { x: (box.left + box.right) / 2, y: box.bottom + 36, "text-anchor": "middle" };
    draw(this.svg, "text", middle, "update");
    if (this.best !== null && this.spec.fromZero) {
      draw(this.svg, "path", { d: `M${x(this.best)} ${box.top}V${box.bottom}`, class: "best" });
    }
  }

  drawCurve(line) {
    const { x, y } = this.scale;
    const places = line.points.map(([step, value]) => `${x(step).toFixed(1)} ${y(value).toFixed(1)}`);
    if (places.length > 1) draw(this.svg, "path", { d: `M${places.join("L")}`, class: `curve ${line.look}` });
    if (line.points.length > 1 && (!line.dots || line.points.length > DOTS)) return;
    for (const [step, value] of line.points) this.dot(this.svg, line, step, value, 4);
  }

  drawCursor() {
    if (!this.cursor) return;
    this.cursor.replaceChildren();
    if (this.step === null || !this.scale) return;
    const { box, x } = this.scale;
    const place = x(Math.min(this.step, this.scale.end));
    draw(this.cursor, "path", { d: `M${place} ${box.top}V${box.bottom}`, class: "cursor" });
    for (const line of this.lines.filter((each) => each.points.length)) {
      const [step, value] = nearest(line.points, this.step);
      this.dot(this.cursor, line, step, value, 6);
    }
  }

  dot(parent, line, step, value, radius) {
    const { x, y } = this.scale;
    draw(parent, "circle", { cx: x(step), cy: y(value), r: radius, class: `dot ${line.look}` });
  }
}

// ---- the rest of the page

function showOverview(told) {
  const { step, steps, epoch, loss, tokens_per_second: pace, best_bleu: bleu, best_step: bestStep } = told.now;
  const done = steps ? Math.min(step / steps, 1) : 0;
  find("bar").hidden = !steps;
  find("bar").value = done;
  const more = [steps && `of ${count(steps)}`, epoch !== null && `epoch ${epoch + 1}`].filter(Boolean);
  fact("update", count(step), more.join(" · "));
  fact("loss", fixed(loss, 3), told.now.validation_loss === null ? "" : `validation ${fixed(told.now.validation_loss, 3)}`);
  fact("best", fixed(bleu, 1), bestStep === null ? "" : `at update ${count(bestStep)}`);
  fact("pace", pace === null ? "–" : count(pace), "");
  const percent = told.state === "running" && steps ? `${Math.floor(done * 100)} % · ` : "";
  document.title = `${percent}${told.name} · ${STATES[told.state]}`;
}

function fact(id, text, more) {
  const place = find(id);
  if (place.firstChild === null) {
    place.append(document.createTextNode(""));
    make(place, "small");
  }
  if (place.firstChild.data !== text) place.firstChild.data = text;
  write(place.lastChild, more);
}

// Between two lines of the journal time goes on.
function showTimes(told, now) {
  const age = told.written === null ? null : Math.max(now - told.written, 0);
  const left = told.now.seconds_left;
  const isRunning = told.state === "running";
  find("left").parentElement.hidden = !isRunning;
  fact("left", isRunning && left !== null ? spell(Math.max(left - (age ?? 0), 0)) : "–", "");
  fact("news", age === null ? "–" : age < 3 ? "now" : `${spell(age)} ago`, "");
}

// What has not changed is not drawn anew, so that whoever selects or reads it is not disturbed.
const drawn = {};

function isDrawn(name, value) {
  const before = drawn[name];
  drawn[name] = JSON.stringify(value);
  return before === drawn[name];
}

function showSamples(told) {
  const place = find("sentences");
  if (isDrawn("samples", [told.samples, told.languages])) return;
  const [source, target] = told.languages;
  find("samples").hidden = !told.samples.length;
  place.replaceChildren();
  told.samples.forEach((sample, index) => {
    const table = make(make(place, "div", "", "sentence"), "table");
    table.setAttribute("aria-label", `Sentence ${index + 1}`);
    if (sample.source || sample.reference) {
      row(table, "Source", sample.source, source, "given");
      row(table, "Reference", sample.reference, target, "given");
    }
    sample.stages.forEach((stage, at) => {
      const isNewest = at === sample.stages.length - 1;
      row(table, `Update ${count(stage.step)}`, stage.text, target, isNewest ? "newest" : "");
    });
    if (!sample.stages.length) row(table, "Translation", "", target, "");
  });
}

function row(table, title, text, language, className) {
  const line = make(table, "tr", "", className);
  make(line, "th", title).scope = "row";
  const cell = make(line, "td", text || "nothing yet", text ? "" : "nothing");
  cell.dir = "auto";
  if (text && language) cell.lang = language;
}

function showWarnings(warnings) {
  const table = find("warned");
  if (isDrawn("warnings", warnings)) return;
  find("warnings").hidden = !warnings.count;
  table.replaceChildren();
  for (const { step, text } of warnings.newest) row(table, `Update ${count(step)}`, text, "", "");
  const more = warnings.count - warnings.newest.length;
  if (more) row(table, "Before", `${count(more)} more`, "", "");
}

function showState(word, className) {
  const place = find("state");
  write(place, word);
  place.className = `state ${className}`;
}

function showNotice(text, className = "notice") {
  const place = find("notice");
  write(place, text);
  place.className = className;
  place.hidden = !text;
}

const HINTS = {
  stopped: "Nobody trains here now. The same `dragoman train` command goes on from the last checkpoint.",
  empty: "There is no journal in this folder yet; the page fills when a training in it begins.",
  preparing: "The corpus is being read and prepared; the first numbers come with update 50.",
};

// ---- asking

let charts = [];
let latest = null; // the last state without a problem
let tag = "";
let timer = 0;

function show(told) {
  write(find("name"), told.name);
  if (told.problem) {
    showState("not readable", "lost");
    showNotice(`${told.problem}. ${latest ? "What is below was read before. " : ""}The page goes on looking.`);
    return;
  }
  latest = told;
  showState(STATES[told.state], told.state);
  showNotice(HINTS[told.state] ?? "", "notice calm");
  find("overview").hidden = find("charts").hidden = !told.now.step;
  showOverview(told);
  for (const chart of charts) chart.show(told);
  showSamples(told);
  showWarnings(told.warnings);
}

async function ask() {
  const headers = tag ? { "If-None-Match": tag } : {};
  const answer = await fetch("/state.json", { headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
  if (answer.status === 200) {
    const told = await answer.json();
    show(told);
    tag = answer.headers.get("ETag");
  } else if (answer.status === 304) {
    await answer.text(); // unread, the browser would count it as broken off
  } else {
    throw new Error(`status ${answer.status}`);
  }
  if (latest) showTimes(latest, Date.parse(answer.headers.get("Date")) / 1000);
}

async function refresh() {
  clearTimeout(timer);
  try {
    await ask();
  } catch {
    tag = ""; // whatever answers next time is shown whole, and this notice with it gone
    showState("not connected", "lost");
    showNotice("`dragoman watch` does not answer any more. Start it again and this page goes on by itself.");
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(refresh, EVERY);
}

document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : refresh()));
charts = CHARTS.map((spec) => new Chart(spec));
refresh();
