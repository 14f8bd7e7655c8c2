// text.js - formats numbers, times and names, and makes elements that contain them as text.

const steps = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

// 1234567 becomes 1.23M: three significant digits.
export function short(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  for (const [size, letter] of steps)
    if (value >= size * 0.9995) return digits(value / size) + letter;
  return digits(value);
}

function digits(value) {
  if (value === 0 || Number.isInteger(value) && value < 1000) return String(value);
  if (value >= 99.95) return value.toFixed(0);
  return value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

// 16384 becomes 16 384.
export function whole(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

export function rate(value) {
  return short(value) + '/s';
}

export function bytes(value) {
  const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; unit++) value /= 1024;
  return (unit ? digits(value) : String(Math.round(value))) + ' ' + units[unit];
}

export function micros(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (value >= 1e6) return digits(value / 1e6) + ' s';
  return value >= 1000 ? digits(value / 1000) + ' ms' : Math.round(value) + ' µs';
}

export function seconds(value) {
  if (value < 60) return Math.floor(value) + ' s';
  if (value < 3600) return Math.floor(value / 60) + ' min';
  if (value < 86400) return Math.floor(value / 3600) + ' h ' + Math.floor(value % 3600 / 60) + ' min';
  return Math.floor(value / 86400) + ' d ' + Math.floor(value % 86400 / 3600) + ' h';
}

export function clock(ms) {
  const at = new Date(ms);
  const time = at.toTimeString().slice(0, 8);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? time : at.toISOString().slice(0, 10) + ' ' + time;
}

// A number and a noun: plural(1, 'shard') is "1 shard".
export function plural(count, word) {
  return short(count) + ' ' + word + (count === 1 ? '' : 's');
}

export function byId(id) {
  return document.getElementById(id);
}

// An element with a class, and text or elements in it. Text is never parsed as HTML.
export function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

// Sets the text only if it has changed, so that a selection in it stays.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
