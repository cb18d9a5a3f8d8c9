"""Names with their placement, as test data for programs in other languages: `docs/placement-conformance.csv`.

A line is `name,a,b,c,shard,path`, without quotation marks, since no name contains a comma. The first line names the columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoal.core.placement import media_path, place

NAMES = (
    "",
    "a",
    "z",
    "0",
    "_",
    "ann",
    "bob",
    "frunk",
    "frank",
    "Ann",
    "FRUNK",
    "FrUnK",
    "user_name",
    "__init__",
    "0123456789",
    "007",
    "a_very_long_user_name_of_30_ch",
    " leading and trailing ",
    "dots.and-dashes",
    "o'neil",
    "ann@example.org",
    "50%",
    "a/b/c",
    "émile",
    "ÉMILE",
    "straße",
    "ÅNGSTRÖM",
    "Ærøskøbing",
    "ЖЁЛТЫЙ",
    "γαλανη",
    "İstanbul",
    "ユーザー",
    "用户名",
    "이름",
    "مستخدم",
    "שלום",
    "नाम",
    "🐟",
    "👩‍👩‍👧",
    "e\u0301",
    "x" * 54,
    "x" * 55,
    "x" * 56,
    "x" * 63,
    "x" * 64,
    "x" * 65,
    "Long" * 50,
    "ключ" * 30,
)
"""Plain names, an empty name, upper and lower case, other scripts, and lengths near the MD5 block sizes (55, 56, 64 bytes).

A capital sigma at the end of a word is excluded, because its lower case depends on the adjacent letters, which not every language
implements. User names of Shoal have only 37 different characters, which do not include it.
"""

COLUMNS = "name,a,b,c,shard,path"


def conformance_lines() -> Iterator[str]:
    """Yield the lines of `docs/placement-conformance.csv`, without line breaks: a header, then one line for each name."""
    yield COLUMNS
    for name in NAMES:
        placed = place(name)
        yield f"{name},{placed.a},{placed.b},{placed.c},{placed.shard},{media_path(name)}"
