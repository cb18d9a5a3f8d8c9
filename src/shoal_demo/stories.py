"""The posts of the demo network, each with its photos, the comments on it and the replies to these.

In the comments of a story, a line without a mark is a comment by a new member. `> ` is a reply by the author of the post to the
line above, `>> ` the answer of the member whose comment began the thread, and `+ ` a reply by a third member.
"""

# ruff: noqa: E501 - a comment stays on one line

from __future__ import annotations

from typing import NamedTuple

from shoal.core.places import Place


class Story(NamedTuple):
    """A post by a member of `people.CAST`."""

    author: str
    text: str
    photos: tuple[str, ...] = ()
    """Files of `photos/CREDITS.md`, without the ending."""
    place: Place | None = None
    language: str = "en"
    """The language of the text and of the comments."""
    followers: bool = False
    """Whether only followers can read it."""
    comments: tuple[str, ...] = ()


WITH_PHOTOS: tuple[Story, ...] = (
    Story(
        "simone_ellison",
        "Heard her an hour before I saw her: that song falls down the canyon wall like somebody dropping a box of spoons. Then the beak came over the rim. #birds #wildlife",
        ("canyon_wren",),
        comments=(
            "That beak is half the bird!",
            "> Made for pulling spiders out of cracks. Try that with a finch's.",
            "A box of spoons is exactly it. I have been saying 'running down a staircase' for years and will now stop.",
            "The rock and the wren are the same color. How did you find her again after looking away?",
            "> I did not look away.",
            ">> Respect. I blink.",
        ),
    ),
    Story(
        "simone_ellison",
        "He finished the whole trout, wiped his beak on the branch, and only then looked at me. I felt I should have brought something. #birds #wildlife",
        ("perched_osprey",),
        comments=(
            "The stare of a maître d' who has just heard you ask for ketchup.",
            "> I left a tip and backed away.",
            "Those feet! Is it true that one toe swivels backwards?",
            "> It is, and the soles are spiny. No fish has ever slipped out of that grip and lived to boast.",
            "There is a nest on the channel marker behind our marina. Same look whenever we sail past.",
            "Every stick on that branch seems to point at him. Did you wait for this, or walk around the tree?",
            "> Walked around twice. He turned his head to follow me both times.",
        ),
    ),
    Story(
        "simone_ellison",
        "One morning on the boardwalk, three ways of standing still: thinking, drying, plotting. #birds #wildlife",
        ("pondering_heron", "sunning_anhinga", "perched_shrike"),
        comments=(
            "The anhinga has the best laundry day of anyone I know.",
            "> Her feathers soak through, so after every dive she hangs herself out. No shame at all.",
            "Do not be fooled by the little gray one. A shrike keeps a larder of grasshoppers on the thorns.",
            "+ 'Plotting' was the hint, I think.",
            "The heron looks as if he had walked into a room and forgotten why.",
            "> I checked on him forty minutes later. He still had not remembered.",
        ),
    ),
    Story(
        "marcus_coleman",
        "Came off shift at one, and the Roebling was still dressed up. Seventeen years before Brooklyn got its bridge, this one was already practicing. #citynight #bridges",
        ("roebling_bridge_night",),
        Place(39.0922, -84.5096),
        comments=(
            "My grandmother called it the Singing Bridge, because of the hum of the tires on the deck.",
            "> It still sings. You can hear it from the bank, right where I stood.",
            ">> Thank you. I am going to play that for her.",
            "The lights under the tower look poured. How long was the shutter open?",
            "> Eight seconds, on the railing, with my lunch box as a tripod.",
            "+ The lunch box is the most underrated tripod.",
        ),
    ),
    Story(
        "marcus_coleman",
        "You walk through forty-one tilted frames and the blue lines close around you like the shaft of a coal mine, which is the point. Then the valley opens, forty meters down. #citynight #bridges #architecture",
        ("trestle_bridge_night",),
        Place(41.8681, -93.8624),
        comments=(
            "Rode across it at dusk last summer and got off the bike to walk, out of respect.",
            "> Everybody does. Nobody rings a bell on that bridge.",
            "I have only seen it from the river. I had no idea that the frames twist like that.",
            "Do the lights stay on all night?",
            "> Until midnight. Bring a flashlight for the ride back, ask me how I know.",
        ),
    ),
    Story(
        "marcus_coleman",
        "Four days of meetings in Singapore. This is the only slide I am keeping. #citynight #skyline #travel",
        ("singapore_skyline",),
        Place(1.2838, 103.8591),
        comments=(
            "I worked on the ninth floor of one of those. We saw the cameras line up at seven each evening, and we waved.",
            "> Then somebody in this picture is waving!",
            ">> Third column of lights from the left, I should think.",
            "Pink clouds and neon on the water. It looks retouched, and I know that it really is like that for ten minutes.",
            "+ Twelve, in March. I have timed it.",
            "Which side of the bay were you on?",
            "> The steps by the promenade, next to a man who was fishing with a bell on his rod.",
        ),
    ),
    Story(
        "ginevra_conti",
        "A tower, a needle, and the hole in a dark wall that I had to crouch in to line them up. People stepped around me politely. #blackandwhite #architecture #milano",
        ("piazza_gae_aulenti",),
        Place(45.4838, 9.1897),
        comments=(
            "I crossed that square every day for a year and never once looked through the opening.",
            "> When you are back: third gap on the left, knees bent.",
            ">> I was back on Friday. A guard asked me whether I was all right.",
            "The curve of the frame against the curve of the glass is so good. The spire is a bonus.",
            "How did you keep the walls this black without losing the windows?",
            "> I exposed for the sky and let the walls go. They were brown and dull anyway.",
        ),
    ),
    Story(
        "ginevra_conti",
        "Four in the afternoon. The sun takes the middle of the hotel, and both ends keep their secrets. #blackandwhite #architecture",
        ("hotel_facade",),
        comments=(
            "I keep looking for one person on one balcony. Is there anybody?",
            "> Nobody. I waited for twenty minutes for a towel, at least.",
            "It could be a sheet of music, with the melody in the middle.",
            "Would you print this one large? Those blacks must be velvet at a meter wide.",
            "> It is on my wall at a meter and ten. The postman thought it was a radiator.",
        ),
    ),
    Story(
        "ginevra_conti",
        "Two walls that behave like water: tin scales running down a drain, and blinds under passing light. #blackandwhite #architecture",
        ("metal_spiral", "window_pattern"),
        comments=(
            "The first one is a fish. I will not be talked out of it.",
            "> It is a concert hall, but I like yours better.",
            "For a second I thought that the stripes on the second wall were painted on. Reflections from across the street?",
            "> From a glass office opposite, ten minutes a day, if nobody there opens a window.",
        ),
    ),
    Story(
        "meera_iyer",
        "The hibiscus opens at six and is over by dusk, so breakfast was late today. #flowers #garden",
        ("red_hibiscus",),
        comments=(
            "One day! And tomorrow the next bud, as if nothing had happened.",
            "We make a cold drink of ours, with lime and far too much sugar.",
            "> We do, too, but never from the first one of the season. That one is for looking at.",
            "How is the background so dark at six in the morning?",
            "> The neighbor's garage door. Best studio in the street.",
            "+ Please tell your neighbor that it is art now.",
        ),
    ),
    Story(
        "meera_iyer",
        "Small ones this week, each no wider than a fingernail. I had to lie down for the blue ones, and the dog came to see whether I was dead. #flowers #macro",
        ("small_blue_flowers", "yellow_buttercup"),
        comments=(
            "Are the blue ones forget-me-nots? The yellow eye says yes.",
            "> Close relatives, I think. They seeded themselves between the paving stones.",
            "You can see every vein in the yellow one. Which lens?",
            "> An old 50 mm, turned around and held in front of the camera by hand.",
            ">> Turned around? I have to try this.",
            "Give the dog my regards for checking.",
        ),
    ),
    Story(
        "jonah_whitlock",
        "Twice a year the sun sets right down the middle of our street. This is what the roofers get to look at. #street #boston #sunset",
        ("beacon_street_sunset",),
        Place(42.3525, -71.0729),
        comments=(
            "The snow on the flat roofs and the orange on the brick. It even smells cold.",
            "> Fifteen degrees and a wind. My fingers gave up before the light did.",
            "We lived two blocks down, right where the sun comes through. I can nearly see our laundry line.",
            "> There is a new laundry line up there!",
            ">> Then somebody understood the roof. Good.",
            "Which days is it? I would plan a trip around that.",
            "> The last week of January and around the middle of November, if I counted right.",
        ),
    ),
    Story(
        "jonah_whitlock",
        "I photograph people who photograph things. She took eleven minutes for this building and walked away without looking at the screen. That is confidence. #street #photography",
        ("tourist_taking_photo",),
        comments=(
            "Both hands, breath held. She has done this before.",
            "And somebody behind you took a picture of you, I hope.",
            "> My sister did. It goes on like that all the way back to the bus.",
            "What was the building?",
            "> A bank that wanted to be a temple.",
            "+ They all did, around 1900.",
        ),
    ),
    Story(
        "nora_fenwick",
        "From today's boxes: Leslie Adkin's little totara above Porirua Harbour, combed flat by the wind. He was a farmer with a glass-plate camera, and you can tell that he knew weather. #archive #landscape #blackandwhite",
        ("windswept_tree",),
        Place(-41.0803, 174.8392),
        comments=(
            "I walked that ridge in March, and there is one up there with the same hair. I could not swear that it is the same tree.",
            "> Totara can live for many centuries, so I have decided that it is.",
            "You can hear the wind, and yet nothing in it is moving. How?",
            "> It grew like that. Every gust of a hundred years is in there.",
            "It looks like a person running for a bus.",
        ),
    ),
    Story(
        "nora_fenwick",
        "Lewis Hine photographed these two at their machine. He wrote down names and ages where he could, often on a pad hidden in his coat pocket. Look at the hands. #archive #blackandwhite",
        ("mill_workers",),
        comments=(
            "My great-grandmother was a spinner at fourteen. She never spoke of it, and she could not bear the smell of wool.",
            "> Thank you for telling us. Was it in Yorkshire?",
            ">> In Lowell, across the ocean. Her sister stayed in Bradford.",
            "No guard on that machine at all, and those long skirts.",
            "+ That was in the reports his pictures went with. They helped to change the law.",
        ),
    ),
    Story(
        "nora_fenwick",
        "Colored by hand, on a gray so even that it must have taken a week. The catalog says only 'Botany flowers'. #archive #flowers",
        ("white_calla_plants",),
        comments=(
            "The leaves are three different greens. Whoever painted this went to look at the plant again.",
            "> And dotted every single flower in yellow. I needed the magnifier to see it.",
            "Water arum? The white hood and the heart-shaped leaves would fit.",
            "> I thought so too. I will write 'probably' on the card, in pencil.",
        ),
    ),
    Story(
        "rory_doyle",
        "Lake Sherburne at 6:40, before the wind was up. A trout jumped and I was honestly annoyed with it. #hiking #landscape",
        ("lake_sherburne",),
        Place(48.8267, -113.526),
        comments=(
            "I keep going back to that summit with the cloud on it. What is it called?",
            "> I asked three people and was given three names.",
            "Still that much snow in the gullies! When was this?",
            "> Last week of June. The high trail was closed, so the lake was plan B.",
            "+ Plan B has outdone itself.",
            "We camped at the far end for three nights and never got it without wind. You lucky man.",
        ),
    ),
    Story(
        "rory_doyle",
        "Six of us on the spine of a dune, with the wind taking the ridge away as fast as we walked on it. I stayed behind with a blister and got the picture. #hiking #landscape #travel",
        ("desert_hike",),
        comments=(
            "It took me a moment to find the people, and then the size of the thing hit me.",
            "Best blister of your career.",
            "> It has been framed. The picture, I mean.",
            "How long did the six take to the top?",
            "> Fifty minutes up, four minutes down, ten minutes emptying their shoes.",
            "+ Ours was two hours. We tried to be smart and go straight up the side.",
        ),
    ),
    Story(
        "astrid_dahl",
        "She came down in an orange top and a black hat, and the staircase had been waiting for it since it was built. I asked afterwards. She said: 'Keep it, but spell my hat right.' #stairs #architecture",
        ("spiral_staircase_visitor",),
        comments=(
            "You could not have cast that better. Wood, spiral, one dot of orange.",
            "So how do you spell the hat?",
            "> F-e-d-o-r-a. She checked.",
            "From above is the only way to see that the handrail is one single curve. Beautiful joinery.",
        ),
    ),
    Story(
        "astrid_dahl",
        "Number 112: green, from a school in the suburbs. The caretaker told me that they repaint it each summer, because of the shoes. #stairs #architecture #color",
        ("green_staircase",),
        comments=(
            "I thought this was a poster. Then I saw the handrail.",
            "> That is the nicest thing anybody has said about 112.",
            "Do you have a favorite so far?",
            "> Number 87, a fire escape. But this one is not even trying, and it is in the top five.",
            "We had that exact green on the doors at school. I can hear the bell.",
        ),
    ),
    Story(
        "astrid_dahl",
        "A ramp is a staircase that has made peace with itself. #stairs #architecture #museum",
        ("museum_hall",),
        comments=(
            "My wheelchair and I agree with this ramp, and with the sentence.",
            "> I thought of you when I saw the gradient. No landing in the way, top to bottom.",
            "All that daylight from the slanted roof. Is it warm in there in summer?",
            "> They pull sails across. I was told that it takes two people and a lot of shouting.",
        ),
    ),
    Story(
        "mateo_navarro",
        "Hay que tumbarse en el suelo del patio. El vigilante ya ni pregunta: «¿Gaudí?» «Gaudí.» #arquitectura #barcelona #travel",
        ("casa_mila_courtyard",),
        Place(41.3954, 2.162),
        "es",
        comments=(
            "Parece el ojo de un animal enorme mirándote desde arriba.",
            "> ¡Y con las pestañas de hierro de los balcones!",
            "¿A qué hora fuiste para que estuviera así de naranja?",
            "> A última hora, con las luces de las casas encendidas y un poco de cielo todavía.",
            "Mi tía vivió en el tercero. Decía que los muebles nunca encajaban en ninguna pared.",
        ),
    ),
    Story(
        "mateo_navarro",
        "Dos mil años y todavía hay que echar la cabeza atrás. El Coliseo a última hora, cuando los arcos se ponen naranjas. #arquitectura #roma #travel",
        ("roman_colosseum",),
        Place(41.8902, 12.4922),
        "es",
        comments=(
            "Ese cielo verde azulado contra los arcos… ¿está sin retocar?",
            "> Un poco de contraste en el cielo. El naranja es todo suyo.",
            "Desde abajo parece que va a echar a rodar.",
        ),
    ),
    Story(
        "owen_penrose",
        "Not through my telescope, sadly: from here Saturn never shows us its night side. A spacecraft had to go around and look back. I put it up above the eyepiece, to keep me humble. #astronomy #saturn",
        ("saturn_rings",),
        comments=(
            "The shadow of the planet cuts the rings off so cleanly. That edge took me straight back to geometry class.",
            "Humble is right. Mine shows a small bright olive, and I am very proud of it.",
            "> An olive with ears! Galileo drew the same thing, and he was nobody's fool.",
            "How thin are the rings really?",
            "> Some tens of meters for most of their width. If this picture were printed on a sheet of paper, the paper would be far too thick.",
            ">> I am going to be repeating that to everyone at dinner.",
        ),
    ),
    Story(
        "malik_hayes",
        "Saturdays I count otters at the zoo. There are two. It takes all morning, because one is always underneath. #animals #wildlife #otters",
        ("zoo_otters",),
        Place(37.7506, -122.1474),
        comments=(
            "The one on the rock looks like he has just closed a very good deal.",
            "> He stole half a smelt from the other one. So, yes.",
            "My daughter wants to know their names.",
            "> The dry one changes daily, depending on who asks. Today he can be hers.",
            ">> She has chosen Captain Wet.",
            "And the blue thing in the water?",
            "> The third ball this month. They take them apart to see what is inside.",
        ),
    ),
    Story(
        "malik_hayes",
        "Head down in the pollen, did not care about the lens two centimeters away. I want to love my job like that. #animals #macro",
        ("honey_bee",),
        comments=(
            "The pollen on the legs! She is nearly full.",
            "Purple aster is the last big meal before winter for mine. I leave a whole bed standing.",
            "> So do we, along the fence. It hums in October.",
            "How do you get that close without scaring her off?",
            "> Come from below, slowly, and never let your shadow touch the flower.",
        ),
    ),
    Story(
        "till_seidel",
        "Von unten: eine kurvige Straße und ein Kaffee, der über die Ablage rutscht. Von oben: eine Unterschrift. #luftbild #landscape",
        ("forest_road_aerial",),
        language="de",
        comments=(
            "Das S ist schöner als jedes, das ich je geschrieben habe.",
            "Wie hoch bist du da geflogen?",
            "> Knapp hundert Meter, mehr ist nicht erlaubt. Und nur, weil kein Auto kam.",
            "In der Kehre liegt ja noch Schnee! Wann war das?",
            "> Ende April. Unten im Tal standen die Leute schon nach Eis an.",
        ),
    ),
    Story(
        "till_seidel",
        "Minus zwölf, der Akku hielt neun Minuten. In der achten kam die Sonne über den Kamm und hat nur die Spitzen angezündet. #luftbild #landscape #winter",
        ("snowy_forest_aerial",),
        language="de",
        comments=(
            "Wie Brokkoli mit Puderzucker, im allerbesten Sinne.",
            "> Meine Mutter hat Strickmuster gesagt. Ihr habt beide recht.",
            "Und die Drohne? Ist sie heil wieder heruntergekommen?",
            "> Mit drei Prozent und sehr kalten Pfoten.",
        ),
    ),
    Story(
        "takumi_ono",
        "屋根の先が空に刺さっている。朝のうちだけ、影まで鋭い。 #建築 #architecture",
        ("angular_roof",),
        language="ja",
        comments=(
            "木の屋根なのに、ナイフみたいですね。",
            "> 近くで見ると木目がやわらかくて、印象がまったく変わります。",
            "下から見上げる角度、首が痛くなりませんでしたか。",
        ),
    ),
    Story(
        "takumi_ono",
        "折り紙で覚えたことを、建物がやっている。同じ形が何百枚も。 #建築 #architecture",
        ("geometric_facade",),
        language="ja",
        comments=(
            "白とグレーだけなのに、いつまでも見ていられます。",
            "一枚だけ向きが違うように見えるのは気のせいですか?",
            "> 私もそう思って数えました。全部同じでした。光のいたずらですね。",
        ),
    ),
    Story(
        "zora_bell",
        "Pulled over outside Llano for the tree, and then could not stop looking at the ground. Indian blanket, all the way back. #wildflowers #landscape",
        ("flower_meadow",),
        Place(30.7511, -98.6756),
        comments=(
            "That tree has watched this every spring for two hundred years and still looks surprised.",
            "We drove past in February and it was bare dirt! How long does it last?",
            "> Three weeks if it stays cool. Go now, go on a weekday.",
            "Deep blue sky behind the red. Did you use a polarizer?",
            "> Sunglasses, held in front of the phone.",
            "+ I have a bag with two thousand dollars of filters and you have sunglasses.",
        ),
    ),
    Story(
        "zora_bell",
        "Gone to seed, and better for it. Ten minutes of low sun, then the wind came and took the first ones. #wildflowers #macro #sunset",
        ("dandelion_evening",),
        comments=(
            "All those little lamps in the grass. I would have stepped right over them.",
            "My whole street pulls these out. I am going to show them this.",
            "> Tell them that the goldfinches vote for leaving them.",
            "Did you lie in the wet grass for this?",
            "> There is a green elbow on every shirt I own.",
        ),
    ),
    Story(
        "defne_aydin",
        "The board that I wipe my brushes on, after four hours on the big canvas. The canvas now faces the wall. I am keeping this. #abstract #color",
        ("acrylic_paint",),
        comments=(
            "I can nearly smell it. Is the magenta straight from the tube?",
            "> Straight, and laid on with a kitchen spatula. I regret nothing.",
            "The place where the blue pushes into the orange is a whole landscape.",
            "Please say that you did not wash it off.",
            "> It is drying on the windowsill, under a note for my flatmate: NOT LUNCH.",
        ),
    ),
    Story(
        "defne_aydin",
        "One stick of incense, one lamp from the side, no draft allowed. I held my breath for longer than I should have. #abstract #macro",
        ("smoke_trails",),
        comments=(
            "There is a swan on the left, and it is looking at itself.",
            "> I saw a violin. Now I cannot get rid of the swan.",
            "How many frames until it curled like that?",
            "> Two hundred and six, and a smoke alarm.",
            "The green is so soft. Is that the lamp or did you tint it?",
            "> A green bottle in front of the lamp.",
        ),
    ),
    Story(
        "huda_haddad",
        "سألت البائع عن الأزرق، فقال: هذا للعين لا للقدر. #سوق #بهارات #travel",
        ("market_spices",),
        language="ar",
        comments=(
            "أشم الكمون من هنا!",
            "> وأنا رجعت إلى البيت ورائحته في شعري.",
            "والأحمر على اليمين، فلفل حار أم بابريكا؟",
            "> بابريكا مدخّنة، واشتريت منها أكثر مما أحتاج كالعادة.",
        ),
    ),
    Story(
        "camille_girard",
        "Avant la confiture, je pose toujours les tranches sur la table lumineuse des enfants. Ils trouvent que c'est du gâchis de table. #cuisine #agrumes",
        ("citrus_slices",),
        language="fr",
        comments=(
            "On dirait des vitraux ! Le pamplemousse surtout.",
            "> C'est le plus beau et c'est celui que personne ne veut manger.",
            "Tu mets le citron vert dans la même marmite ?",
            "> Juste le zeste, à la fin. Sinon il prend toute la place.",
        ),
    ),
    Story(
        "felix_ashby",
        "Day one of the residency. They gave me an electric typewriter and a lamp, and keep my phone until dinner. By noon I had a page and a half, and no idea of the news. #writing #blackandwhite",
        ("person_at_typewriter",),
        comments=(
            "That shadow is doing half of the writing.",
            "> It has better ideas before ten than I do.",
            "What do you do about mistakes? No delete key.",
            "> I have discovered the letter x.",
            ">> xxxxxxxx indeed.",
            "Electric ones hum. Does it bother you, or does it keep you company?",
            "> It waits with me. When I stop for long, it sounds impatient.",
        ),
    ),
    Story(
        "kavya_menon",
        "Half past six, and the far hills not yet switched on. My aunt walks these rows without looking down. #tea #landscape",
        ("tea_gardens",),
        comments=(
            "The rows follow the hill like a fingerprint.",
            "How long until this is in a cup?",
            "> Plucked this morning, withered tonight, rolled tomorrow. You could drink it on Thursday.",
            ">> Setting my alarm for Thursday.",
            "We stayed in a bungalow above such a slope. The mist came in through the kitchen and left by the front door.",
            "> It is in our kitchen right now.",
        ),
    ),
    Story(
        "joana_barros",
        "Água pelo queixo, câmara por cima da cabeça, e o sol a ir-se embora sem esperar por ninguém. #mar #sunset",
        ("sea_sunset",),
        language="pt",
        comments=(
            "Estas ondinhas pretas parecem montanhas vistas de avião.",
            "E a câmara, sobreviveu?",
            "> Sobreviveu. O telemóvel é que ficou a dormir em arroz.",
            "Que inveja. Aqui o mar está a onze graus e eu só meto os pés.",
            "> Aqui está a treze. Eu é que não tenho juízo.",
        ),
    ),
)

WITHOUT_PHOTOS: tuple[Story, ...] = (
    Story(
        "emre_kaya",
        "18 grams in, 36 out, 27 seconds, and still sour. What am I missing? #coffee #espresso",
        comments=(
            "How fresh are the beans? Mine were like that until the second week.",
            "> Roasted on Monday. So the answer may be 'wait'.",
            "A degree or two hotter, before you touch the grind.",
            "> That was it! 94, and the lemon is gone.",
            "+ Write it on the machine. You will forget. I forgot twice.",
        ),
    ),
    Story(
        "emre_kaya",
        "My grandfather boiled it twice in a copper pot, and never once asked about notes of jasmine. I have a scale with a timer, and his was better. #coffee",
        comments=(
            "The copper pot is half of it. Do you still have it?",
            "> My cousin does. Negotiations are under way.",
            "Notes of pot.",
            "And nobody was allowed to stir after the foam came up. Nobody.",
        ),
    ),
    Story(
        "chioma_eze",
        "The bug was a time zone. It is always a time zone. #code",
        comments=(
            "Unless it is a cache.",
            "+ Or the cache of a time zone. Two weeks of my life.",
            "Which one was it this time? We had a customer in Kathmandu, at five hours and forty-five minutes.",
            "> Lord Howe Island. Its daylight saving time is half an hour.",
            ">> Half an hour! That is just cruel.",
        ),
    ),
    Story(
        "chioma_eze",
        "Deleted 900 lines today and all tests still pass. Either I am very good or the tests are not. #code",
        comments=(
            "Break one line on purpose before you go home. If nothing turns red, you have your answer.",
            "> Two turned red. I am going to sleep well.",
            "Frame the diff.",
        ),
    ),
    Story(
        "hanna_wrona",
        "Found a train ticket from 1987 in a second-hand paperback, at page 212, where I also wanted to stop reading. #books",
        comments=(
            "From where to where?",
            "> Lublin to Gdynia, one way, second class. I hope that there was somebody on the platform.",
            "Did you read on past 212?",
            "> I did. It gets good at 240. I put the ticket back in at 239, as a hint.",
            "I leave notes in mine on purpose. One came back to me eleven years later.",
        ),
    ),
    Story(
        "duarte_moura",
        "Learning the cello at forty-four. Week nine: the neighbor below has stopped knocking and started requesting. #music #cello",
        comments=(
            "What does the neighbor want to hear?",
            "> Anything without the A string.",
            "Forty-one here, and it is the trombone. I practice in the car.",
            "> In the car! Where does the slide go?",
            ">> Out of the window, on the passenger side.",
        ),
    ),
    Story(
        "soren_holm",
        "Headwind out, headwind back. I have measured it with three apps and a wet finger. #cycling",
        comments=(
            "It turns around at noon and waits for you at the bakery. Known phenomenon.",
            "> I did stop at the bakery.",
            ">> There you have it.",
            "What does a tailwind feel like? Asking from the coast.",
        ),
    ),
    Story(
        "soren_holm",
        "A stranger lent me a pump on the ferry road and rode off before I could give it back. Red, with a wooden handle. If it is yours: it is in my bag, every day. #cycling",
        comments=(
            "You carry it now. That is how the pump works.",
            "My uncle has lost a red one with a wooden handle, but in 1994.",
            "> Does your uncle have a white beard and a very straight back?",
            ">> I need to make a phone call.",
        ),
    ),
    Story(
        "amara_brooks",
        "My aunt's recipe says 'flour, until it is right'. Three attempts. It is not yet right. #cooking #baking",
        comments=(
            "It should come off the bowl and stick to you a little. That is what mine means by 'right'.",
            "> Attempt four stuck to the dog. Progress.",
            "Ask her to do it with a scale underneath, when she is not looking.",
            "+ We tried that with my mother. She noticed, and put in extra to spite us.",
        ),
    ),
    Story(
        "owen_penrose",
        "Clear sky forecast for Saturday. I do not trust it, but everything is charged and the folding chairs are in the car. What should I show people first? #astronomy",
        comments=(
            "The moon, even if it washes out the rest. Nobody forgets the first crater.",
            "> The moon it is, and the washed-out rest after the soup.",
            "Say it quietly. It can hear you.",
            "Let the children find something by themselves. The Pleiades are hard to miss.",
            "> One of them is nine and knows more than I do. She gets the good chair.",
        ),
    ),
    Story(
        "felix_ashby",
        "Threw away eleven pages today and kept one sentence. It is a good sentence. It is about a spoon. #writing",
        comments=(
            "May we see the sentence?",
            "> Not before it has a second one to stand next to.",
            "Eleven to one is better than my year.",
            "Keep the pages in a drawer. My best chapter was in the bin of an earlier one.",
            "> They are under the short leg of the desk. It counts as keeping.",
        ),
    ),
    Story(
        "kavya_menon",
        "If the kettle has boiled twice, start again with fresh water. My aunt can tell from the next room, by the sound. #tea",
        comments=(
            "By the sound? What does the second one sound like?",
            "> Duller, she says. I hear nothing, and I make the tea again.",
            "Chemistry teacher here: less dissolved air. Your aunt is right.",
            "> I am going to read this to her, and there will be no living with her.",
        ),
    ),
    Story(
        "joana_barros",
        "Clube da água fria, manhã trinta e quatro: alguém trouxe bolos de canela e apareceu o dobro das pessoas. #mar",
        language="pt",
        comments=(
            "E quantas entraram mesmo na água?",
            "> As do costume. As outras seguraram nas toalhas, com a boca cheia.",
            "Por um bolo de canela eu nado. Pouco, mas nado.",
        ),
    ),
    Story(
        "camille_girard",
        "La tarte est tombée à l'envers. Personne n'a rien dit, tout le monde en a repris. #cuisine",
        language="fr",
        comments=(
            "C'est comme ça que la tatin est née, paraît-il.",
            "> Alors je dépose un brevet : tarte aux poires, version carrelage.",
            "Le silence à table, c'était par politesse ?",
            "> C'était la bouche pleine. J'ai vérifié.",
        ),
    ),
    Story(
        "aiko_mori",
        "うちの猫、今日もプリンターの上で会議中。議題は缶詰の件。 #猫",
        language="ja",
        comments=(
            "紙が出てくるたびに驚く顔が見たいです。",
            "> 毎回です。そして毎回、わたしのせいにされます。",
        ),
    ),
    Story(
        "greta_brandt",
        "Die Zucchini haben die Macht übernommen. Vor der Tür steht ein Korb, bitte bedient euch, bitte auch die Nachbarn gegenüber. #garten",
        language="de",
        followers=True,
        comments=(
            "Wir haben gestern heimlich zwei dazugelegt. Entschuldigung.",
            "Mein Enkel hat drei mitgenommen, als Bowlingkugel, Schwert und Telefon.",
            "Mit Walnüssen und viel Zitrone als Kuchen, ehrlich.",
        ),
    ),
    Story(
        "zora_bell",
        "Question for the seed savers: paper envelopes or jars? My kitchen is damp, and last year I lost all of my bluebonnets. #wildflowers #seeds",
        comments=(
            "Jars, with a spoonful of dry rice in each. Change the rice at New Year.",
            "Envelopes, inside a biscuit tin, in the coldest room. And write the year on them, in pencil.",
            "> The coldest room is the kitchen. Jars and rice it is!",
            "I can send you bluebonnets. I saved a whole shoebox.",
            "> That is very kind. I have Indian blanket to trade.",
        ),
    ),
)


class Correspondence(NamedTuple):
    """Direct messages between the demo login (the hero) and a member of `people.CAST`.

    The first one was sent `hours` ago. Messages of the hero begin with `> `.
    """

    member: str
    hours: float
    lines: tuple[str, ...]


CORRESPONDENCE: tuple[Correspondence, ...] = (
    Correspondence(
        "nora_fenwick",
        75,
        (
            "A flea market box gave me a print of Tremont Street, 1911. Would you take the same view for me?",
            "> With pleasure. Send me a scan, and I will find the corner.",
            "The church steeple is on the left, and a horse on the right. You may leave out the horse.",
            "> Found it. A bakery stands where your photographer stood. I brought him a roll.",
        ),
    ),
    Correspondence(
        "marcus_coleman",
        30,
        (
            "> How long did you expose the Roebling at night?",
            "Eight seconds, with the camera on my lunch box. In the ninth, the patrol comes by.",
            "> I am buying a lunch box.",
        ),
    ),
    Correspondence(
        "astrid_dahl",
        4,
        (
            "You live in Boston: can one still photograph the staircase of the public library?",
            "> Before ten, without a tripod. The lions do not mind.",
            "Then number 118 is booked for the spring!",
        ),
    ),
)
LIST = ("Architecture", ("astrid_dahl", "mateo_navarro", "ginevra_conti", "felix_ashby", "till_seidel"))
"""Title of the hero's list, and its members."""
FOLLOWED_TAGS = ("birds", "street")
"""Tags that the hero follows."""
