"""Where people come from: names as they are spelt and as they are shown, cities, and looks that go with them.

A name is `ascii` or `ascii/as shown`. All names are common ones, put together by chance; nobody here exists.
"""

from __future__ import annotations

from typing import NamedTuple


class Culture(NamedTuple):
    """One row. `tones` is a range of `looks.SKINS`; `wrap` is a scarf for women or a turban for men, worn by `wrapped` of them."""

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
        (("Bristol", 51.45, -2.59), ("Leeds", 53.8, -1.55), ("Galway", 53.27, -9.05), ("Portland", 45.52, -122.68)),
        (0, 2),
    ),
    Culture(
        "en",
        "Amara Zora Simone Imani Nia",
        "Marcus Darnell Elijah Andre Malik",
        "Brooks Hayes Coleman Whitaker Ellison Bell",
        (("Atlanta", 33.75, -84.39), ("Oakland", 37.8, -122.27), ("London", 51.51, -0.13)),
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
        (("Torino", 45.07, 7.69), ("Palermo", 38.12, 13.36)),
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
        "Kowal Zielinska/Zielińska Nowicki Wrona Mazur",
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
    "art": ("draws on receipts ✏️", "ink on everything", "shapes and colours 🎨"),
    "books": ("reads on stairs 📚", "three books at once", "library regular"),
    "music": ("late-starting cellist 🎻", "vinyl, mostly", "sings in a choir 🎶"),
    "cycling": ("rain or shine on two wheels 🚲", "headwind expert", "cake-powered cyclist 🍰"),
    "code": ("fixes time zones for a living", "open source after dark 💻", "deletes code with joy"),
    "animals": ("staff of two cats 🐈", "friend of crows 🐦", "foster dogs 🐕"),
    "photography": ("film and light leaks 🎞️", "one street, one lens 📷", "waits for the light"),
}
