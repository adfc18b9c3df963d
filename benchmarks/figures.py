"""Do the numbers in the README and the guides stand in the committed results?

Each line below is a part of a page, with its numbers as places in a file of results. The script writes the numbers in
and looks for the line in the page. It also looks for measured numbers in these pages that no line accounts for.

    python -m benchmarks.figures         # names each line that a page lacks; exit status 1 if there is one
    python -m benchmarks.figures --tiny  # the same
"""

import argparse
import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
RESULTS: Final = Path(__file__).parent / "results"

# {file|key|...|format}: a number of results/file.json, as Python formats it. A factor or a divisor may stand before the
# format: 100*.0f, 1/.0f; "a ÷ b" divides one place by another. "method@baseline" is a row of a list.
LINES: Final[dict[str, tuple[str, ...]]] = {
    "README.md": (
        "the median delta is {Q|greedy|headline|gausslegendre (default), n=50|delta_percent_median|.2f} % (greedy) and "
        "{Q|maxcount|headline|gausslegendre (default), n=50|delta_percent_median|.2f} % (maxcount)",
        "with its 31 gradients gives {Q|greedy|headline|left, knots (paper), n=31|delta_percent_median|.0f} % and "
        "{Q|maxcount|headline|left, knots (paper), n=31|delta_percent_median|.0f} %",
        "Once its words are ranked, a path takes {end_to_end|long_texts|path_share_percent|.0f} % of the time of its "
        "gradients",
        "The default is better than the straight line in {T|better|.0f} of 20 tests on five models, and worse in "
        "{T|worse|.0f} ",
    ),
    "docs/how-to/choose.md": (
        "That held in {T|better|.0f} of 20 tests on five models, and the opposite in {T|worse|.0f}.",
        "of the label by {B|default@pad|log_odds|mean|-1*.2f} with these scores, and by "
        "{B|integrated_gradients@pad|log_odds|mean|-1*.2f} with those of the straight line",
        "leaving words out one by one does better: {L|leave_one_out@mask|log_odds|mean|-1*.2f}, where the default "
        "has {L|default@mask|log_odds|mean|-1*.2f}",
    ),
    "docs/explanation/known-sums.md": (
        "Each was better than Integrated Gradients in {T|better|.0f} of 20 tests, and in {H|better|.0f} with half of "
        "the gradients.",
        "On texts it was worse than Integrated Gradients in {I|worse|.0f} of 20 tests",
    ),
    "docs/how-to/fast.md": (
        "A path through words costs about {end_to_end|long_texts|path_share_percent|.0f} % of that",
        "20 tokens and 50 steps took {end_to_end-h200|time|ratio|.1f} times as long as Captum's straight line",
        "HNSW found {V|bert-sst2|hnsw|recall|100*.0f} % of the neighbours. An IVF index found "
        "{V|bert-sst2|ivf|recall|100*.0f} %, although it found nearly all in random rows",
        "two workers explain {W|workers: 2|texts_per_second ÷ W|workers: 1|texts_per_second|.2f} times the texts of "
        "one",
    ),
    "benchmarks/README.md": (
        "| {path_speed|greedy|warm_ms|.1f} ms, {path_speed|greedy|warm_ms ÷ path_speed|gradients|captum_s|0.1*.1f} % "
        "of the time of 50 gradients |",
        "| {path_speed|greedy|cold_s|.2f} s greedy, {path_speed|maxcount|cold_s|.2f} s maxcount; the loop takes "
        "{path_speed|greedy|loop_s|.1f} s and {path_speed|maxcount|loop_s|.1f} s |",
        "| {path_speed|greedy|table_s|.1f} s greedy, {path_speed|maxcount|table_s|.1f} s maxcount; at most "
        "{path_speed|greedy|process_peak_gb|.2f} GB; file {path_speed|greedy|table_file_mb|.2f} MB |",
        "| {end_to_end|time|ratio|.2f} times its time |",
        "| {end_to_end|memory|captum_dig|n=50 ÷ end_to_end|memory|captum|n=50|.2f} times with 50 steps, "
        "{end_to_end|memory|captum_dig|n=500 ÷ end_to_end|memory|captum|n=500|.2f} times with 500 |",
        "| staggered, 4 orders: {P|wide|time_ratio|staggered, 4 orders|.2f} times its time, "
        "{P|wide|memory_ratio|staggered, 4 orders|.2f} times its memory over the model; 24 orders "
        "{P|wide|time_ratio|staggered, 24 orders|.2f} and {P|wide|memory_ratio|staggered, 24 orders|.2f}; greedy "
        "{P|wide|time_ratio|greedy|.2f} and {P|wide|memory_ratio|greedy|.2f}, with shared rows "
        "{P|wide|time_ratio|greedy, rows shared|.2f} and {P|wide|memory_ratio|greedy, rows shared|.2f}; straight line "
        "{P|wide|time_ratio|straight line|.2f} and {P|wide|memory_ratio|straight line|.2f} |",
        "| staggered, 4 orders: {P|long|time_ratio|staggered, 4 orders|.2f} times its time, "
        "{P|long|memory_ratio|staggered, 4 orders|.2f} times its memory over the model; 24 orders "
        "{P|long|time_ratio|staggered, 24 orders|.2f} and {P|long|memory_ratio|staggered, 24 orders|.2f}; greedy "
        "{P|long|time_ratio|greedy|.2f} and {P|long|memory_ratio|greedy|.2f}, with shared rows "
        "{P|long|time_ratio|greedy, rows shared|.2f} and {P|long|memory_ratio|greedy, rows shared|.2f}; straight line "
        "{P|long|time_ratio|straight line|.2f} and {P|long|memory_ratio|straight line|.2f} |",
        "| staggered, 4 orders: {P|small|time_ratio|staggered, 4 orders|.2f} times its time; 24 orders "
        "{P|small|time_ratio|staggered, 24 orders|.2f}; greedy {P|small|time_ratio|greedy|.2f}; straight line "
        "{P|small|time_ratio|straight line|.2f} |",
        "| the same sums in 1/{C|captum|seconds ÷ C|whole, straight line|seconds|.0f} of its time; each token in "
        "1/{C|captum|seconds ÷ C|each token, straight line|seconds|.1f} |",
        "| a loop over Captum's class {W|captum|texts_per_second|.2f}; one `explain` for each text "
        "{W|one by one|texts_per_second|.2f}, for all {W|together|texts_per_second|.2f}; batches of 8 "
        "{W|batches of 8|texts_per_second|.2f}; half of the gradients "
        "{W|together, half of the gradients|texts_per_second|.2f}; 12 gradients "
        "{W|together, a quarter of the gradients|texts_per_second|.2f} |",
        "| one {W|workers: 1|texts_per_second|.2f}, two {W|workers: 2|texts_per_second|.2f} "
        "({W|workers: 2|texts_per_second ÷ W|workers: 1|texts_per_second|.2f} times) |",
        "| {throughput|long_table|first_tenth_rows_per_second|.0f} rows a second in the first tenth, "
        "{throughput|long_table|last_tenth_rows_per_second|.0f} in the last; "
        "{throughput|long_table|mb_more_at_the_end|.1f} MB more at the end than after the first |",
        "| in the geometric mean over numbers of gradients, paths and baselines: even nodes "
        "{M|demo|summary|known_sums|geometric_mean_of_ratios|.2f} times, adaptive nodes "
        "{M|demo|summary|adaptive|geometric_mean_of_ratios|.2f} times (demo model); "
        "{M|distilbert-sst2|summary|known_sums|geometric_mean_of_ratios|.2f} and "
        "{M|distilbert-sst2|summary|adaptive|geometric_mean_of_ratios|.2f} times (DistilBERT); "
        "{M|bert-sst2|summary|known_sums|geometric_mean_of_ratios|.2f} and "
        "{M|bert-sst2|summary|adaptive|geometric_mean_of_ratios|.2f} times (BERT, six of eight paths and baselines) |",
        "| 90th percentiles, all of these: {known_sums|summary|known_sums|geometric_mean_of_ratios_p90|.2f} and "
        "{known_sums|summary|adaptive|geometric_mean_of_ratios_p90|.2f} times |",
        "| for {M|demo|summary|known_sums|below_twice_the_estimate|100*.0f} % of sentences (demo model), "
        "{M|distilbert-sst2|summary|known_sums|below_twice_the_estimate|100*.0f} % (DistilBERT) and "
        "{M|bert-sst2|summary|known_sums|below_twice_the_estimate|100*.0f} % (BERT) |",
        "| demo model, 40 test sentences, pad and mask: {S|pad|NEW|error_median ÷ S|pad|OLD|error_median|.2f} and "
        "{S|mask|NEW|error_median ÷ S|mask|OLD|error_median|.2f} times the former default's; DistilBERT, 20: "
        "{D|pad|NEW|error_median ÷ D|pad|OLD|error_median|.2f} and "
        "{D|mask|NEW|error_median ÷ D|mask|OLD|error_median|.2f} times; BERT, 20: "
        "{E|pad|NEW|error_median ÷ E|pad|OLD|error_median|.2f} and "
        "{E|mask|NEW|error_median ÷ E|mask|OLD|error_median|.2f} times; on Rotten Tomatoes, 12: "
        "{R|pad|NEW|error_median ÷ R|pad|OLD|error_median|.2f} and "
        "{R|mask|NEW|error_median ÷ R|mask|OLD|error_median|.2f} times |",
        "| {S|pad|EXACT|error_median ÷ S|pad|OLD|error_median|.2f} and "
        "{S|mask|EXACT|error_median ÷ S|mask|OLD|error_median|.2f}; "
        "{D|pad|EXACT|error_median ÷ D|pad|OLD|error_median|.2f} and "
        "{D|mask|EXACT|error_median ÷ D|mask|OLD|error_median|.2f} times |",
        "| {S|pad|NEW|same_top_word|100*.0f} % and {S|mask|NEW|same_top_word|100*.0f} % of sentences, before "
        "{S|pad|OLD|same_top_word|100*.0f} % and {S|mask|OLD|same_top_word|100*.0f} %; "
        "{D|pad|NEW|same_top_word|100*.0f} % and {D|mask|NEW|same_top_word|100*.0f} %, before "
        "{D|pad|OLD|same_top_word|100*.0f} % and {D|mask|OLD|same_top_word|100*.0f} %; "
        "{E|pad|NEW|same_top_word|100*.0f} % and {E|mask|NEW|same_top_word|100*.0f} %, before "
        "{E|pad|OLD|same_top_word|100*.0f} % and {E|mask|OLD|same_top_word|100*.0f} %; "
        "{R|pad|NEW|same_top_word|100*.0f} % and {R|mask|NEW|same_top_word|100*.0f} %, before "
        "{R|pad|OLD|same_top_word|100*.0f} % and {R|mask|OLD|same_top_word|100*.0f} % |",
        "| {S|pad|AUTO|same_top_word|100*.0f} % and {S|mask|AUTO|same_top_word|100*.0f} %, with "
        "{S|pad|AUTO|gradients|.0f} and {S|mask|AUTO|gradients|.0f} gradients in the mean; "
        "{D|pad|AUTO|same_top_word|100*.0f} % and {D|mask|AUTO|same_top_word|100*.0f} %, with "
        "{D|pad|AUTO|gradients|.0f} and {D|mask|AUTO|gradients|.0f}; "
        "{E|pad|AUTO|same_top_word|100*.0f} % and {E|mask|AUTO|same_top_word|100*.0f} %, with "
        "{E|pad|AUTO|gradients|.0f} and {E|mask|AUTO|gradients|.0f}; "
        "{R|pad|AUTO|same_top_word|100*.0f} % and {R|mask|AUTO|same_top_word|100*.0f} %, with "
        "{R|pad|AUTO|gradients|.0f} and {R|mask|AUTO|gradients|.0f} |",
        "| staggered: {A|demo|cells|staggered|wanted_percent|1|refining|gradients|.0f} (demo model) and "
        "{A|distilbert-sst2|cells|staggered|wanted_percent|1|refining|gradients|.0f} (DistilBERT), doubling "
        "{A|demo|cells|staggered|wanted_percent|1|doubling|gradients|.0f} and "
        "{A|distilbert-sst2|cells|staggered|wanted_percent|1|doubling|gradients|.0f}; greedy: "
        "{A|demo|cells|greedy|wanted_percent|1|refining|gradients|.0f} "
        "and {A|distilbert-sst2|cells|greedy|wanted_percent|1|refining|gradients|.0f}, doubling "
        "{A|demo|cells|greedy|wanted_percent|1|doubling|gradients|.0f} and "
        "{A|distilbert-sst2|cells|greedy|wanted_percent|1|doubling|gradients|.0f} |",
        "| for {S|pad|NEW|covered|100*.0f} % and {S|mask|NEW|covered|100*.0f} % of words; "
        "{D|pad|NEW|covered|100*.0f} % and {D|mask|NEW|covered|100*.0f} %; "
        "{E|pad|NEW|covered|100*.0f} % and {E|mask|NEW|covered|100*.0f} %; "
        "{R|pad|NEW|covered|100*.0f} % and {R|mask|NEW|covered|100*.0f} % |",
        "| {end_to_end|long_texts|path_share_percent|.1f} % of the time of Captum's attribution, rows ranked; "
        "{end_to_end|long_texts|path_share_cold_percent|.0f} % the first time |",
        "| {V|128,256 x 2,048|flat|cold_s|.1f} s exact; HNSW {V|128,256 x 2,048|hnsw|cold_s|.1f} s (recall "
        "{V|128,256 x 2,048|hnsw|recall|.3f}), IVF {V|128,256 x 2,048|ivf|cold_s|.1f} s "
        "({V|128,256 x 2,048|ivf|recall|.4f}); FAISS's exact index {V|128,256 x 2,048|faiss flat|cold_s|.1f} s, the "
        "loop {V|128,256 x 2,048|flat|loop_s_per_word|.0f} s for each word |",
        "| {V|256,000 x 1,152|flat|cold_s|.1f} s exact; HNSW {V|256,000 x 1,152|hnsw|cold_s|.1f} s "
        "({V|256,000 x 1,152|hnsw|recall|.3f}), IVF {V|256,000 x 1,152|ivf|cold_s|.1f} s "
        "({V|256,000 x 1,152|ivf|recall|.3f}); FAISS's exact index {V|256,000 x 1,152|faiss flat|cold_s|.1f} s |",
        "| better in {T|better|.0f} of 20 tests (five models, two baselines, two measures), worse in {T|worse|.0f}; "
        "with half of the gradients better in {H|better|.0f}, worse in {H|worse|.0f}; with 24 gradients "
        "against the former default with 48 better in {F|better|.0f}, worse in {F|worse|.0f} |",
        "| log-odds (lower is better): {K|captum_dig, default|log_odds|mean|.2f}; Captum "
        "{K|captum|log_odds|mean|.2f}, Transformers Interpret {K|transformers-interpret|log_odds|mean|.2f}, "
        "time_interpret {K|time_interpret|log_odds|mean|.2f}, SHAP {K|shap|log_odds|mean|.2f}; seconds "
        "{K|captum_dig, default|seconds|.2f}, {K|captum|seconds|.2f}, {K|transformers-interpret|seconds|.2f}, "
        "{K|time_interpret|seconds|.2f}, {K|shap|seconds|.2f} |",
        "| {peers|continuation|each token, straight line|seconds|.0f} s; inseq {peers|continuation|inseq|seconds|.0f} "
        "s, Captum {peers|continuation|captum|seconds|.0f} s |",
        "| {startup|ratio|.2f} times; a first sign after {startup|seconds|first sign|.1f} s |",
        "| {import_time|seconds|captum_dig|.2f} s; with the attribution classes and a path "
        "{import_time|seconds|path|.2f} s, where `captum.attr` alone takes {import_time|seconds|captum.attr|.2f} s |",
        "| median delta {Q|greedy|headline|gausslegendre (default), n=50|delta_percent_median|.2f} % (greedy), "
        "{Q|maxcount|headline|gausslegendre (default), n=50|delta_percent_median|.2f} % (maxcount) with 50 gradients |",
        "| {train_demo|accuracy|test|100*.1f} % of SST-2's test split |",
        "20 tokens and 50 steps took {end_to_end-h200|time|ratio|.1f} times Captum's "
        "{end_to_end-h200|time|captum|1000*.0f} ms, and the path of 8 texts of 512 words "
        "{end_to_end-h200|long_texts|path_share_percent|.0f} % of {end_to_end-h200|long_texts|captum_s|.1f} s",
        "8 × 512 different words take {end_to_end|long_texts|path_cold_s|.0f} s",
        "HNSW finds {V|bert-sst2|hnsw|recall|100*.0f} % of the 500 nearest rows, and IVF with the same parameters "
        "{V|bert-sst2|ivf|recall|100*.0f} %",
    ),
}
# Short names of the places above.
SHORT: Final = {
    "Q": "quadrature-distilbert-sst2|strategies",
    "V": "large_vocabulary|sizes",
    "W": "throughput|ways",
    "P": "end_to_end-paths|paths",
    "C": "continuation|runs",
    "S": "steadiness|models|demo|baselines",
    "D": "steadiness|models|distilbert-sst2|baselines",
    "E": "steadiness|models|bert-sst2|baselines",
    "R": "steadiness|models|bert-rotten-tomatoes|baselines",
    "M": "known_sums|models",
    "A": "stopping|models",
    "T": "paths/default|verdicts|default against integrated_gradients",
    "H": "paths/default|verdicts|default_half against integrated_gradients",
    "F": "paths/default|verdicts|default_half against former",
    "I": "paths/default|verdicts|idgi against integrated_gradients",
    "B": "paths/default|cells|bert-sst2|rows",
    "L": "paths/default|cells|distilbert-sst2|rows",
    "K": "peers|classifier",
    "NEW": "12 orders, known_sums, width 0.3, line 0.5",
    "EXACT": "12 orders, known_sums, width 0.3, line 0.5, 336 gradients",
    "OLD": "4 orders, gausslegendre, width 0.5, independent starts",
    "AUTO": "n_steps='auto'",
}
# Numbers with a unit that are no measurements, as patterns.
KNOWN: Final = (
    r"95 % (?:bootstrap )?intervals?",
    r"Above 80 %",
    r"above 80 %",
    r"`(?:tolerance|spread)_percent`, \d+ %",
    r"within 10 %; 50 MB",
    r"\| [^|]* \|$",  # the last column of a table: the aim
    r"the first 200 texts",
    r"On 200 SST-2 sentences",
)
MEASURED: Final = re.compile(r"(?<![\w.`/-])\d[\d.,]*\s?(?:%|times\b|ms\b|s\b(?! \+)|MB\b|GB\b|rows a second)")
SCANNED: Final = (
    "README.md",
    "docs/index.md",
    "docs/getting-started.md",
    "docs/how-to/choose.md",
    "docs/how-to/fast.md",
)


@cache
def result(name: str) -> Any:
    """Read a file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def value(place: str) -> float:
    """Look up a number."""
    keys = [key for part in place.split("|") for key in SHORT.get(part, part).split("|")]
    found = result(keys[0])
    for key in keys[1:]:
        if isinstance(found, list):
            method, _, baseline = key.partition("@")
            found = next(row for row in found if (row["method"], row["baseline"]) == (method, baseline))
        else:
            found = found[key]
    return float(found)


def written(place: str) -> str:
    """Write the number of a place."""
    where, _, shape = place.rpartition("|")
    factor, _, digits = shape.rpartition("*")
    one, _, other = where.partition(" ÷ ")
    number = value(one) / (value(other) if other else 1.0) * float(factor or 1)
    return format(number, digits)


def told(line: str) -> str:
    """Write the numbers of a line in."""
    return re.sub(r"\{([^}]*)\}", lambda match: written(match[1]), line)


def problems() -> list[str]:
    """Name the lines that pages lack, and the numbers that no line accounts for."""
    found = []
    for page, lines in LINES.items():
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        found += [f"{page} must say: {told(line)}" for line in lines if " ".join(told(line).split()) not in text]
    for page in SCANNED:
        text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
        text = re.sub("|".join(KNOWN), "", " ".join(text.split()))
        for line in LINES.get(page, ()):
            text = text.replace(" ".join(told(line).split()), "")
        found += [
            f"{page}: no result for {match[0]!r}, {text[max(0, match.start() - 60) : match.end() + 20]!r}"
            for match in MEASURED.finditer(text)
        ]
    return found


def main() -> None:
    """Print the problems."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="changes nothing")
    parser.parse_args()
    found = problems()
    print("\n".join(found) or f"{sum(map(len, LINES.values()))} lines agree with the results")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
