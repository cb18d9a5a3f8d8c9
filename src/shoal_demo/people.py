"""The people of a plan: the authors of posts (`CAST`), then generated ones, with biographies, interests, homes and looks.

A generated name is `ascii` or `ascii/display`. All names are common ones, combined at random; none refers to a real person.
"""

from __future__ import annotations

import math
import re
from random import Random
from typing import NamedTuple

from shoal.core.places import Place
from shoal_demo.model import Look, Person


class Culture(NamedTuple):
    """The names, cities and looks of people with one native language. `tones` is a range of indexes in `SKINS`.

    `wrap` is a scarf for women or a turban for men, and `wrapped` the fraction of people who wear it.
    """

    language: str
    women: str
    men: str
    families: str
    cities: tuple[tuple[str, float, float], ...]
    tones: tuple[int, int]
    wrap: str = ""
    wrapped: float = 0.0
    family_first: bool = False


CULTURES: tuple[Culture, ...] = (
    Culture(
        "en",
        "Alice Nora Harriet Imogen Tess Maeve",
        "Owen Felix Callum Rory Theo Jonah",
        "Hartley Whitlock Marsh Fenwick Doyle Ashby Calder Penrose",
        (
            ("Bristol", 51.45, -2.59),
            ("Leeds", 53.8, -1.55),
            ("Galway", 53.27, -9.05),
            ("Portland", 45.52, -122.68),
            ("Boston", 42.36, -71.06),
        ),
        (0, 2),
    ),
    Culture(
        "en",
        "Amara Zora Simone Imani Nia",
        "Marcus Darnell Elijah Andre Malik",
        "Brooks Hayes Coleman Whitaker Ellison Bell",
        (
            ("Atlanta", 33.75, -84.39),
            ("Cincinnati", 39.1, -84.51),
            ("Austin", 30.27, -97.74),
            ("Oakland", 37.8, -122.27),
            ("London", 51.51, -0.13),
        ),
        (5, 7),
    ),
    Culture(
        "es",
        "Lucia/Lucía Carmen Marisol Paula Ines/Inés Ximena",
        "Diego Mateo Alvaro/Álvaro Javier Tomas/Tomás Emilio",
        "Ortega Vidal Rios/Ríos Fuentes Navarro Salazar Montes Quiroga",
        (
            ("Sevilla", 37.39, -5.98),
            ("Oaxaca", 17.07, -96.72),
            ("Bogotá", 4.71, -74.07),
            ("Valparaíso", -33.05, -71.61),
        ),
        (1, 4),
    ),
    Culture(
        "pt",
        "Joana Beatriz Larissa Camila Ines/Inês Thais/Thaís",
        "Rafael Thiago Duarte Caio Henrique Joao/João",
        "Almeida Carvalho Nogueira Teixeira Barros Moura Azevedo",
        (("Porto", 41.15, -8.61), ("Salvador", -12.97, -38.5), ("Florianópolis", -27.6, -48.55)),
        (1, 6),
    ),
    Culture(
        "de",
        "Johanna Greta Annika Frieda Lea Katrin",
        "Jonas Moritz Lukas Anton Till Matthias",
        "Brandt Winkler Albrecht Seidel Kessler Moeller/Möller Voss Lindner",
        (("Leipzig", 51.34, 12.37), ("Hamburg", 53.55, 9.99), ("Innsbruck", 47.27, 11.39)),
        (0, 1),
    ),
    Culture(
        "fr",
        "Camille Elodie/Élodie Manon Juliette Solene/Solène",
        "Luc Antoine Bastien Remi/Rémi Mathis",
        "Lefevre/Lefèvre Girard Marchand Rousseau Perrin Delorme",
        (("Lyon", 45.76, 4.84), ("Nantes", 47.22, -1.55), ("Montréal", 45.5, -73.57)),
        (0, 3),
    ),
    Culture(
        "it",
        "Chiara Ginevra Marta Elisa",
        "Matteo Lorenzo Davide Nicolo/Nicolò",
        "Ferrari Conti Galli Moretti Rinaldi Bassi",
        (("Milano", 45.46, 9.19), ("Torino", 45.07, 7.69), ("Palermo", 38.12, 13.36)),
        (1, 3),
    ),
    Culture(
        "sv",
        "Astrid Linnea Sigrid Freja",
        "Nils Axel Soren/Søren Elias",
        "Lindqvist Bergstrom/Bergström Dahl Nygaard Holm Sandberg",
        (("Göteborg", 57.71, 11.97), ("Tromsø", 69.65, 18.96), ("Aarhus", 56.16, 10.2)),
        (0, 1),
    ),
    Culture(
        "pl",
        "Zofia Hanna Kinga Agnieszka",
        "Tomasz Pawel/Paweł Kuba Wojtek",
        "Kowal Wojcik/Wójcik Nowak Wrona Mazur",
        (("Kraków", 50.06, 19.94), ("Gdańsk", 54.35, 18.65)),
        (0, 1),
    ),
    Culture(
        "tr",
        "Elif Defne Zeynep Leyla",
        "Emre Kerem Deniz Baris/Barış",
        "Yilmaz/Yılmaz Kaya Demir Aydin/Aydın Sahin/Şahin",
        (("Izmir", 38.42, 27.14), ("Istanbul", 41.01, 28.98)),
        (1, 4),
        "scarf",
        0.3,
    ),
    Culture(
        "ar",
        "Layla/ليلى Nour/نور Salma/سلمى Huda/هدى Mariam/مريم",
        "Omar/عمر Karim/كريم Yusuf/يوسف Tariq/طارق Sami/سامي",
        "Haddad/حداد Mansour/منصور Najjar/نجار Khalil/خليل Sabbagh/صباغ",
        (("Amman", 31.95, 35.93), ("Cairo", 30.04, 31.24), ("Casablanca", 33.57, -7.59)),
        (2, 5),
        "scarf",
        0.55,
    ),
    Culture(
        "hi",
        "Ananya Meera Kavya Ishita Rohini",
        "Arjun Rohan Vikram Nikhil Aditya",
        "Iyer Sharma Kulkarni Menon Banerjee Desai Rao",
        (("Pune", 18.52, 73.86), ("Kochi", 9.93, 76.27), ("Kolkata", 22.57, 88.36)),
        (3, 6),
    ),
    Culture(
        "pa",
        "Simran Jasleen Harleen",
        "Gurpreet Harjit Manveer Jaspal",
        "Gill Sandhu Dhillon Grewal",
        (("Amritsar", 31.63, 74.87), ("Vancouver", 49.28, -123.12)),
        (3, 5),
        "turban",
        0.75,
    ),
    Culture(
        "ja",
        "Haruka/遥 Yui/結衣 Aiko/愛子 Misaki/美咲 Sakura/さくら",
        "Kenji/健二 Haruto/陽斗 Daichi/大地 Ren/蓮 Takumi/匠",
        "Tanaka/田中 Mori/森 Kobayashi/小林 Ishikawa/石川 Fujita/藤田 Ono/小野",
        (("Kyoto", 35.01, 135.77), ("Sapporo", 43.06, 141.35), ("Yokohama", 35.44, 139.64)),
        (1, 2),
        family_first=True,
    ),
    Culture(
        "ko",
        "Jisoo/지수 Minji/민지 Hana/하나 Soyeon/소연",
        "Minho/민호 Junseo/준서 Taeyang/태양 Woojin/우진",
        "Kim/김 Park/박 Choi/최 Han/한 Yoon/윤",
        (("Busan", 35.18, 129.08), ("Seoul", 37.57, 126.98)),
        (0, 2),
        family_first=True,
    ),
    Culture(
        "zh",
        "Meilin/美琳 Xinyi/欣怡 Lan/岚 Yating/雅婷",
        "Haoran/浩然 Jun/军 Weimin/伟民 Boyan/博彦",
        "Chen/陈 Lin/林 Zhao/赵 Wu/吴 Tang/唐",
        (("Taipei", 25.03, 121.57), ("Chengdu", 30.57, 104.07), ("Singapore", 1.35, 103.82)),
        (0, 2),
        family_first=True,
    ),
    Culture(
        "vi",
        "Linh Thuy/Thùy Mai Ngoc/Ngọc",
        "Minh Quang Bao/Bảo Duc/Đức",
        "Tran/Trần Pham/Phạm Dang/Đặng Ngo/Ngô",
        (("Da Nang", 16.05, 108.2), ("Hanoi", 21.03, 105.85)),
        (1, 3),
    ),
    Culture(
        "yo",
        "Adaeze Temi Folake Chioma Ngozi",
        "Tunde Emeka Kelechi Femi Obinna",
        "Okafor Adeyemi Balogun Eze Nwosu Afolabi",
        (("Lagos", 6.52, 3.38), ("Abuja", 9.06, 7.5)),
        (6, 7),
    ),
    Culture(
        "sw",
        "Wanjiru Achieng Zawadi Makena",
        "Kamau Otieno Baraka Juma",
        "Mwangi Odhiambo Kiptoo Njoroge Wekesa",
        (("Nairobi", -1.29, 36.82), ("Mombasa", -4.04, 39.67)),
        (5, 7),
    ),
    Culture(
        "am",
        "Selam Hiwot Bethel",
        "Dawit Yonas Abel",
        "Tesfaye Bekele Girma Haile",
        (("Addis Ababa", 9.03, 38.74),),
        (5, 6),
    ),
)

JOBS: tuple[str, ...] = (
    "Nurse",
    "Bus driver",
    "Teacher",
    "Bike mechanic",
    "Baker",
    "Architect",
    "Carpenter",
    "Librarian",
    "Physio",
    "Translator",
    "Radio producer",
    "Gardener",
    "Data person",
    "Midwife",
    "Ferry pilot",
    "Illustrator",
    "Backend developer",
    "Pharmacist",
    "Surveyor",
    "Cheesemonger",
    "Sound engineer",
    "Vet",
    "Postal worker",
    "Ceramicist",
    "Chemist",
    "Piano tuner",
    "Social worker",
    "Optician",
    "Printmaker",
    "Locksmith",
)

BITS: dict[str, tuple[str, ...]] = {
    "hiking": ("happiest above the tree line ⛰️", "slow hiker, fast eater", "collects passes"),
    "sea": ("swims all year 🌊", "small boats, big thermos", "lives by the tide table"),
    "travel": ("night trains 🚂", "always packing", "writes postcards"),
    "stargazing": ("owns more eyepieces than socks 🔭", "dark skies", "up late for Saturn 🪐"),
    "coffee": ("chasing the perfect cup ☕", "one more espresso", "filter at home"),
    "cooking": ("cooks for too many people 🍲", "sourdough parent 🍞", "will feed you"),
    "gardening": ("tomatoes and patience 🍅", "allotment no. 14 🌱", "dahlias 🌸"),
    "city": ("looks up at buildings", "walks everywhere", "benches, bridges, bakeries"),
    "art": ("draws on receipts ✏️", "ink on everything", "shapes and colors 🎨"),
    "books": ("reads on stairs 📚", "three books at once", "library regular"),
    "music": ("late-starting cellist 🎻", "vinyl, mostly", "sings in a choir 🎶"),
    "cycling": ("rain or shine on two wheels 🚲", "headwind expert", "cake-powered cyclist 🍰"),
    "code": ("fixes time zones for a living", "open source after dark 💻", "deletes code with joy"),
    "birds": ("up before the birds 🐦", "binoculars in every bag", "knows one owl personally"),
    "animals": ("staff of two cats 🐈", "friend of crows", "foster dogs 🐕"),
    "architecture": ("looks up at cornices", "stairs before lifts", "brick by brick 🧱"),
    "photography": ("film and light leaks 🎞️", "one street, one lens 📷", "waits for the light"),
}


SKINS = ("#fbdcc4", "#f6cba8", "#eab98f", "#d9a06f", "#c08552", "#9c6440", "#7a4a30", "#5a3524")
"""Skin tones from the lightest to the darkest. A culture has a range of them."""

DARK_HAIR = ("#17141a", "#241a1c", "#33221d", "#1d1a24")
FAIR_HAIR = ("#5b3a24", "#7c4f2a", "#a5682f", "#c98f4a", "#e0b86e", "#b4502a", "#3b2820")
GRAY_HAIR = ("#b9b4b1", "#d8d4d0", "#8e8a8c")
DYED_HAIR = ("#c9577f", "#3f8f8c", "#7a5cc0", "#d97b3a")

SOFT_STYLES = ("long", "waves", "bob", "fringe", "bun", "ponytail", "braids", "curls", "side", "curly")
SHORT_STYLES = (
    "crop",
    "side",
    "quiff",
    "curly",
    "shaggy",
    "crop",
    "side",
    "quiff",
    "shaggy",
    "curly",
    "balding",
    "bun",
)
TIGHT_STYLES = ("afro", "curls", "crop", "braids", "bun")
CLOTHES = ("crew", "vneck", "shirt", "hood", "turtle", "stripes", "blazer", "crew")
CLOTH_COLORS = (
    "#2f5d73",
    "#d9653b",
    "#3f7d5c",
    "#8a3f5f",
    "#e2a83c",
    "#4b4f8f",
    "#c94f4f",
    "#2b3a4f",
    "#6a8f9e",
    "#7d5a8c",
    "#e8e1d3",
    "#b5714a",
)
BACKDROPS = (
    ("#fde2c8", "#f3a98c"), ("#cfe8ea", "#86b9c9"), ("#fbe8a8", "#f2b866"), ("#dcd6f2", "#a79bd6"), ("#d6ecd0", "#8dbf98"),
    ("#fbd3dc", "#e794aa"), ("#cfdcf3", "#8aa6d8"), ("#f1e6d6", "#cdb291"), ("#2f4a68", "#1d2c48"), ("#c9f0e2", "#6cc0aa"),
)  # fmt: skip


def cast(dice: Random, tones: tuple[int, int], *, soft: bool, fair: bool = False, wrapped: str = "") -> Look:
    """Draw a random look with a skin tone from the range `tones` of rows in `SKINS`.

    `soft` selects hairstyles with longer hair, `fair` allows fair hair, and `wrapped` names a scarf or turban to wear.
    """
    tone = dice.randint(*tones)
    elder = dice.random() < 0.14
    tight = tone >= 6 and dice.random() < 0.8
    styles = TIGHT_STYLES if tight else SOFT_STYLES if soft else SHORT_STYLES
    style = dice.choice(styles[:3] if tight and not soft else styles)
    hat = wrapped or (
        dice.choice(("beanie", "cap", "straw"))
        if dice.random() < 0.13 and style not in {"bun", "afro", "quiff"}
        else ""
    )
    beard = "full" if wrapped == "turban" else ""
    if not soft and not beard and dice.random() < 0.5:
        beard = dice.choice(("stubble", "full", "goatee", "full", "stubble", "long"))
    return Look(
        skin=SKINS[tone],
        hair=style,
        hair_color=_hair_color(dice, fair=fair, elder=elder, soft=soft),
        beard=beard,
        glasses=dice.choice(("round", "square", "gold", "red")) if dice.random() < 0.3 else "",
        earrings=soft and dice.random() < 0.5,
        hat=hat,
        clothing=dice.choice(CLOTHES),
        clothing_color=dice.choice(CLOTH_COLORS),
        backdrop=dice.choice(BACKDROPS),
        mouth=dice.choice(("smile", "smile", "grin", "grin", "laugh" if tone < 7 else "grin")),
        soft=soft,
        freckles=fair and dice.random() < 0.2,
        elder=elder,
    )


def _hair_color(dice: Random, *, fair: bool, elder: bool, soft: bool) -> str:
    if elder:
        return dice.choice(GRAY_HAIR)
    if soft and dice.random() < 0.07:
        return dice.choice(DYED_HAIR)
    return dice.choice(FAIR_HAIR if fair else DARK_HAIR)


SUFFIXES = ("draws", "outside", "reads", "makes", "writes", "walks", "on_film", "at_home", "and_co", "elsewhere")


FAIR = ("en", "de", "fr", "sv", "pl", "it")
"""Languages of cultures where fair hair is common."""


class CastMember(NamedTuple):
    """An author of posts. The city determines the culture, from which the language, the location and the look follow."""

    name: str
    shown: str
    woman: bool
    city: str
    subject: str
    """The tag of all photos of the author, or of most of their other posts."""
    interests: tuple[str, ...]
    bio: str


SPOKEN = ("es", "pt", "de", "fr", "ja", "ar")
"""Languages of stories besides English. At least two generated people speak each of them."""

CAST: tuple[CastMember, ...] = (
    CastMember(
        "simone_ellison", "Simone Ellison", True, "Atlanta", "birds", ("birds", "animals", "photography"),
        "Nurse on nights, birds by day. Long lens, longer patience.",
    ),
    CastMember(
        "marcus_coleman", "Marcus Coleman", False, "Cincinnati", "citynight", ("city", "photography", "music"),
        "Late shifts, bridges, reflections. The lunch box is my tripod.",
    ),
    CastMember(
        "emre_kaya", "Emre Kaya", False, "Istanbul", "coffee", ("coffee", "cooking", "books"),
        "Istanbul. Fixes espresso machines, mostly his own ☕",
    ),
    CastMember(
        "rory_doyle", "Rory Doyle", False, "Portland", "hiking", ("hiking", "travel", "cooking"),
        "Slow hiker, fast eater. Portland ⛰️",
    ),
    CastMember(
        "meera_iyer", "Meera Iyer", True, "Pune", "flowers", ("gardening", "photography", "cooking"),
        "Balcony of 41 pots in Pune 🌺 One old macro lens, one nosy dog.",
    ),
    CastMember(
        "chioma_eze", "Chioma Eze", True, "Lagos", "code", ("code", "music", "books"),
        "Backend developer in Lagos. Collects time-zone bugs.",
    ),
    CastMember(
        "jonah_whitlock", "Jonah Whitlock", False, "Boston", "street", ("photography", "city", "books"),
        "Boston, on foot. I photograph people who photograph things.",
    ),
    CastMember(
        "malik_hayes", "Malik Hayes", False, "Oakland", "animals", ("animals", "birds", "gardening"),
        "Zoo volunteer and beekeeper in Oakland. Counts otters 🦦",
    ),
    CastMember(
        "astrid_dahl", "Astrid Dahl", True, "Göteborg", "stairs", ("architecture", "art", "city"),
        "A photo of every good staircase I meet. Number 117 at the moment.",
    ),
    CastMember(
        "soren_holm", "Søren Holm", False, "Aarhus", "cycling", ("cycling", "coffee", "sea"),
        "Aarhus. Thirty kilometers a day, whatever the wind thinks 🚲",
    ),
    CastMember(
        "zora_bell", "Zora Bell", True, "Austin", "wildflowers", ("gardening", "hiking", "photography"),
        "Stops the car for flowers. Austin, Texas 🌼",
    ),
    CastMember(
        "mateo_navarro", "Mateo Navarro", False, "Sevilla", "arquitectura", ("travel", "architecture", "city"),
        "Sevilla. Piedras viejas, zapatos cómodos. Old stones, good shoes.",
    ),
    CastMember(
        "owen_penrose", "Owen Penrose", False, "Bristol", "astronomy", ("stargazing", "photography", "music"),
        "Runs the star parties behind the chapel. Four folding chairs, one telescope 🔭",
    ),
    CastMember(
        "hanna_wrona", "Hanna Wrona", True, "Kraków", "books", ("books", "coffee", "travel"),
        "Bookseller in Kraków. Keeps whatever she finds between the pages 📚",
    ),
    CastMember(
        "defne_aydin", "Defne Aydın", True, "Izmir", "abstract", ("art", "photography", "music"),
        "Painter in Izmir. Paint, smoke, light, spatulas 🎨",
    ),
    CastMember(
        "till_seidel", "Till Seidel", False, "Leipzig", "luftbild", ("photography", "hiking", "code"),
        "Leipzig. Wälder von oben, mit Genehmigung. Forests from above.",
    ),
    CastMember(
        "ginevra_conti", "Ginevra Conti", True, "Milano", "blackandwhite", ("architecture", "photography", "city"),
        "Milan in black and white. I like walls.",
    ),
    CastMember(
        "duarte_moura", "Duarte Moura", False, "Porto", "music", ("music", "books", "sea"),
        "Late-starting cellist in Porto 🎻 Sorry about the scales.",
    ),
    CastMember(
        "nora_fenwick", "Nora Fenwick", True, "Leeds", "archive", ("books", "photography", "art"),
        "Archivist in Leeds. Old photographs, with the names of those who took them where I can find them.",
    ),
    CastMember(
        "takumi_ono", "Takumi Ono", False, "Yokohama", "建築", ("architecture", "art", "photography"),
        "横浜。建物の線と面を撮っています。",
    ),
    CastMember(
        "huda_haddad", "هدى حداد", True, "Amman", "سوق", ("cooking", "travel", "photography"),
        "عمّان. أسواق وبهارات وحكايات الباعة.",
    ),
    CastMember(
        "camille_girard", "Camille Girard", True, "Lyon", "cuisine", ("cooking", "gardening", "books"),
        "Lyon. Confitures, tartes, accidents. Jams, tarts, accidents.",
    ),
    CastMember(
        "felix_ashby", "Felix Ashby", False, "Galway", "writing", ("books", "art", "coffee"),
        "Writing a short book slowly. Galway.",
    ),
    CastMember(
        "kavya_menon", "Kavya Menon", True, "Kochi", "tea", ("gardening", "cooking", "hiking"),
        "Third generation on the same hill. Kochi, and the tea country behind it 🍃",
    ),
    CastMember(
        "joana_barros", "Joana Barros", True, "Porto", "mar", ("sea", "photography", "cooking"),
        "Porto. Água fria o ano inteiro 🌊 Cold water all year.",
    ),
    CastMember(
        "amara_brooks", "Amara Brooks", True, "London", "cooking", ("cooking", "animals", "music"),
        "London. Baking my way through one aunt's recipes 🍞",
    ),
    CastMember(
        "aiko_mori", "Aiko Mori", True, "Kyoto", "猫", ("animals", "books", "coffee"),
        "京都。猫と本と、ときどき仕事。",
    ),
    CastMember(
        "greta_brandt", "Greta Brandt", True, "Hamburg", "garten", ("gardening", "animals", "cycling"),
        "Hamburg, Schrebergarten Nr. 14 🌱",
    ),
)  # fmt: skip


_CAST_FAMILIES = {role.name.partition("_")[2] for role in CAST}


class _Name(NamedTuple):
    first: str
    last: str
    shown: str


def people(dice: Random, count: int) -> tuple[Person, ...]:
    """Return people with unique names, the most famous first: those of `CAST`, then generated people."""
    taken = {role.name for role in CAST}
    bag = [culture for culture in CULTURES if culture.language in SPOKEN] * 2
    made = []
    for rank in range(count):
        if rank < len(CAST):
            made.append(_of_cast(dice, CAST[rank], rank))
            continue
        bag = bag or dice.sample(CULTURES, len(CULTURES))
        made.append(_generated(dice, bag.pop(), rank, taken))
    return tuple(made)


def _of_cast(dice: Random, role: CastMember, rank: int) -> Person:
    culture = next(one for one in CULTURES if any(city == role.city for city, *_ in one.cities))
    home = next(Place(*where) for city, *where in culture.cities if city == role.city)
    return Person(
        name=role.name,
        display_name=role.shown,
        bio=role.bio,
        interests=role.interests,
        language=culture.language,
        home=home,
        weight=_fame(rank),
        look=_look(dice, culture, woman=role.woman),
    )


def _generated(dice: Random, culture: Culture, rank: int, taken: set[str]) -> Person:
    woman = dice.random() < 0.5
    name = _name(dice, culture, woman=woman)
    interests = tuple(dice.sample(tuple(BITS), dice.choice((2, 3, 3, 4))))
    city, latitude, longitude = dice.choice(culture.cities)
    return Person(
        name=_handle(dice, name, interests[0], taken),
        display_name=name.shown
        + (dice.choice((" 🌿", " ✨", " 📷", " 🌊", " ☕", " 🚲")) if dice.random() < 0.12 else ""),
        bio=_bio(dice, city, interests),
        interests=interests,
        language=culture.language,
        home=Place(latitude, longitude),
        weight=_fame(rank),
        look=_look(dice, culture, woman=woman),
    )


def _fame(rank: int) -> float:
    return round(1.0 / math.pow(rank + 1, 0.85), 4)


def _look(dice: Random, culture: Culture, *, woman: bool) -> Look:
    wears = culture.wrap and (culture.wrap == "scarf") == woman and dice.random() < culture.wrapped
    return cast(
        dice,
        culture.tones,
        soft=woman,
        fair=culture.language in FAIR and culture.tones[0] < 2,
        wrapped=culture.wrap if wears else "",
    )


def _name(dice: Random, culture: Culture, *, woman: bool) -> _Name:
    first, _, first_shown = dice.choice((culture.women if woman else culture.men).split()).partition("/")
    families = [name for name in culture.families.split() if name.partition("/")[0].lower() not in _CAST_FAMILIES]
    last, _, last_shown = dice.choice(families).partition("/")
    native = not (first_shown or "a").isascii() and ord((first_shown or "a")[0]) > 0x2FF
    if native and dice.random() < 0.5:
        shown = f"{last_shown}{first_shown}" if culture.family_first else f"{first_shown} {last_shown}"
    elif native:
        shown = f"{first} {last}"
    else:
        shown = f"{first_shown or first} {last_shown or last}" if dice.random() < 0.8 else first_shown or first
    return _Name(first.lower(), last.lower(), shown)


def _handle(dice: Random, name: _Name, interest: str, taken: set[str]) -> str:
    """Return an unused handle, with a number if all handles without a number are taken."""
    first, last, _ = name
    ideas = [
        f"{first}_{last}", f"{first}{last}", f"{first}_{dice.choice(SUFFIXES)}", f"{first[0]}{last}", f"{first}.{interest}",
        f"{last}_{first}", f"{first}{dice.randint(71, 99)}", f"{first}_{last[0]}", f"hello_{first}", f"just_{first}",
    ]  # fmt: skip
    for idea in (*dice.sample(ideas[:6], 4), *ideas, *(f"{first}_{last}{number}" for number in range(2, 10_000))):
        handle = re.sub(r"[^a-z0-9_]", "_", idea)[:30]
        if handle not in taken:
            taken.add(handle)
            return handle
    raise RuntimeError("more than 10,000 members share a name")


def _bio(dice: Random, city: str, interests: tuple[str, ...]) -> str:
    job, one, other = dice.choice(JOBS), dice.choice(BITS[interests[0]]), dice.choice(BITS[interests[1]])
    line = dice.choice((
        f"{job} in {city}. {_capital(one)}, {other}.",
        f"{_capital(one)}. {_capital(other)}.",
        f"{city} · {job.lower()} · {one}",
        f"{job} by day. {_capital(one)}.",
        f"{_capital(other)}, and {one}. 📍 {city}",
        f"{_capital(one)}.",
        f"{job}, {city}. Mostly {interests[0]} and {interests[1]}.",
        f"Posts about {interests[0]}, {interests[1]} and {interests[-1] if len(interests) > 2 else 'the weather'}.",
    ))  # fmt: skip
    return re.sub(r"([^\w\s)])\.$", r"\1", line)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
