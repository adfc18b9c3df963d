"""Random texts of mixed scripts: words, grapheme clusters, marks out of place, white space of all kinds."""

from hypothesis import strategies as st

from tests.kinds import CORPUS

WORDS = sorted({word for line in CORPUS for word in line.split()})
CLUSTERS = [
    *["e\u0301", "cafe\u0301", "n\u0303", "ハ\u3099", "좋다", "\u1112\u1161\u11ab", "\u1100\u1161"],
    *["नमस्ते", "क्षि", "தமிழ்", "বাংলা", "กำ", "เรื่อง", "တာ", "ရုပ်ရှင်", "ភាពយន្ត", "ຮູບເງົາ"],
    *["عَرَبِيٌّ", "می\u200cخواهم", "שָׁלוֹם", "\u0600123", "ﷺ", "ﬁ", "½", "①", "ＡＢ", "ｶﾞ", "\u0130", "ß", "ǆ"],
    *[
        "❤\ufe0f",
        "1\ufe0f\u20e3",
        "#\ufe0f\u20e3",
        "👨\u200d👩\u200d👧",
        "🇩🇪🇫🇷",
        "🇩",
        "👍🏽",
        "🏴\U000e0067\U000e0062\U000e007f",
    ],
    *[
        "葛\U000e0100",
        "々",
        "ー",
        "。",
        "「",
        "·",
        "▁",
        "##",
        "@@",
        "</w>",
        "co\u00adop",
        "a\u200bb",
        "\ufeff",
        "\u200f",
    ],
]
SINGLE = st.one_of(
    st.characters(codec="utf-8"),
    st.characters(categories=["Mn", "Mc", "Me"]),
    st.characters(categories=["Cf", "Cc", "Co"]),
    st.characters(min_codepoint=0x3040, max_codepoint=0x9FFF),
    st.characters(min_codepoint=0x0590, max_codepoint=0x109F),
    st.characters(min_codepoint=0x1F1E6, max_codepoint=0x1FAFF),
    st.characters(min_codepoint=0x20, max_codepoint=0x7E),
)
SPACE = st.sampled_from([" ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u3000", "\u2028", " \u0301", "\x1c", "\x85"])
PIECE = st.one_of(st.sampled_from(WORDS), st.sampled_from(CLUSTERS), SINGLE, SPACE, st.just(" "))


def texts(max_pieces: int = 12, *, special: bool = False) -> st.SearchStrategy[str]:
    """Give texts of some pieces, with or without special tokens among them."""
    piece = st.one_of(PIECE, st.sampled_from(["<s>", "</s>", "<mask>", "<unk>", "<pad>"])) if special else PIECE
    return st.lists(piece, min_size=1, max_size=max_pieces).map("".join)
