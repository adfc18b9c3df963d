"""The page on which people rank: what it looks like, and the script that keeps and saves what they choose."""

import base64
import hashlib
import math
from collections.abc import Sequence
from html import escape

from captum_dig.visualization import Scale, Segment, visible
from captum_dig.visualization.web import DARK, LIGHT

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_FAINT = 0.03  # below this strength nobody sees a colour
_SPOKEN = 10  # how many words a screen reader is told of

_STYLE = f"""
:root{{color-scheme:light dark;{"".join(f"--{name}:{color};" for name, color in LIGHT.items())}}}
@media (prefers-color-scheme:dark){{:root{{{"".join(f"--{name}:{color};" for name, color in DARK.items())}}}}}
""" + (
    """
*{box-sizing:border-box}
[hidden]{display:none!important}
html{scroll-padding:1rem 0 7rem}
body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:48rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;margin:.5rem 0 1rem}
h2{font-size:1.15rem;margin:0 0 .25rem}
article{border-top:2px solid var(--hatch);margin-top:2rem;padding-top:1.25rem}
fieldset{border:1px solid var(--hatch);border-radius:.6rem;margin:1rem 0 0;padding:.25rem 1rem .75rem;min-width:0}
fieldset.clash{border:2px dashed currentColor}
legend{font-weight:600;padding:0 .4em}
.text{font-size:1.15em;line-height:2;white-space:pre-wrap;margin:0 0 .5rem}
mark{padding:.15em 0;border-radius:.2em;color:var(--ink);background-color:var(--paper);
print-color-adjust:exact;-webkit-print-color-adjust:exact;forced-color-adjust:none}
p:not(.text) mark{padding:.15em .5em;white-space:nowrap}
.for{background-color:color-mix(in srgb,var(--positive) calc(var(--s)*100%),var(--paper))}
.against{background-color:color-mix(in srgb,var(--negative) calc(var(--s)*100%),var(--paper));
text-decoration:underline dashed 1px color-mix(in srgb,currentColor calc(var(--s)*100%),transparent);
text-underline-offset:.3em}
.broken{outline:1px dashed currentColor;outline-offset:-1px;
background-image:repeating-linear-gradient(45deg,var(--hatch) 0 .2em,var(--paper) .2em .5em)}
.ranks,.row{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem}
.ranks label{display:flex;align-items:center;gap:.5rem;min-width:3.75rem;min-height:2.75rem;padding:0 .75rem;
border:1px solid var(--hatch);border-radius:.5rem;cursor:pointer}
.ranks label:has(:checked){background:var(--hatch);border-color:currentColor;font-weight:600}
input[type=radio]{width:1.15rem;height:1.15rem;margin:0;accent-color:currentColor}
.state{min-height:1.5em;margin:.75rem 0 0}
a{color:inherit}
.unseen{position:absolute;width:1px;height:1px;margin:-1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
button,input:not([type=radio]),textarea{font:inherit;color:inherit;background:var(--paper);
border:1px solid currentColor;border-radius:.5rem;min-height:2.75rem;padding:.25rem .9rem;max-width:100%}
button{cursor:pointer}
#save{background:var(--ink);color:var(--paper)}
textarea{display:block;width:100%;height:8rem;font-family:monospace}
summary{cursor:pointer;min-height:2.75rem;padding:.6rem 0}
:focus-visible{outline:3px solid var(--negative);outline-offset:2px}
#end{border-top:2px solid var(--hatch);margin-top:2rem;padding-top:1.25rem}
#end>*{margin:0 0 1rem}
#bar{position:sticky;bottom:0;background:var(--paper);border-top:1px solid var(--hatch)}
#bar>div{max-width:48rem;margin:0 auto;padding:.6rem 1rem;justify-content:space-between}
"""
)

# It reads everything from the page's elements, so it is the same on every page and so is its hash in the policy.
_SCRIPT = r"""
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
"""

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; script-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    + "'"
)

_HEAD = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>Which explanation is best?</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>Which explanation is best?</h1>
<p>A computer program has read each sentence below and made a decision. Under each sentence stand several explanations \
of that decision: they differ only in the words that are highlighted.</p>
<p><mark class="for" style="--s:1">Red</mark> words speak for the decision, \
<mark class="against" style="--s:1">blue, dashed</mark> words speak against it. The stronger the colour, the more they \
count."""

_TAIL = f"""<div id="end">
<p><label for="name">Your name, if you like to give it</label><br>
<input id="name" type="text" autocomplete="off" maxlength="200"></p>
<div id="ask" tabindex="-1" role="group" aria-labelledby="asked" hidden>
<p id="asked">These sentences are not ranked yet, or use a rank more than once. You can go to them, or save what there \
is and go on later:</p>
<ul id="open"></ul>
<button type="button" id="anyway">Save what there is</button>
</div>
<div id="saved" tabindex="-1" role="group" aria-labelledby="done" hidden>
<p id="done">Saved as <strong>answers.json</strong>, where your browser puts downloads. Please send this file to \
whoever gave you the page.</p>
<p><label for="text">No file? Copy this text and send it instead:</label></p>
<textarea id="text" readonly spellcheck="false"></textarea>
</div>
<details><summary>Another person at the same computer?</summary>
<p>Save first. Then this takes the answers off the page, for the next person to begin:</p>
<button type="button" id="again">Start again</button>
</details>
</div>
</form>
</main>
<div id="bar" hidden><div class="row"><span id="progress" role="status"></span>
<button type="button" id="save">Save answers</button></div></div>
<script>{_SCRIPT}</script>
</body>
</html>
"""


def draw(articles: str, study: str, n_methods: int, answers_format: str, version: int) -> str:
    """Put the sentences into a page of their own, which works without anything else."""
    hatched = ' <mark class="broken">Hatched</mark> words have no valid score.' if '"broken"' in articles else ""
    return (
        f"{_HEAD}{hatched}</p>\n<p>Please rank the explanations of each sentence: <strong>1 is the most comprehensive "
        f"explanation, which best justifies the decision; {n_methods} is the one that does so least.</strong> Use "
        'every rank once in each sentence. <span id="stored">Your choices stay on this page when you close it and come '
        "back.</span></p>\n"
        '<p id="unstored" role="alert" hidden><strong>This browser does not keep your choices: save them before you '
        "close or reload this page.</strong></p>\n<noscript><p><strong>This page needs JavaScript.</strong></p>"
        f'</noscript>\n<form id="study" autocomplete="off" data-study="{study}" data-format="{answers_format}" '
        f'data-version="{version}" hidden>\n{articles}{_TAIL}'
    )


def article(index: int, total: int, decision: str, pictures: Sequence[tuple[Segment, ...]]) -> str:
    """Draw one sentence with its explanations, as they stand on the page, each with a choice of ranks."""
    number = index + 1
    explanations = (
        _explanation(f"{number}-{letter}", letter, segments, len(pictures))
        for letter, segments in zip(LETTERS, pictures, strict=False)
    )
    return (
        f'<article id="s{number}" aria-labelledby="h{number}" tabindex="-1">\n<h2 id="h{number}">Sentence {number} of '
        f"{total}</h2>\n<p>The program decided: <strong><bdi>{_escape(decision)}</bdi></strong></p>\n"
        f'{"".join(explanations)}<p class="state" role="status"></p>\n</article>\n'
    )


def _explanation(name: str, letter: str, segments: tuple[Segment, ...], n_ranks: int) -> str:
    ranks = "".join(
        f'<label><input type="radio" name="r{name}" value="{rank}" aria-label="Rank {rank}">{rank}</label>'
        for rank in range(1, n_ranks + 1)
    )
    scale = Scale.of(segment.score for segment in segments)
    # dir="auto" reads right-to-left text in its own order.
    return (
        f'<fieldset aria-describedby="d{name}">\n<legend>Explanation {letter}</legend>\n'
        f'<p class="text" dir="auto">{"".join(_mark(segment, scale) for segment in segments)}</p>\n'
        f'<p class="unseen" id="d{name}">{_spoken(segments, scale)}</p>\n'
        f'<div class="ranks"><span aria-hidden="true">best</span>{ranks}<span aria-hidden="true">worst</span></div>\n'
        "</fieldset>\n"
    )


def _mark(segment: Segment, scale: Scale) -> str:
    text = _escape(segment.text)
    if segment.score is not None and not math.isfinite(segment.score):
        return f'<mark class="broken">{text}</mark>'
    if segment.score is None or (strength := scale.strength(segment.score)) < _FAINT:
        return text
    return f'<mark class="{"for" if segment.score > 0 else "against"}" style="--s:{strength:.3f}">{text}</mark>'


def _spoken(segments: tuple[Segment, ...], scale: Scale) -> str:
    """Say in words what the colours show."""
    words = [(scale.strength(segment.score), segment) for segment in segments if segment.score is not None]
    strongest = sorted((pair for pair in words if pair[0] >= _FAINT), key=lambda pair: -pair[0])[:_SPOKEN]
    said = (
        f"<bdi>{_escape(word.text)}</bdi> {'for' if word.score and word.score > 0 else 'against'}, {strength:.0%}"
        for strength, word in strongest
    )
    return f"Highlighted, strongest first: {'; '.join(said)}." if strongest else "No word is highlighted."


def _escape(text: str) -> str:
    return escape(visible(text), quote=True)
