// Finds sections that have the words of `?q=`, and shows where they stand. Texts come as a script, so it works from file://.
"use strict";

const SHOWN = 40; // sections
const AROUND = 110; // letters before and behind the first word that was found
const WEIGHTS = {
  troubleshooting: 2, // what helps comes first, what lists or tells of others last
  comparison: 1 / 2,
  "adding-a-format": 1 / 2,
  contributing: 1 / 2,
  "reference-python": 1 / 2,
  "reference-commands": 1 / 2,
  changes: 1 / 8,
};
const SMALL = new Set("a an and are as at between by can do does for from how i in is it my not of on or the to what with".split(" "));

/** How often a text has a word, at the beginning of a word of its own (`port` is not in `export`). */
function begun(text, word) {
  return text.match(new RegExp(`(?<![\\p{L}\\p{N}])${word.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")}`, "gu"))?.length || 0;
}

/** How often a text has some letters, anywhere. */
function inside(text, word) {
  return text.split(word).length - 1;
}

/** The sections that have all words of a question, else those that have most of them; the best first. */
function found(sections, words, count) {
  const scored = sections.map((section) => {
    const heading = section.heading.toLowerCase();
    const text = section.text.toLowerCase();
    let has = 0;
    let score = 0;
    for (const word of words) {
      const above = count(heading, word);
      const times = count(text, word);
      if (above || times) has += 1;
      score += (above ? 12 : 0) + Math.min(times, 4);
    }
    return { section, has, score: score * (WEIGHTS[section.page] || 1) };
  });
  const most = Math.max(0, ...scored.map((one) => one.has));
  const best = scored.filter((one) => most && one.has === most).sort((a, b) => b.score - a.score);
  return { best: best.map((one) => one.section), most };
}

/** The letters around the first of some words, with all of these words marked. */
function excerpt(text, words) {
  const lower = text.toLowerCase();
  const places = words.map((word) => lower.indexOf(word)).filter((place) => place >= 0);
  const start = Math.max(0, Math.min(...places, text.length) - AROUND);
  const piece = text.slice(start, start + 2 * AROUND);
  const shown = document.createElement("p");
  shown.append(start ? "… " : "");
  let at = 0;
  while (at < piece.length) {
    const next = words
      .map((word) => ({ word, place: piece.toLowerCase().indexOf(word, at) }))
      .filter((one) => one.place >= 0)
      .sort((a, b) => a.place - b.place)[0];
    if (!next) break;
    const mark = document.createElement("mark");
    mark.textContent = piece.slice(next.place, next.place + next.word.length);
    shown.append(piece.slice(at, next.place), mark);
    at = next.place + next.word.length;
  }
  shown.append(piece.slice(at), start + 2 * AROUND < text.length ? " …" : "");
  return shown;
}

function show(sections, question) {
  const typed = [...new Set(question.toLowerCase().split(/[\s?]+/).filter(Boolean))];
  const words = typed.some((word) => !SMALL.has(word)) ? typed.filter((word) => !SMALL.has(word)) : typed;
  const place = document.getElementById("found");
  const title = document.createElement("h1");
  title.textContent = "Search";
  place.append(title);
  if (!words.length) return;
  let { best, most } = found(sections, words, begun);
  if (most < words.length) {
    const anywhere = found(sections, words, inside);
    if (anywhere.most > most) ({ best, most } = anywhere);
  }
  const said = document.createElement("p");
  if (!best.length) said.textContent = `No page has “${question}”. Try fewer words, or a part of one.`;
  else if (most < words.length) said.textContent = `No section has all of “${question}”. These have some of the words.`;
  else said.textContent = `${best.length === 1 ? "One section has" : `${best.length} sections have`} “${question}”.`;
  place.append(said);
  for (const section of best.slice(0, SHOWN)) {
    const link = document.createElement("a");
    link.href = `${section.page}.html${section.anchor ? `#${section.anchor}` : ""}`;
    link.textContent = section.heading;
    const head = document.createElement("h3");
    head.append(link);
    place.append(head, excerpt(section.text, words));
  }
}

const question = new URLSearchParams(location.search).get("q") || "";
for (const field of document.querySelectorAll("input[name=q]")) field.value = question;
show(window.SECTIONS, question);
