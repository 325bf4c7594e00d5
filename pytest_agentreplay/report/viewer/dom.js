"use strict";
// What every page is made of: its data, elements, numbers and the theme. Recorded text comes from strangers: it only
// ever becomes a text node or the value of an attribute, and passes through `visible` before.

const data = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("content");
const state = { keys: {}, entries: [], chosen: -1 };

// Elements ---------------------------------------------------------------------------------------------------------

// The same characters that report/escape.py escapes: those that act on the page, hide, or reorder what is read.
const HIDDEN =
  "[\\p{Cc}\\p{Cf}\\p{Co}\\p{Cs}\\p{Cn}\\p{Zl}\\p{Zp}\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u3164\\ufe00-\\ufe0d\\uffa0\\u{e0100}-\\u{e01ef}]";
// But a joiner is part of the spelling between letters of the scripts from Arabic to Mongolian, and between emoji such as
// those of a family, of which it makes one.
const LETTER = `(?!${HIDDEN})[\\u0600-\\u109f\\u1780-\\u18af\\ua800-\\uabff\\ufb50-\\ufdff\\ufe70-\\ufefc]`;
const EMOJI = "[\\u2190-\\u2bff\\ufe0f\\u{1f000}-\\u{1faff}]";
const JOINER = `(?<=${LETTER})[\\u200c\\u200d](?=${LETTER})|(?<=${EMOJI})\\u200d(?=${EMOJI})`;
const UNSEEN = new RegExp(`${HIDDEN}(?<!${JOINER})`, "gu");

function visible(text) {
  return String(text).replace(UNSEEN, (char) => {
    if (char === "\n" || char === "\t") return char;
    const code = char.codePointAt(0);
    return code < 256 ? "\\x" + code.toString(16).padStart(2, "0") : "\\u" + code.toString(16).padStart(4, "0");
  });
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    // The policy of the page allows no style attribute; it does allow what a script sets.
    if (name === "paint") node.style.setProperty(...value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (typeof value === "number") node.setAttribute(name, value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : visible(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === "") continue;
    node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

const make = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Numbers ----------------------------------------------------------------------------------------------------------

const sum = (numbers) => numbers.reduce((total, number) => total + (number || 0), 0);
// One format for all: making one, as `toLocaleString` does, takes longer than a thousand uses.
const NUMBERS = new Intl.NumberFormat("en");
const plural = (count, noun) => `${NUMBERS.format(count)} ${noun}${count === 1 ? "" : "s"}`;

function duration(ms, digits = ms < 120000 ? 1 : 0) {
  if (ms === null || ms === undefined) return "no end";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = (ms / 1000).toFixed(digits);
  return ms < 120000 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${(seconds % 60).toFixed(digits)} s`;
}

function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

// A turn costs fractions of a cent: two digits that count are enough, and no sum shows less than its parts.
const dollars = (amount) => `$${amount >= 1 ? amount.toFixed(2) : amount.toPrecision(amount ? 2 : 1)}`;

const tokens = (turn) => [turn.tokens?.input_tokens, turn.tokens?.output_tokens];

function tokensText([read, written]) {
  if (!read && !written) return "";
  return `${NUMBERS.format(read || 0)} tokens in, ${NUMBERS.format(written || 0)} out`;
}

// Texts in data ----------------------------------------------------------------------------------------------------

function listTexts(value) {
  if (value !== null && typeof value === "object") return Object.values(value).flatMap(listTexts);
  return typeof value === "string" ? [value] : [];
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function readJson(text) {
  // Returns the object or list that a text holds, undefined for any other text: and for one whose numbers a browser
  // would round, such as ids of 17 digits.
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    const value = JSON.parse(text);
    return !/\d{16}/.test(text) || JSON.stringify(value) === text ? value : undefined;
  } catch {
    return undefined;
  }
}

// The clipboard ----------------------------------------------------------------------------------------------------

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages that are served without TLS have no clipboard: the old way takes what is selected.
    const holder = make("textarea", { "aria-hidden": "true" });
    holder.value = text;
    document.body.append(holder);
    holder.select();
    document.execCommand("copy");
    holder.remove();
  }
}

function copyButton(name, about, read) {
  // `read` gives the text when it is asked for: that of a request is unpacked first.
  const button = make("button", { class: "small", "aria-label": `${name} ${about}` }, name);
  button.addEventListener("click", async () => {
    await copyText(await read());
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = name; }, 1500);
  });
  return button;
}

// The theme --------------------------------------------------------------------------------------------------------

const THEME = "agentreplay-theme";

function readTheme() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null; // a browser may keep nothing for a file
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    // The page has its theme until it is loaded again.
  }
}

function switchTheme() {
  const theme = document.documentElement.dataset.theme;
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
}

if (["light", "dark"].includes(readTheme())) document.documentElement.dataset.theme = readTheme();
