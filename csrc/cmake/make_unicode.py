"""Writes the Unicode tables of the tokenizers as C, from the database of this Python.

    python make_unicode.py OUT.inc.h

Properties that Python's database lacks stand here as lists: they are those of Unicode 17.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

# The order of ETI_UNICODE_CATEGORY_LIST.
CATEGORY_NAMES = (
    "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn"
)
CATEGORIES = CATEGORY_NAMES.split()
CODE_POINTS = range(0x110000)
PAGE = 256
MAPPED_PAGES = 0x300  # code points that are mapped to others are below MAPPED_PAGES * PAGE

# Normal forms in the order of eti_normal_form, each with the one that it composes.
Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
FORMS: tuple[tuple[Form, Form], ...] = (
    ("NFC", "NFD"),
    ("NFD", "NFD"),
    ("NFKC", "NFKD"),
    ("NFKD", "NFKD"),
)
# Bits of eti_unicode_flag behind those of the forms.
SECOND, CANONICAL, COMPATIBLE, LOWER, NONSPACING, MARK, UNCLEAN, SPACE, HAN, GRAPHEME = (
    1 << bit for bit in range(4, 14)
)

# Values of eti_grapheme.
GRAPHEMES = (
    "OTHER CR LF CONTROL EXTEND ZWJ SPACING PREPEND L V T LV LVT PICTOGRAPH CONSONANT LINKER"
)

# Ranges that BERT's normalizer calls Chinese. U+2B820 to U+2B91F are not among them.
HAN_RANGES = (
    "3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B73F 2B740-2B81F 2B920-2CEAF 2F800-2FA1F"
)

# Grapheme_Cluster_Break, where it does not follow from the category.
GRAPHEME_CONTROL = "2065 FFF0-FFF8 E0000 E0002-E001F E0080-E00FF E01F0-E0FFF"
GRAPHEME_EXTEND = (
    "9BE 9D7 B3E B57 BBE BD7 CC0 CC2 CC7-CC8 CCA-CCB CD5-CD6 D3E D57 DCF DDF 1715 1734 1B35 1B3B "
    "1B3D 1B43-1B44 1BAA 1BF2-1BF3 200C 302E-302F A953 A9C0 FF9E-FF9F 111C0 11235 1133E 1134D "
    "11357 113B8 113C2 113C5 113C7-113C9 113CF 114B0 114BD 115AF 116B6 11930 1193D 11F41 "
    "16FF0-16FF1 1D165-1D166 1D16D-1D172 1F3FB-1F3FF E0020-E007F"
)
GRAPHEME_SPACING = "E33 EB3 1171E"
NOT_SPACING = (
    "102B-102C 1038 1062-1064 1067-106D 1083 1087-108C 108F 109A-109C 1A61 1A63-1A64 AA7B AA7D "
    "11720-11721"
)
GRAPHEME_PREPEND = (
    "600-605 6DD 70F 890-891 8E2 D4E 110BD 110CD 111C2-111C3 113D1 1193F 11941 11A84-11A89 11D46 "
    "11F02"
)
HANGUL_L, HANGUL_V, HANGUL_T = (
    "1100-115F A960-A97C",
    "1160-11A7 D7B0-D7C6 16D63 16D67-16D6A",
    "11A8-11FF D7CB-D7FB",
)
# Extended_Pictographic, and Indic_Conjunct_Break.
PICTOGRAPHS = (
    "A9 AE 203C 2049 2122 2139 2194-2199 21A9-21AA 231A-231B 2328 23CF 23E9-23F3 23F8-23FA 24C2 "
    "25AA-25AB 25B6 25C0 25FB-25FE 2600-2604 260E 2611 2614-2615 2618 261D 2620 2622-2623 2626 "
    "262A 262E-262F 2638-263A 2640 2642 2648-2653 265F-2660 2663 2665-2666 2668 267B 267E-267F "
    "2692-2697 2699 269B-269C 26A0-26A1 26A7 26AA-26AB 26B0-26B1 26BD-26BE 26C4-26C5 26C8 "
    "26CE-26CF 26D1 26D3-26D4 26E9-26EA 26F0-26F5 26F7-26FA 26FD 2702 2705 2708-270D 270F 2712 "
    "2714 2716 271D 2721 2728 2733-2734 2744 2747 274C 274E 2753-2755 2757 2763-2764 2795-2797 "
    "27A1 27B0 27BF 2934-2935 2B05-2B07 2B1B-2B1C 2B50 2B55 3030 303D 3297 3299 1F004 1F02C-1F02F "
    "1F094-1F09F 1F0AF-1F0B0 1F0C0 1F0CF-1F0D0 1F0F6-1F0FF 1F170-1F171 1F17E-1F17F 1F18E "
    "1F191-1F19A 1F1AE-1F1E5 1F201-1F20F 1F21A 1F22F 1F232-1F23A 1F23C-1F23F 1F249-1F25F "
    "1F266-1F321 1F324-1F393 1F396-1F397 1F399-1F39B 1F39E-1F3F0 1F3F3-1F3F5 1F3F7-1F3FA "
    "1F400-1F4FD 1F4FF-1F53D 1F549-1F54E 1F550-1F567 1F56F-1F570 1F573-1F57A 1F587 1F58A-1F58D "
    "1F590 1F595-1F596 1F5A4-1F5A5 1F5A8 1F5B1-1F5B2 1F5BC 1F5C2-1F5C4 1F5D1-1F5D3 1F5DC-1F5DE "
    "1F5E1 1F5E3 1F5E8 1F5EF 1F5F3 1F5FA-1F64F 1F680-1F6C5 1F6CB-1F6D2 1F6D5-1F6E5 1F6E9 "
    "1F6EB-1F6F0 1F6F3-1F6FF 1F7DA-1F7FF 1F80C-1F80F 1F848-1F84F 1F85A-1F85F 1F888-1F88F "
    "1F8AE-1F8AF 1F8BC-1F8BF 1F8C2-1F8CF 1F8D9-1F8FF 1F90C-1F93A 1F93C-1F945 1F947-1F9FF "
    "1FA58-1FA5F 1FA6E-1FAFF 1FC00-1FFFD"
)
CONJUNCT_LINKERS = (
    "94D 9CD ACD B4D C4D D4D 1039 17D2 1A60 1B44 1BAB A9C0 AAF6 10A3F 11133 113D0 1193E 11A47 "
    "11A99 11F42"
)
CONJUNCT_CONSONANTS = (
    "915-939 958-95F 978-97F 995-9A8 9AA-9B0 9B2 9B6-9B9 9DC-9DD 9DF 9F0-9F1 A95-AA8 AAA-AB0 "
    "AB2-AB3 AB5-AB9 AF9 B15-B28 B2A-B30 B32-B33 B35-B39 B5C-B5D B5F B71 C15-C28 C2A-C39 C58-C5A "
    "D15-D3A 1000-102A 103F 1050-1055 105A-105D 1061 1065-1066 106E-1070 1075-1081 108E 1780-17B3 "
    "1A20-1A54 1B0B-1B0C 1B13-1B33 1B45-1B4C 1B83-1BA0 1BAE-1BAF 1BBB-1BBD A989-A98B A98F-A9B2 "
    "A9E0-A9E4 A9E7-A9EF A9FA-A9FE AA60-AA6F AA71-AA73 AA7A AA7E-AA7F AAE0-AAEA ABC0-ABDA 10A00 "
    "10A10-10A13 10A15-10A17 10A19-10A35 11103-11126 11144 11147 11380-11389 1138B 1138E "
    "11390-113B5 11900-11906 11909 1190C-11913 11915-11916 11918-1192F 11A00 11A0B-11A32 11A50 "
    "11A5C-11A83 11F04-11F10 11F12-11F33"
)


def members(ranges: str) -> Iterator[int]:
    """The code points of "41-5A 5F"."""
    for part in ranges.split():
        first, _, last = part.partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)


def category_runs() -> Iterator[int]:
    """first << 8 | category, of code points that follow each other and have one category."""
    before = None
    for code_point in CODE_POINTS:
        category = unicodedata.category(chr(code_point))
        if category != before:
            yield code_point << 8 | CATEGORIES.index(category)
        before = category


# ---- mappings


def is_hangul_syllable(code_point: int) -> bool:
    return 0xAC00 <= code_point < 0xD7A4


def mappings() -> tuple[dict[int, str], dict[int, str], dict[int, str]]:
    """Full decompositions, canonical ones and those that differ from them, and lower cases.

    Hangul syllables are decomposed by arithmetic.
    """
    canonical, compatible, lower = dict[int, str](), dict[int, str](), dict[int, str]()
    for code_point in range(MAPPED_PAGES * PAGE):
        c = chr(code_point)
        nfd, nfkd = unicodedata.normalize("NFD", c), unicodedata.normalize("NFKD", c)
        if nfd != c and not is_hangul_syllable(code_point):
            canonical[code_point] = nfd
        if nfkd != nfd:
            compatible[code_point] = nfkd
        if c.lower() != c:
            lower[code_point] = c.lower()
    return canonical, compatible, lower


def compositions(canonical: Iterable[int]) -> list[tuple[int, int, int]]:
    """(first, second, composite) in their order, without Hangul."""
    pairs = []
    for code_point in canonical:
        c = chr(code_point)
        parts = [int(part, 16) for part in unicodedata.decomposition(c).split()]
        if len(parts) == 2 and unicodedata.normalize("NFC", c) == c:
            pairs.append((parts[0], parts[1], code_point))
    return sorted(pairs)


# ---- properties


def graphemes() -> bytearray:
    """The number in GRAPHEMES of each code point."""
    number = {name: i for i, name in enumerate(GRAPHEMES.split())}
    of_category = dict.fromkeys(("Cc", "Cf", "Zl", "Zp"), number["CONTROL"])
    of_category |= {"Mn": number["EXTEND"], "Me": number["EXTEND"], "Mc": number["SPACING"]}
    found = bytearray(of_category.get(unicodedata.category(chr(c)), 0) for c in CODE_POINTS)
    for name, ranges in (
        ("OTHER", NOT_SPACING),
        ("CONTROL", GRAPHEME_CONTROL),
        ("EXTEND", GRAPHEME_EXTEND),
        ("SPACING", GRAPHEME_SPACING),
        ("PREPEND", GRAPHEME_PREPEND),
        ("L", HANGUL_L),
        ("V", HANGUL_V),
        ("T", HANGUL_T),
        ("LVT", "AC00-D7A3"),
        ("PICTOGRAPH", PICTOGRAPHS),
        ("CONSONANT", CONJUNCT_CONSONANTS),
        ("LINKER", CONJUNCT_LINKERS),
        ("CR", "D"),
        ("LF", "A"),
        ("ZWJ", "200D"),
    ):
        for code_point in members(ranges):
            found[code_point] = number[name]
    for code_point in range(0xAC00, 0xD7A4, 28):
        found[code_point] = number["LV"]
    return found


def seconds(pairs: Iterable[tuple[int, int, int]]) -> set[int]:
    """Code points that some code point before them may be composed with."""
    jamo = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    return {second for _, second, _ in pairs} | jamo


def form_flags(c: str, second: set[int]) -> int:
    """The bits of the forms in which the text around c may change.

    Composing forms leave a code point alone if it is composed, begins with a starter, and its first
    part is no second one.
    """
    found = 0
    for bit, (form, decomposed) in enumerate(FORMS):
        parts = unicodedata.normalize(decomposed, c)
        changes = unicodedata.normalize(form, c) != c
        if form != decomposed:
            changes |= ord(parts[0]) in second
        if changes or unicodedata.combining(parts[0]):
            found |= 1 << bit
    return found


def flags_of_all(
    tables: tuple[Mapping[int, str], Mapping[int, str], Mapping[int, str]],
    pairs: Iterable[tuple[int, int, int]],
    grapheme: bytes,
) -> list[int]:
    """eti_unicode_flag of each code point."""
    second = seconds(pairs)
    of_category = {"Mn": NONSPACING | MARK, "Mc": MARK, "Me": MARK}
    of_category |= {"Zs": SPACE, "Zl": SPACE, "Zp": SPACE}
    of_category |= dict.fromkeys(("Cc", "Cf", "Cs", "Co"), UNCLEAN)
    found = []
    for code_point in CODE_POINTS:
        category = unicodedata.category(chr(code_point))
        flags = of_category.get(category, 0) | (GRAPHEME if grapheme[code_point] else 0)
        if category not in ("Cn", "Co"):
            flags |= form_flags(chr(code_point), second)
        found.append(flags)
    for table, bit in zip(tables, (CANONICAL, COMPATIBLE, LOWER), strict=True):
        for code_point in table:
            found[code_point] |= bit
    for code_points, bit in (
        (second, SECOND),
        (members(HAN_RANGES), HAN),
        ((0xFFFD,), UNCLEAN),
        (members("9-D 85"), SPACE),
    ):
        for code_point in code_points:
            found[code_point] |= bit
    return found


# ---- C


def array(name: str, type_: str, values: Iterable[int]) -> str:
    numbers = [f"0x{value:X}" for value in values]
    lines = [", ".join(numbers[i : i + 10]) for i in range(0, len(numbers), 10)]
    return f"const {type_} {name}[{len(numbers)}] = {{\n" + ",\n".join(lines) + "};\n"


def property_arrays(flags: list[int], grapheme: bytes) -> str:
    """Classes of code points with equal properties, and pages of classes; equal ones once."""
    classes = dict[tuple[int, int, int], int]()
    pages = dict[bytes, int]()
    page_of, page_flags = [], []
    for first in range(0, len(CODE_POINTS), PAGE):
        page = bytearray()
        united = 0
        for code_point in range(first, first + PAGE):
            combining = unicodedata.combining(chr(code_point))
            key = (flags[code_point], combining, grapheme[code_point])
            page.append(classes.setdefault(key, len(classes)))
            united |= flags[code_point]
        page_of.append(pages.setdefault(bytes(page), len(pages)))
        page_flags.append(united)
    values = ", ".join(f"{{0x{flags:X}, {ccc}, {cluster}}}" for flags, ccc, cluster in classes)
    return (
        f"const eti_unicode_class eti_unicode_classes[{len(classes)}] = {{{values}}};\n"
        + array("eti_unicode_page_of", "uint16_t", page_of)
        + array("eti_unicode_page_flags", "uint16_t", page_flags)
        + array("eti_unicode_pages", "uint8_t", b"".join(pages))
    )


def mapping_arrays(name: str, table: Mapping[int, str]) -> str:
    """The sorted keys of a mapping, its values, and where those of each key and page begin."""
    keys, begins, values = list[int](), list[int](), list[int]()
    page_begins = [0] * (MAPPED_PAGES + 1)
    for code_point, value in sorted(table.items()):
        keys.append(code_point)
        begins.append(len(values))
        values += map(ord, value)
        page_begins[code_point // PAGE + 1] += 1
    for page in range(MAPPED_PAGES):
        page_begins[page + 1] += page_begins[page]
    parts = {
        "keys": ("uint32_t", keys),
        "begins": ("uint16_t", [*begins, len(values)]),
        "values": ("uint32_t", values),
        "page_begins": ("uint16_t", page_begins),
    }
    return (
        "".join(
            "static " + array(f"{name}_{part}", type_, numbers)
            for part, (type_, numbers) in parts.items()
        )
        + f"const eti_unicode_mapping eti_unicode_{name} = {{"
        + ", ".join(f"{name}_{part}" for part in parts)
        + "};\n"
    )


def composition_array(pairs: list[tuple[int, int, int]]) -> str:
    values = ",\n".join(
        f"{{0x{first:X}, 0x{second:X}, 0x{composite:X}}}" for first, second, composite in pairs
    )
    return (
        f"const size_t eti_n_unicode_compositions = {len(pairs)};\n"
        f"const eti_unicode_composition eti_unicode_compositions[{len(pairs)}] = {{\n{values}}};\n"
    )


def main(path: str) -> None:
    runs = list(category_runs())
    canonical, compatible, lower = tables = mappings()
    pairs = compositions(canonical)
    grapheme = bytes(graphemes())
    Path(path).write_text(
        "// Made by make_unicode.py.\n"
        f'const char eti_unicode_version[] = "{unicodedata.unidata_version}";\n'
        f"const size_t eti_n_unicode_runs = {len(runs)};\n"
        + array("eti_unicode_runs", "uint32_t", runs)
        + property_arrays(flags_of_all(tables, pairs, grapheme), grapheme)
        + mapping_arrays("canonical", canonical)
        + mapping_arrays("compatible", compatible)
        + mapping_arrays("lower", lower)
        + composition_array(pairs)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
