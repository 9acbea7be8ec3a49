"""Normalizers of csrc/llm/text against unicodedata, from which their tables are made, and against
HF's tokenizers, whose tables are of other Unicode versions."""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
import unicodedata
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import pytest
from support.llm_charsmap import make_charsmap
from support.llm_driver import LlmError, Normalizer
from tokenizers import normalizers

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
BERT = ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")
CODE_POINTS = [chr(c) for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000]
FIRST_L, FIRST_V, BEFORE_T, FIRST_S = 0x1100, 0x1161, 0x11A7, 0xAC00
SEPARATOR = "ꙮ"  # no other code point has it in a normal form
IGNORED = "\u200d"  # a control for BERT, an extender of clusters

# Code points of which tokenizers has another opinion because its tables are older: those of normal
# forms and StripAccents are of Unicode 9, those of BertNormalizer of Unicode 8. Exact where
# unicodedata is of UNICODE.
UNICODE = "14.0.0"
NEW_COMPATIBLE = (
    "32FF A7F2-A7F4 AB69 10781-10785 10787-107B0 107B2-107BA 1F16C 1FBF0-1FBF9"  # 12 to 14
)
NEW_CANONICAL = "11938"  # 13
DIFFERENCES = {
    "NFC": "",
    "NFD": NEW_CANONICAL,
    "NFKC": NEW_COMPATIBLE,
    "NFKD": f"{NEW_COMPATIBLE} {NEW_CANONICAL}",
    "lowercase": "",
    # Marks of Unicode 10 to 14; U+1CF2 and U+1CF3 were Mc until 12.
    "strip_accents": "7FD 898-89F 8CA-8D3 9FE AFA-AFF B55 C04 C3C D00 D3B-D3C D81 EBA 1715 180F "
    "1ABF-1ACE 1CF2-1CF3 1CF7 1DF6-1DFA A82C A8FF 10D24-10D27 10EAB-10EAC 10F46-10F50 10F82-10F85 "
    "11070 11073-11074 110C2 11145-11146 111C9 111CE-111CF 1133B 1145E 1182C-1183A 11930-11935 "
    "11937-11938 1193B-1193E 11940 11942-11943 119D1-119D7 119DA-119E0 119E4 11A01-11A0A "
    "11A33-11A39 11A3B-11A3E 11A47 11A51-11A5B 11A8A-11A99 11D31-11D36 11D3A 11D3C-11D3D "
    "11D3F-11D45 11D47 11D8A-11D8E 11D90-11D91 11D93-11D97 11EF3-11EF6 16F4F 16F7F-16F87 16FE4 "
    "16FF0-16FF1 1CF00-1CF2D 1CF30-1CF46 1E130-1E136 1E2AE 1E2EC-1E2EF",
    "clean_text": "890-891 8E2 110CD 13430-13438",  # Cf of Unicode 9 to 14
    "handle_chinese_chars": "",
    # Mn of Unicode 9 to 14; U+1885, U+1886 and U+A9BD became Mn, U+1734 was Mn until 14.
    "bert_strip_accents": "7FD 898-89F 8CA-8E1 9FE AFA-AFF B55 C04 C3C D00 D3B-D3C D81 EBA 1734 "
    "180F 1885-1886 1ABF-1ACE 1DF6-1DFB A82C A8C5 A8FF A9BD 10D24-10D27 10EAB-10EAC 10F46-10F50 "
    "10F82-10F85 11070 11073-11074 110C2 111C9 111CF 1123E 1133B 11438-1143F 11442-11444 11446 "
    "1145E 1182F-11837 11839-1183A 11938 1193B-1193C 1193E 11943 119D4-119D7 119DA-119DB 119E0 "
    "11A01-11A0A 11A33-11A38 11A3B-11A3E 11A47 11A51-11A56 11A59-11A5B 11A8A-11A96 11A98-11A99 "
    "11C30-11C36 11C38-11C3D 11C3F 11C92-11CA7 11CAA-11CB0 11CB2-11CB3 11CB5-11CB6 11D31-11D36 "
    "11D3A 11D3C-11D3D 11D3F-11D45 11D47 11D90-11D91 11D95 11D97 11EF3-11EF4 16F4F 16FE4 "
    "1CF00-1CF2D 1CF30-1CF46 1E000-1E006 1E008-1E018 1E01B-1E021 1E023-1E024 1E026-1E02A "
    "1E130-1E136 1E2AE 1E2EC-1E2EF 1E944-1E94A",
}


def members(ranges: str) -> set[str]:
    found = set()
    for part in ranges.split():
        first, _, last = part.partition("-")
        found |= {chr(c) for c in range(int(first, 16), int(last or first, 16) + 1)}
    return found


def ranges(code_points: Iterable[str]) -> str:
    """The opposite of members()."""
    found = list[list[int]]()
    for c in sorted(map(ord, code_points)):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in found)


def is_assigned(c: str) -> bool:
    return unicodedata.category(c) != "Cn"


def bert(names: Iterable[str]) -> tuple[Normalizer, Callable[[str], str]]:
    """Ours and theirs."""
    options = {name: name in names for name in BERT}
    return Normalizer("bert", **options), normalizers.BertNormalizer(**options).normalize_str


PAIRS: dict[str, tuple[Normalizer, Callable[[str], str]]] = {
    form: (Normalizer(form), getattr(normalizers, form)().normalize_str) for form in FORMS
} | {
    "lowercase": (Normalizer("lowercase"), normalizers.Lowercase().normalize_str),
    "strip_accents": (Normalizer("strip_accents"), normalizers.StripAccents().normalize_str),
    "clean_text": bert(["clean_text"]),
    "handle_chinese_chars": bert(["handle_chinese_chars"]),
    "bert_strip_accents": bert(["strip_accents"]),
}


@cache
def interesting() -> tuple[str, ...]:
    """Code points that a form changes, that combine, or that are a part of others."""
    found = set()
    for c in CODE_POINTS:
        changed = "".join(unicodedata.normalize(form, c) for form in ("NFD", "NFKD"))
        if (unicodedata.combining(c) or changed != c + c) and not FIRST_S <= ord(c) < 0xD7A4:
            found |= {c, *changed}
    return tuple(sorted(found | {chr(c) for c in range(0x1100, 0x1200)} | set("aA가각힣")))


@cache
def unknown() -> frozenset[str]:
    """Code points that tokenizers knows less about than unicodedata, and their parts.

    A new combining class is found by the order with U+0334, of class 1, and U+0345, of class 240.
    """
    theirs = PAIRS["NFD"][1]
    found = set().union(*map(members, DIFFERENCES.values()))
    parts = set().union(*(unicodedata.normalize("NFKD", c) for c in found))
    found |= {c for c in parts if ord(c) >= 0x3100}
    for c in CODE_POINTS:
        if unicodedata.combining(c):
            text = f"a\u0345{c}\u0334"
            if theirs(text) != unicodedata.normalize("NFD", text):
                found.add(c)
    return frozenset(found | {c for c in CODE_POINTS if not is_assigned(c)})


def texts(pool: Iterable[str], n: int, seed: int) -> Iterator[str]:
    """Random sequences; some code points come often."""
    rng = random.Random(seed)
    several = list(pool)
    for _ in range(n):
        some = rng.choices(several, k=rng.randint(1, 6)) + rng.choices("aeAE .\n가", k=2)
        yield "".join(rng.choices(some, k=rng.randint(0, 24)))


# ---- unicodedata


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("around", ["{}", "e{}u", "\u0301{}\u0323", "\u1100{}\u11a8"])
def test_a_form_of_every_code_point_is_that_of_unicodedata(form: str, around: str) -> None:
    text = "|".join(around.format(c) for c in CODE_POINTS)
    ours = PAIRS[form][0](text).split("|")
    expected = unicodedata.normalize(form, text).split("|")
    assert [(a, b) for a, b in zip(ours, expected, strict=True) if a != b] == []


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_random_sequences_is_that_of_unicodedata(form: str) -> None:
    for text in texts(interesting(), 20_000, seed=1):
        assert PAIRS[form][0](text) == unicodedata.normalize(form, text), ascii(text)


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_random_pairs_is_that_of_unicodedata(form: str) -> None:
    rng = random.Random(2)
    several = interesting()
    text = "|".join(rng.choice(several) + rng.choice(several) for _ in range(300_000))
    assert PAIRS[form][0](text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
def test_hangul_is_composed_and_decomposed(form: str) -> None:
    vowels, trailing = range(FIRST_V - 1, FIRST_V + 22), range(BEFORE_T, BEFORE_T + 29)
    jamo = "|".join(
        chr(FIRST_L + i) + chr(v) + chr(t) for i in range(20) for v in vowels for t in trailing
    )
    syllables = "|".join(
        chr(s) + chr(t) for s in range(FIRST_S - 1, FIRST_S + 600) for t in trailing
    )
    for text in (jamo, syllables, "".join(map(chr, range(FIRST_S - 9, 0xD7B0)))):
        assert PAIRS[form][0](text) == unicodedata.normalize(form, text)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("marks", ["\u0345\u0334", "\u0344\u0315\u0f73", "\u0301", "\u0315\u0300"])
def test_many_marks_are_ordered_in_linear_time(form: str, marks: str) -> None:
    text = "e" + "".join(random.Random(3).choices(marks, k=100_000)) + "e\u0301"
    begin = time.perf_counter()
    result = PAIRS[form][0](text)
    took = time.perf_counter() - begin
    assert took < 1, f"{took} s"
    # unicodedata takes quadratic time for marks that are not in order.
    expanded = "".join(unicodedata.normalize("NFD", c) for c in text[1:-2])
    ordered = "e" + "".join(sorted(expanded, key=unicodedata.combining)) + text[-2:]
    assert result == unicodedata.normalize(form, ordered)


def test_long_runs_of_one_code_point_fit_into_the_memory() -> None:
    for form in FORMS:
        for c in (c for c in interesting() if len(unicodedata.normalize("NFKD", c)) > 1):
            for first in ("", "a", "\u0390"):
                text = first + c * 20
                assert PAIRS[form][0](text) == unicodedata.normalize(form, text), ascii(c)


@pytest.mark.parametrize("name", PAIRS)
def test_plain_text_is_recognised(name: str) -> None:
    ours = PAIRS[name][0]
    for text in ("", "plain text of ascii, 100 bytes long or more or less" * 3):
        assert ours(text) == text
        assert ours.identity
    han = "的一是了"
    ours(han)
    assert ours.identity == (name != "handle_chinese_chars")


def test_composed_text_is_recognised() -> None:
    assert PAIRS["NFC"][0]("Où est l'été? Ça, c'est tôt.") and PAIRS["NFC"][0].identity
    assert PAIRS["NFD"][0]("Où") and not PAIRS["NFD"][0].identity


# ---- tokenizers


@pytest.mark.parametrize("name", PAIRS)
def test_every_code_point_is_normalized_as_by_tokenizers(name: str) -> None:
    ours, theirs = PAIRS[name]
    several = [c for c in CODE_POINTS if c != SEPARATOR]
    for around in ("{}", "a{}b"):
        text = SEPARATOR.join(map(around.format, several))
        mine, others = ours(text).split(SEPARATOR), theirs(text).split(SEPARATOR)
        rows = zip(several, mine, others, strict=True)
        found = {c for c, x, y in rows if x != y and is_assigned(c)}
        if unicodedata.unidata_version == UNICODE:
            assert ranges(found) == ranges(members(DIFFERENCES[name]))
        else:
            assert found >= members(DIFFERENCES[name])


def pool() -> list[str]:
    """Code points of which we and tokenizers know the same, those with properties first."""
    several = [
        *interesting(),
        *members("0-33F 400-4FF 600-6FF 900-97F E00-E4F 2000-206F 3000-30FF"),
    ]
    several += [*"ÀÉİǅẞΣςⅧ\ufffd\u0085\u00ad中文字㐀豈𠀀丽", IGNORED]
    return [c for c in several if c not in unknown()]


@pytest.mark.parametrize("name", PAIRS)
def test_random_sequences_are_normalized_as_by_tokenizers(name: str) -> None:
    ours, theirs = PAIRS[name]
    for text in texts(pool(), 20_000, seed=4):
        assert ours(text) == theirs(text), ascii(text)


@pytest.mark.parametrize("bits", range(16))
def test_bert_with_all_options_is_that_of_tokenizers(bits: int) -> None:
    ours, theirs = bert([name for i, name in enumerate(BERT) if bits >> i & 1])
    for text in texts(pool(), 5_000, seed=5):
        assert ours(text) == theirs(text), ascii(text)
    text = "".join(c for c in CODE_POINTS if c not in unknown())
    assert ours(text) == theirs(text)


@pytest.mark.parametrize(("left", "right"), [*itertools.product((False, True), repeat=2)])
def test_strip_is_that_of_tokenizers(left: bool, right: bool) -> None:
    ours = Normalizer("strip", left=left, right=right)
    theirs = normalizers.Strip(left=left, right=right).normalize_str
    spaces = [c for c in CODE_POINTS if c.isspace() or c in "\u180e\u200b\ufeff"]
    for text in texts([*spaces, *"aé中"], 5_000, seed=6):
        assert ours(text) == theirs(text), ascii(text)
    for c in CODE_POINTS:
        if not c.isalnum() and is_assigned(c):
            assert ours(c + "a" + c) == theirs(c + "a" + c), ascii(c)


# ---- charsmaps


@cache
def compatibility_map() -> bytes:
    """A map like SentencePiece's nmt_nfkc: code points, composed pairs, white space."""
    rows = {c: unicodedata.normalize("NFKC", c) for c in interesting()}
    for c in interesting():
        parts = unicodedata.normalize("NFD", c)
        if len(parts) > 1 and unicodedata.normalize("NFC", parts) == c:
            rows[parts] = c
    rows |= dict.fromkeys("\t\n\r\u00a0\u2003\u3000\u200b", " ") | dict.fromkeys("\x01\x02", "")
    rows |= {"©": "(c)", "❤": "<3", "\uff21": "A", "क": "K"}
    return make_charsmap({key: value for key, value in rows.items() if key != value})


def precompiled(charsmap: bytes) -> tuple[Normalizer, Callable[[str], str]]:
    ours = Normalizer("charsmap", charsmap=charsmap)
    # A tokenizer, because it is what reads the text of a map.
    return ours, normalizers.Precompiled(charsmap).normalize_str


@pytest.mark.parametrize(
    "around", ["{}", "a{}", "{}a", "é{}\u0301", "{}\u0301\u0302", "q{}\u200d©\u0301"]
)
def test_a_charsmap_replaces_every_code_point_as_by_tokenizers(around: str) -> None:
    ours, theirs = precompiled(compatibility_map())
    for c in CODE_POINTS:
        if is_assigned(c) and (ord(c) < 0x3400 or c in "가각中豈" or 0xA000 <= ord(c) < 0xAC00):
            text = around.format(c)
            assert ours(text) == theirs(text), ascii(text)


def clusters(seed: int, n: int) -> Iterator[str]:
    """Random sequences of what grapheme clusters are made of."""
    parts = [
        *"aé|\r\n\x00\t ①ﬁ \uff21©®❤™😀가각",
        *"\u1100\u1161\u11a8\ud7b0\ua960\u200c\u200d\ufe0f\u20e3🇩🇪🏽",
        *"\u0301\u0302\u0327\u0345\u0600\u06dd\u0d4e\u0903\u093e\u094d\u09be\u09cd\u0e33\u0eb3",
        *"\u0915\u0958\u0995\u09dc\u1780\u17d2\u1000\u1039\u1a60\u1a20\u302e\u1031\u102b\u1037",
        *"\U0001d165\U000110bd\U000111c2\U0001193e\U00011900\u200b\u2028\u00ad\ufeff",
    ]
    rng = random.Random(seed)
    for _ in range(n):
        yield "".join(rng.choices(parts, k=rng.randint(1, 9)))


def test_a_charsmap_replaces_clusters_as_by_tokenizers() -> None:
    ours, theirs = precompiled(compatibility_map())
    for text in clusters(7, 60_000):
        assert ours(text) == theirs(text), ascii(text)


def test_all_clusters_are_those_of_tokenizers() -> None:
    """Every part of clusters is replaced, so that the result shows where a cluster ends."""
    parts = {c for text in clusters(8, 2_000) for c in text} - {"\0"}
    rows = {c: f"<{ord(c):x}>" for c in sorted(parts)}
    ours, theirs = precompiled(make_charsmap(rows))
    for text in clusters(9, 60_000):
        assert ours(text) == theirs(text), ascii(text)


def test_the_shortest_prefix_of_a_cluster_is_replaced() -> None:
    ours, theirs = precompiled(
        make_charsmap({"a": "X", "a\u0301": "Y", "e\u0301": "Z", "\r": "", "": "?"})
    )
    for text, expected in (
        ("a\u0301", "X"),
        ("e\u0301", "Z"),
        ("e\u0301\u0302", "Z"),
        ("e\u0301\u0302\u0302", "e\u0301\u0302\u0302"),
        ("a\u0302\u0302\u0302", "X\u0302\u0302\u0302"),
        ("\r\n", ""),
        ("a\0a", "X\0X"),
    ):
        assert ours(text) == theirs(text) == expected, ascii(text)


def test_a_damaged_charsmap_is_refused_or_gives_text() -> None:
    good = make_charsmap({"a": "XYZ", "ab": "é", "①": "1", "é": "eee"})
    rng = random.Random(10)
    refused = 0
    for _ in range(3_000):
        bad = bytearray(good)
        for _ in range(rng.randint(1, 8)):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        cut = bytes(bad[: rng.choice((len(bad), rng.randrange(len(bad))))])
        try:
            Normalizer("charsmap", charsmap=cut)("a ab abc é① a\u0301 xyz")
        except LlmError as error:
            assert "charsmap: expected" in str(error)
            refused += 1
    assert 500 < refused < 3_000


# ---- memory


@pytest.mark.parametrize("name", [*FORMS, "lowercase", "strip_accents", "bert", "charsmap"])
def test_too_little_memory_is_refused(name: str) -> None:
    charsmap = make_charsmap({"e": "X"})
    ours = Normalizer(name, charsmap=charsmap)
    text = "some text é"
    ours(text)
    for missing in range(1, len(text)):
        with pytest.raises(LlmError, match="expected"):
            ours(text, missing_out=missing)
    if name in (*FORMS, "bert"):
        with pytest.raises(LlmError, match="expected"):
            ours(text, missing_scratch=1)


def test_a_charsmap_is_read_from_a_tokenizer_as_it_is() -> None:
    """The text of tokenizer.json is the base64 of the bytes that the C code opens."""
    state = json.loads(normalizers.Precompiled(compatibility_map()).__getstate__())
    assert state["precompiled_charsmap"] == b64encode(compatibility_map()).decode()
