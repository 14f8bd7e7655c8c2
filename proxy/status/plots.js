// plots.js - the last five minutes as lines: one canvas, one line per shard or command, a crosshair that shows values.

export const WINDOW_MS = 300000;
const LEFT = 52, RIGHT = 10, TOP = 8, BOTTOM = 20, TICKS = 4, READ_MAX = 8;

// The smallest number of the form 1, 2 or 5 times a power of ten that is not below the argument.
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find(step => step * power >= value * 0.9999) * power;
}

// A line without axes, from 0 to the greatest value.
export function drawSpark(canvas, points, now, name) {
  const width = canvas.width = canvas.clientWidth, height = canvas.height = canvas.clientHeight;
  const context = canvas.getContext('2d'), known = points.filter(point => point[1] !== null);
  const most = Math.max(...known.map(point => point[1]), 1e-9);
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `${name}, the last ${WINDOW_MS / 60000} minutes`);
  context.strokeStyle = getComputedStyle(canvas).color;
  context.beginPath();
  for (const [ms, value] of known) context.lineTo(width - 1 - (now - ms) / WINDOW_MS * width, height - 1 - value / most * (height - 2));
  context.stroke();
}

export class Plot {
  // `format` turns a value into text; `summary` is the title of the plot.
  constructor(canvas, format, summary) {
    this.canvas = canvas;
    this.format = format;
    this.summary = summary;
    this.output = canvas.parentElement.querySelector('output');
    this.lines = [];
    this.now = 0;
    this.pointed = null; // where the pointer is, as milliseconds before now
    this.listen();
  }

  listen() {
    const point = event => {
      const box = this.canvas.getBoundingClientRect();
      const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      this.pointed = Math.max(0, Math.min(1, 1 - part)) * WINDOW_MS;
      this.draw();
    };
    const leave = () => {
      this.pointed = null;
      this.draw();
    };
    this.canvas.addEventListener('pointermove', point);
    this.canvas.addEventListener('pointerdown', point);
    this.canvas.addEventListener('pointerleave', event => event.pointerType === 'mouse' && leave());
    this.canvas.addEventListener('blur', leave);
    this.canvas.addEventListener('keydown', event => {
      const step = {ArrowLeft: 5000, ArrowRight: -5000}[event.key];
      if (!step) return;
      event.preventDefault();
      this.pointed = Math.max(0, Math.min(WINDOW_MS, (this.pointed ?? 0) + step));
      this.draw();
    });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // `lines`: {name, colour, dash, points: [[ms, value or null], …]}
  show(lines, now) {
    this.lines = lines;
    this.now = now;
    this.draw();
  }

  draw() {
    const {canvas} = this;
    const scale = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const context = canvas.getContext('2d');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const values = this.lines.flatMap(line => line.points.map(point => point[1])).filter(value => value !== null);
    const step = nice((Math.max(...values, 0) || 1) / TICKS);
    const most = Math.max(1, Math.ceil(Math.max(...values, 0) / step)) * step;
    const frame = {
      x: ms => width - RIGHT - (this.now - ms) / WINDOW_MS * (width - LEFT - RIGHT),
      y: value => height - BOTTOM - value / most * (height - TOP - BOTTOM),
      width, height, step, most,
    };
    this.drawAxes(context, frame);
    for (const line of this.lines) this.drawLine(context, frame, line);
    this.read(context, frame);
  }

  drawAxes(context, {x, y, width, height, step, most}) {
    const style = getComputedStyle(this.canvas);
    context.font = `11px ${style.fontFamily}`;
    context.fillStyle = style.color;
    context.strokeStyle = style.borderTopColor;
    context.lineWidth = 1;
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    for (let value = 0; value <= most * 1.001; value += step) {
      const at = Math.round(y(value)) + 0.5;
      context.beginPath();
      context.moveTo(LEFT, at);
      context.lineTo(width - RIGHT, at);
      context.stroke();
      context.fillText(value ? this.format(value) : '0', LEFT - 6, at);
    }
    context.textBaseline = 'alphabetic';
    const every = width < 420 ? 2 : 1;
    for (let minutes = every === 1 ? 5 : 4; minutes >= 0; minutes -= every) {
      context.textAlign = minutes === 5 ? 'left' : minutes ? 'center' : 'right';
      context.fillText(minutes ? `−${minutes} min` : 'now', x(this.now - minutes * 60000), height - 5);
    }
  }

  drawLine(context, {x, y}, line) {
    context.strokeStyle = line.colour;
    context.setLineDash(line.dash || []);
    context.lineWidth = 1.75;
    context.lineJoin = 'round';
    context.beginPath();
    let isDown = false;
    for (const [ms, value] of line.points) {
      if (value === null || ms < this.now - WINDOW_MS) {
        isDown = false;
        continue;
      }
      if (isDown) context.lineTo(x(ms), y(value));
      else context.moveTo(x(ms), y(value));
      isDown = true;
    }
    context.stroke();
    context.setLineDash([]);
  }

  // The values under the crosshair, or the newest ones, the highest first; then the lines without a value at that time, with
  // their highest one, so that every line in the picture has a name. The line with the highest point is always named.
  read(context, {x, height}) {
    const wanted = this.now - (this.pointed ?? 0);
    const found = [];
    let at = null;
    for (const line of this.lines) {
      const peak = Math.max(...line.points.filter(point => point[1] !== null && point[0] >= this.now - WINDOW_MS).map(point => point[1]));
      const point = nearest(line.points, wanted);
      const isNear = point && Math.abs(point[0] - wanted) <= 5000;
      if (isNear) at = point[0];
      if (peak > -Infinity) found.push({line, peak, value: isNear ? point[1] : null});
    }
    const highest = found.reduce((best, one) => !best || one.peak > best.peak ? one : best, null);
    found.sort((a, b) => (b.value !== null) - (a.value !== null) || b.value - a.value || b.peak - a.peak);
    if (found.indexOf(highest) >= READ_MAX) {
      found.splice(found.indexOf(highest), 1);
      found.splice(READ_MAX - 1, 0, highest);
    }
    if (this.pointed !== null && at !== null) {
      context.strokeStyle = context.fillStyle;
      context.beginPath();
      context.moveTo(x(at), TOP);
      context.lineTo(x(at), height - BOTTOM);
      context.stroke();
    }
    this.write(found, this.pointed === null ? 'now' : `−${Math.round((this.now - (at ?? wanted)) / 1000)} s`);
  }

  write(found, when) {
    const text = ({line, value, peak}) => `${line.name} ${value !== null ? this.format(value) : `– (up to ${this.format(peak)})`}`;
    const spans = found.slice(0, READ_MAX).map(one => {
      const {line} = one;
      const span = document.createElement('span');
      const key = document.createElement('i');
      key.style.background = line.colour;
      if (line.dash) key.className = 'dashed';
      span.append(key, text(one));
      return span;
    });
    const label = document.createElement('b');
    label.textContent = when;
    if (found.length > READ_MAX) spans.push(document.createTextNode(`and ${found.length - READ_MAX} more`));
    this.output.replaceChildren(label, ...(spans.length ? spans : [document.createTextNode('nothing yet')]));
    const words = found.slice(0, READ_MAX).map(text).join(', ');
    this.canvas.setAttribute('aria-label', `${this.summary}, ${when}: ${words || 'nothing yet'}`);
  }
}

function nearest(points, ms) {
  let best = null;
  for (const point of points)
    if (!best || Math.abs(point[0] - ms) < Math.abs(best[0] - ms)) best = point;
  return best;
}
