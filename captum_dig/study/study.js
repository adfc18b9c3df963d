"use strict";
(() => {
const byId = (id) => document.getElementById(id);
const form = byId("study"), slot = "captum_dig.study." + form.dataset.study;
const sentences = [...form.querySelectorAll("article")].map((article) => ({
  id: article.id, state: article.querySelector(".state"), choices: [...article.querySelectorAll("fieldset")],
}));
const fresh = () => ({
  participant: [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join(""),
  name: "", revision: 0, ranks: sentences.map(({choices}) => choices.map(() => null)),
});
const isRank = (rank, n) => rank === null || (Number.isInteger(rank) && rank >= 1 && rank <= n);
const fits = (old) => old && /^[0-9a-f]{32}$/.test(old.participant) && typeof old.name === "string"
  && Number.isSafeInteger(old.revision) && Array.isArray(old.ranks) && old.ranks.length === sentences.length
  && sentences.every(({choices}, i) => Array.isArray(old.ranks[i]) && old.ranks[i].length === choices.length
    && old.ranks[i].every((rank) => isRank(rank, choices.length)));
// A browser may forbid storage, or have none left: then the answers live as long as the page.
let stored = true, unsaved = false;
const load = () => {
  try { const old = JSON.parse(localStorage.getItem(slot)); return fits(old) ? old : null; } catch { return null; }
};
const store = () => {
  try { localStorage.setItem(slot, JSON.stringify(answers)); stored = true; } catch { stored = false; }
  byId("unstored").hidden = stored;
  byId("stored").hidden = !stored;
};
const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };
const repeated = (ranks) => ranks.find((rank, i) => rank !== null && ranks.indexOf(rank) !== i);
const complete = (ranks) => !ranks.includes(null) && repeated(ranks) === undefined;
const show = () => {
  sentences.forEach(({state, choices}, i) => {
    const ranks = answers.ranks[i], twice = repeated(ranks), chosen = ranks.filter((rank) => rank !== null).length;
    choices.forEach((choice, j) => {
      choice.classList.toggle("clash", twice !== undefined && ranks[j] === twice);
      choice.querySelectorAll("input").forEach((input) => { input.checked = Number(input.value) === ranks[j]; });
    });
    say(state, twice !== undefined ? `Rank ${twice} is chosen more than once: use every rank once.`
      : complete(ranks) ? "✓ Every explanation has a rank." : chosen ? `${chosen} of ${choices.length} ranked.` : "");
  });
  if (byId("name").value !== answers.name) byId("name").value = answers.name;
  say(byId("progress"), `${answers.ranks.filter(complete).length} of ${sentences.length} sentences ranked`);
};
const change = () => { unsaved = true; byId("ask").hidden = byId("saved").hidden = true; store(); show(); };
const write = () => {
  answers.revision += 1;
  store();
  const {dataset} = form, {participant, name, revision, ranks} = answers;
  const text = JSON.stringify({format: dataset.format, format_version: Number(dataset.version), study: dataset.study,
    participant, name, revision, ranks}, null, 1) + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], {type: "application/json"}));
  link.download = "answers.json";
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  unsaved = false;
  byId("ask").hidden = true;
  byId("text").value = text;
  byId("saved").hidden = false;
  byId("saved").focus();
};
const save = () => {
  const open = sentences.map((_, i) => i).filter((i) => !complete(answers.ranks[i]));
  if (!open.length) { write(); return; }
  byId("saved").hidden = true;
  byId("open").replaceChildren(...open.map((i) => {
    const item = document.createElement("li"), link = document.createElement("a");
    link.href = "#" + sentences[i].id;
    link.textContent = `Sentence ${i + 1}`;
    item.append(link);
    return item;
  }));
  byId("ask").hidden = false;
  byId("ask").focus();
};
const again = () => {
  if (!confirm("Take all answers off this page? Save them first if they are needed.")) return;
  answers = fresh();
  change();
  unsaved = false;
  scrollTo(0, 0);
};
let answers = load() || fresh();
sentences.forEach(({choices}, i) => choices.forEach((choice, j) => choice.addEventListener("change", (event) => {
  answers.ranks[i][j] = Number(event.target.value);
  change();
})));
byId("name").addEventListener("input", (event) => { answers.name = event.target.value; change(); });
byId("save").addEventListener("click", save);
byId("anyway").addEventListener("click", write);
byId("again").addEventListener("click", again);
form.addEventListener("submit", (event) => event.preventDefault());
// The same page in another tab: both show the same answers.
addEventListener("storage", (event) => { if (event.key === slot) { answers = load() || fresh(); show(); } });
addEventListener("beforeunload", (event) => { if (unsaved && !stored) event.preventDefault(); });
store();
show();
form.hidden = false;
byId("bar").hidden = false;
})();
