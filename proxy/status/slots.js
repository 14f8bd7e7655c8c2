// slots.js - the slot map as a picture: 128 × 128 slots, coloured by shard; slots with more requests are stronger.
//
//   colour of the shard, faint ──log(rate)──► full ──the hottest──► lighter (dark theme) or darker (light theme)
//
// A slot has the colour of the shard that owns it. If the map gives it to another shard, every second slot has that one's
// colour, and slots that are being copied are dotted. Slots of a shard that does not answer are hatched, which is visible
// without colours too.

import {byId, rate, say} from './text.js';

export const WIDTH = 128;
export const SLOTS = WIDTH * WIDTH;
const DECAY = 0.6; // factor per second: heat fades slowly, so that slots do not flicker

// Distinguishable with any kind of colour vision (after Okabe and Ito), on light and on dark ground. Further shards get
// colours of the colour circle.
const light = ['#0072b2', '#e69f00', '#009e73', '#cc79a7', '#56b4e9', '#d55e00', '#b8a900', '#7f6bd6'];
const dark = ['#3f9bdc', '#efb02e', '#27b98a', '#e093c0', '#86cdf4', '#f0803c', '#d6ca3a', '#a394f2'];
const darkness = matchMedia('(prefers-color-scheme: dark)');
const known = new Map(); // shard name → number, so that a shard keeps its colour when the map changes

export function colour(name) {
  if (!known.has(name)) known.set(name, known.size);
  const number = known.get(name);
  return (darkness.matches ? dark : light)[number] || turn(number);
}

// The n-th colour of the colour circle, in steps of the golden angle.
function turn(n) {
  const hue = n * 137.508 % 360, lightness = n % 2 ? 0.45 : 0.6;
  const part = k => {
    const at = (k + hue / 30) % 12;
    const value = lightness - 0.6 * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(at - 3, 9 - at, 1));
    return Math.round(value * 255).toString(16).padStart(2, '0');
  };
  return '#' + part(0) + part(8) + part(4);
}

function rgb(hex) {
  return [1, 3, 5].map(at => parseInt(hex.slice(at, at + 2), 16));
}

function mix(from, to, part) {
  return from.map((value, i) => value + (to[i] - value) * part);
}

function theme() {
  return darkness.matches ? {ground: [23, 28, 34], end: [255, 255, 255]} : {ground: [255, 255, 255], end: [10, 14, 20]};
}

// The colour of a slot whose heat is 0 … 1.
function shade(own, heat, {ground, end}) {
  if (heat <= 0.6) return mix(mix(ground, own, 0.3), own, heat / 0.6);
  return mix(own, end, (heat - 0.6) / 0.4 * 0.75);
}

export class SlotMap {
  constructor() {
    this.canvas = byId('slots');
    this.cursor = byId('cursor');
    this.says = byId('slot-says');
    this.owner = new Int16Array(SLOTS).fill(-1);
    this.wish = new Int16Array(SLOTS).fill(-1);
    this.move = new Int16Array(SLOTS).fill(-1);
    this.moves = [];
    this.heat = new Float32Array(SLOTS);
    this.rates = [];
    this.shards = [];
    this.at = null; // the slot under the pointer
    this.listen();
  }

  listen() {
    const point = event => {
      const box = this.canvas.getBoundingClientRect();
      const cell = value => Math.max(0, Math.min(WIDTH - 1, Math.floor(value * WIDTH)));
      this.look(cell((event.clientY - box.top) / box.height) * WIDTH + cell((event.clientX - box.left) / box.width));
    };
    this.canvas.addEventListener('pointermove', point);
    this.canvas.addEventListener('pointerdown', point);
    this.canvas.addEventListener('pointerleave', event => event.pointerType === 'mouse' && this.look(null));
    this.canvas.addEventListener('blur', () => this.look(null));
    this.canvas.addEventListener('keydown', event => {
      const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -WIDTH, ArrowDown: WIDTH}[event.key];
      if (!step && event.key !== 'Home' && event.key !== 'End') return;
      event.preventDefault();
      const from = this.at === null ? -step || 0 : this.at;
      const to = event.key === 'Home' ? 0 : event.key === 'End' ? SLOTS - 1 : from + step;
      this.look(Math.max(0, Math.min(SLOTS - 1, to)));
    });
  }

  look(slot) {
    this.at = slot;
    this.tell();
  }

  show(map) {
    this.shards = [...map.shards];
    this.rates = map.slot_rates;
    this.wish.fill(-1);
    map.shards.forEach((shard, i) => shard.slots.forEach(([first, last]) => this.wish.fill(i, first, last + 1)));
    this.compare(map.truth);
    this.hottest = map.slot_rates.reduce((most, one) => Math.max(most, one), 0);
    const full = Math.log1p(Math.max(this.hottest, 20));
    for (let slot = 0; slot < SLOTS; slot++)
      this.heat[slot] = Math.max(Math.log1p(this.rates[slot]) / full, this.heat[slot] * DECAY);
    this.draw();
    this.tell();
  }

  // Owners that differ from the map, and moves; `truth` is null as long as the shards have not said them.
  compare(truth) {
    this.owner.set(this.wish);
    this.move.fill(-1);
    this.moves = truth ? truth.moves : [];
    for (const [first, last, name] of truth ? truth.differences : []) {
      let index = this.shards.findIndex(shard => shard.name === name);
      if (index < 0) index = this.shards.push({name, state: 'not in the map'}) - 1;
      this.owner.fill(index, first, last + 1);
    }
    this.moves.forEach((move, i) => this.move.fill(i, move.first, move.last + 1));
  }

  draw() {
    const context = this.canvas.getContext('2d', {willReadFrequently: true});
    const image = context.createImageData(WIDTH, WIDTH);
    const now = theme();
    const own = this.shards.map(shard => rgb(colour(shard.name)));
    const isDown = this.shards.map(shard => shard.state === 'down' || shard.state === 'silent');
    for (let slot = 0; slot < SLOTS; slot++) {
      const column = slot % WIDTH, row = Math.floor(slot / WIDTH);
      const shard = (column + row) % 2 ? this.wish[slot] : this.owner[slot];
      const isHatched = shard >= 0 && isDown[shard] && (column + row) % 6 < 2;
      const isDot = this.move[slot] >= 0 && column % 2 && row % 2;
      const pixel = shard < 0 ? now.ground : isDot ? now.end : isHatched ? mix(now.ground, now.end, 0.6) : shade(own[shard], this.heat[slot], now);
      image.data.set([...pixel, 255], slot * 4);
    }
    context.putImageData(image, 0, 0);
    this.drawScale(now);
  }

  drawScale(now) {
    const canvas = byId('scale');
    const context = canvas.getContext('2d');
    const own = rgb(this.shards.length ? colour(this.shards[0].name) : light[0]);
    for (let x = 0; x < canvas.width; x++) {
      context.fillStyle = `rgb(${shade(own, x / (canvas.width - 1), now).map(Math.round).join(' ')})`;
      context.fillRect(x, 0, 1, 1);
    }
    say(byId('scale-from'), '0/s');
    say(byId('scale-to'), rate(Math.max(this.hottest || 0, 20)));
  }

  // Describes the slot under the pointer, or the hottest slot.
  tell() {
    const isHottest = this.at === null;
    const slot = isHottest ? this.rates.indexOf(this.hottest) : this.at;
    const shard = this.shards[this.owner[slot]];
    this.cursor.hidden = isHottest;
    this.cursor.style.left = slot % WIDTH / WIDTH * 100 + '%';
    this.cursor.style.top = Math.floor(slot / WIDTH) / WIDTH * 100 + '%';
    if (!shard) say(this.says, '');
    else if (isHottest && !this.hottest) say(this.says, 'No slot has requests now.');
    else say(this.says, `${isHottest ? 'Hottest: slot' : 'Slot'} ${slot} · shard ${shard.name} (${shard.state}) · ${this.future(slot)}${rate(this.rates[slot])}`);
  }

  // Where the slot is to go.
  future(slot) {
    const move = this.moves[this.move[slot]], wish = this.shards[this.wish[slot]];
    if (move) return `moves to ${move.to} (${move.state}) · `;
    return this.wish[slot] === this.owner[slot] || !wish ? '' : `to be moved to ${wish.name} · `;
  }
}
