"""Captions, posts and replies of a demo network, drawn without repetition until a table is exhausted.

`{a|b}` means either (`expand`). Posts without a photo list their replies as `text >> reply >> reply`; posts in other
languages are keyed by language and `kind/mood` or interest.
"""

# ruff: noqa: E501 - a text and its replies stay on one line, as rows of a table

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

CAPTIONS: dict[str, tuple[str, ...]] = {
    "mountains": (
        "{Six|Five|Seven} hours up, four hours down, knees filing a complaint. Worth every step. #hiking",
        "Nobody at the hut, one bowl of soup left, and this outside the door. #mountains",
        "The kind of view that makes you forget you left the {stove|lights} on at home. #mountains #hiking",
        "First trip with the new boots. Blisters: {two|three}. Regrets: none. #hiking",
        "I counted the ridges and gave up at {five|six}. #mountains",
        "We turned back {an hour|half an hour} before the top because of the wind. Still the best day of the month. #hiking",
        "My phone says {1,140|1,320|980} metres of climbing. My legs say more. #trail #mountains",
        "Came round the last bend and just stopped talking. #landscape",
    ),
    "sea": (
        "Swam before {work|breakfast}. {14|15|13} degrees, which is {brave|foolish} for me. #sea #coldwater",
        "Sat here until the ferry lights came on. #sea",
        "I keep {three|four} years of photos of this exact horizon and no two match. #sea #horizon",
        "The water was so still that you could hear people talking on the other {side of the bay|jetty}.",
        "Lunch on the harbour wall, with company that wanted my {chips|sandwich}. #coast",
        "Moved to the coast for a year. That was {nine|six|eleven} years ago. #sea",
        "Wind dropped to nothing, so we drifted. Nobody minded. #sailing",
    ),
    "city": (
        "View from the {bridge|ferry|far bank} tonight. Every window is somebody's {dinner|evening}. #city #nightwalk",
        "Missed the last tram and got this in exchange. #citylights",
        "Long exposure, short patience. {Eight|Ten} seconds on a wobbly railing. #nightphotography",
        "I moved here for one year. The skyline had other plans. #city",
        "There is a spot by the river where the whole town fits into one frame. Not telling where. #skyline",
        "Trying to count the lit windows with my daughter. We made it to {212|164} before bedtime. #city",
    ),
    "forest": (
        "Ten minutes from the bus stop and not one sound that people made. #forest",
        "{Walked in with a headache, walked out without one|Came for mushrooms, stayed for the light}. #forest #walks",
        "The dog insisted on this path and the dog was right. #woods",
        "Light like this lasts about {four|six} minutes. I missed three of them looking for the lens cap. #forest #photography",
        "Old trees make good neighbours. #forest",
        "Heard a woodpecker, {saw a jay|met a fox}, spoke to nobody. A perfect {Sunday|morning}. #woods",
    ),
    "desert": (
        "You climb two steps and slide back one. The top is still worth it. #desert #travel",
        "My footprints were gone by the time I turned round. #dunes",
        "There is sand in everything I own, and there will be sand in it {forever|for years}. #desert",
        "Our guide said: walk where the edge is sharp, it carries. He was right about that and about the tea. #travel",
        "Silence has a sound here. I had read that and thought it was {poetry|nonsense}. #desert",
        "Shape, shadow, nothing else. #minimal #dunes",
    ),
    "coffee": (
        "My best leaf so far. Please ignore the other {eleven|nine} cups. #latteart #coffee",
        "New beans from the roaster round the corner: {apricot|blackcurrant|honey}, then chocolate. #coffee",
        "Five quiet minutes before the {children wake up|first meeting}. #coffee #morning",
        "Changed the grind by one click and it is a different drink. #homebarista",
        "Today's plan fits into one cup. #coffee",
        "The café has no {wifi|music} and it is always full. Draw your own conclusions. #coffee",
        "Is it still {my first|only one} coffee if the cup is this big? #coffee",
    ),
    "fruit": (
        "Market haul, {half|a third} of it eaten on the way home. #market #food",
        "Too pretty to cook. Cooking them anyway. #kitchen",
        "Bought {six|five} because the man at the stall said they would not travel. Mine travelled {four|six} streets. #market",
        "Marmalade weekend. The whole staircase smells of it. #preserves #kitchen",
        "Still life, two minutes before it became a {cake|dessert}. #baking",
        "Grandmother's bowl, neighbour's tree. #homegrown",
    ),
    "flowers": (
        "{Three|Two} years of nothing, and then this on a {Tuesday|Thursday}. #garden",
        "Got down on my knees for the picture and needed help to get up again. #garden #macro",
        "The label said 'low growing'. It is up to my {shoulder|chin}. #garden",
        "Grown from a cutting that somebody gave me in an envelope. #garden #flowers",
        "The bees found it {before|hours before} I did. #flowers #bees",
        "Bought for the kitchen table, photographed {forty|thirty} times. #flowers",
    ),
    "aurora": (
        "Alert at {23:10|22:40}, in the car at {23:14|22:46}, speechless at midnight. #aurora",
        "It moves. No photo tells you how it moves. #northernlights",
        "Waited {four|five} nights. On the last one it danced for an hour. #aurora #nightsky",
        "{Minus eleven|Minus fourteen}, two dead batteries, one frame that I love. #aurora",
        "We all said 'wow' in our own languages. #northernlights #travel",
    ),
    "rain": (
        "Best seat on the {bus|tram}: by the window, when it pours. #rain",
        "Forgot the umbrella, found a photo. #rain #bokeh",
        "Waiting it out with a {book|podcast} and no hurry at all. #rain",
        "The city is better out of focus. #bokeh #night",
        "It has rained for {six|five} days and I have started to like it. Send help. #rain",
    ),
    "snow": (
        "First tracks, if you do not count the hare. #snow #winter",
        "You can hear the snow stop. #winter",
        "The road is closed, the stove is warm, nobody can reach us. #cabin #snow",
        "Borrowed skis, borrowed gloves, my own {bruises|grin}. #winter",
        "{Twenty|Thirty} centimetres overnight and the whole valley went quiet. #snow",
    ),
    "abstract": (
        "Ink, water, {soap|oil} and a macro lens. Kitchen physics. #abstract #macro",
        "No filter, no computer: {paint on glass|silk under a lamp}. #abstract",
        "My phone tagged this as 'food'. #abstract",
        "Number {17|23|31} of the series. I think it is getting somewhere. #art #abstract",
        "What do you see? I say a {fish|map|face asleep}. #abstract",
    ),
    "facade": (
        "Same street for {ten|twelve} years and I only looked up today. #architecture",
        "Somebody waters those geraniums every morning at seven. I wave now. #architecture #street",
        "Shadow at {11:40|16:20}. Ten minutes later it was a different wall. #geometry",
        "The second window from the left is where I learned to {read|cook}. #hometown",
        "Straight lines, crooked {street|plumbing}. #architecture",
        "Shutters: the original {dark mode|air conditioning}. #architecture",
    ),
    "stars": (
        "{Twenty-five|Thirty} seconds, f/2, and a thermos. #astrophotography",
        "Slept outside. Well: lay outside. #stars #camping",
        "My eyes took {twenty|fifteen} minutes to adjust and then there was no room between the stars. #nightsky",
        "That light left before anybody I know was born. #stars",
        "New moon, no wind, {two|three} shooting stars. I wished for a warmer sleeping bag. #astrophotography",
    ),
}

MOOD_CAPTIONS: dict[str, tuple[str, ...]] = {
    "mountains/dusk": (
        "Ten minutes of {pink|violet}, then head torches. #dusk #mountains",
        "The last light went up the slope like a tide. #alpenglow",
    ),
    "mountains/dawn": (
        "{Alarm at 3:40|Up at 4}. I complained until the sun came. #sunrise #mountains",
        "Morning made of paper cut-outs. #sunrise",
    ),
    "mountains/blue": ("Blue hour, the ridges like folded paper. #bluehour #mountains",),
    "mountains/storm": ("Grey all day, and grey turned out to have {forty|a hundred} shades. #weather #mountains",),
    "sea/sunset": (
        "The sky did the thing again. #sunset #sea",
        "Everybody on the beach stood up at the same moment. #sunset",
    ),
    "sea/moon": (
        "Moonrise over flat water. I heard a fish jump {twice|once}. #moon #sea",
        "A road of silver, straight to my feet. #moonlight",
    ),
    "sea/noon": ("Blue on blue on {blue|white}. #sea #summer",),
    "sea/mist": ("No horizon today, only a guess. #mist #sea",),
    "city/dusk": ("Sky in {peach|apricot}, glass in violet. The commute can be kind. #dusk #skyline",),
    "city/night": ("One a.m. and the river still has all its lights on. #citynight",),
    "city/blue": (
        "Between the office lights and the street lights there is a quarter of an hour of this blue. #bluehour #city",
    ),
    "forest/green": ("Every green there is, and rain on {half|most} of them. #forest #spring",),
    "forest/autumn": (
        "The beeches have switched the lights on. #autumn #forest",
        "Walked through an entire jar of honey. #autumn",
    ),
    "forest/fog": ("Fog so thick that the trees {arrived one by one|introduced themselves}. #fog #forest",),
    "desert/gold": ("Midday, {forty-one|thirty-nine} degrees, no shade but my hat. #desert",),
    "desert/rose": ("At dusk the dunes go the colour of {peaches|seashells}. #desert #dusk",),
    "desert/night": ("Dunes by moonlight: blue, and colder than you think. #desert #moon",),
    "coffee/slate": ("Dark table, white cup, {Monday|deadline}. #coffee",),
    "coffee/linen": ("Slow morning on a clean tablecloth. It will not stay clean. #brunch #coffee",),
    "fruit/oranges": ("The first good oranges of the season. Sticky to the elbows. #oranges",),
    "fruit/lemons": ("When life gives you lemons, check whether your neighbour lost {some|a bag}. #lemons",),
    "fruit/plums": ("Plums! {Four|Five} kilos of them! I have made a mistake! #plums #jam",),
    "fruit/apples": ("Apples from the tree that my grandfather called 'the lazy one'. #apples",),
    "flowers/pink": ("The pink dahlia finally opened and it is the size of a {plate|face}. #dahlia #garden",),
    "flowers/yellow": ("A small sun by the back door. #flowers #yellow",),
    "flowers/white": ("White flowers are for the evening, when they {glow|stay on}. #garden",),
    "flowers/violet": ("Violet is the hardest colour to photograph. Attempt {nine|fourteen}. #flowers",),
    "aurora/green": ("Green curtains from one side of the lake to the other. #aurora",),
    "aurora/violet": ("The violet edge is rare, they told us. We got {an hour|twenty minutes} of it. #aurora",),
    "rain/neon": ("Neon and rain, the oldest couple in town. #rain #neon",),
    "rain/amber": ("All the street lamps turned to honey. #rain #bokeh",),
    "rain/dawn": ("Rain before sunrise, everything in pastel. #rain #morning",),
    "snow/bright": ("Blue sky after a week of white. I need sunglasses for my {kitchen|tea}. #snow #sun",),
    "snow/pink": ("Pink snow at {four|half past three}, dark by five. #winter #dusk",),
    "snow/blue": ("Winter evenings are not black, they are this blue. #bluehour #snow",),
    "abstract/ember": ("Embers, or {rust|saffron}, or both. #abstract #warm",),
    "abstract/ocean": ("An ocean in a baking tray. #abstract #blue",),
    "abstract/orchid": ("Orchid, plum, a little {gold|peach}. #abstract #colour",),
    "abstract/stone": ("Stone that forgot it was solid. #abstract #texture",),
    "facade/ochre": ("Ochre wall, {rust-red|brown} shutters, lunchtime shade. #facade #colour",),
    "facade/white": ("White walls, blue shutters, a breeze through every room. #whitewash",),
    "facade/rose": ("They painted it {rose|pink} in 1962 and nobody has dared to change it. #facade",),
    "facade/concrete": ("In defence of concrete: look what it does with light. #brutalism #architecture",),
    "stars/milky": ("You could read the Milky Way like a {river|map}. #milkyway",),
    "stars/teal": ("There was airglow, so the sky came out {teal|sea green}. #astrophotography #airglow",),
    "stars/dusk": ("The last red at the edge, and the galaxy already up. #nightsky",),
}

ALTS: dict[str, str] = {
    "mountains": "Mountain ranges one behind the other, dark firs in front",
    "sea": "Open sea to the horizon, light glittering on the water",
    "city": "A skyline with lit windows, mirrored in a river",
    "forest": "Tall trunks in a forest, rays of light between them",
    "desert": "Sand dunes with sharp crests and long shadows",
    "coffee": "A cup of coffee from above, with a leaf drawn in the milk",
    "fruit": "Fruit on a table, from above",
    "flowers": "A large blossom before a garden out of focus",
    "aurora": "Northern lights above black hills and firs",
    "rain": "Street lights out of focus behind a window with raindrops",
    "snow": "A snow field with firs",
    "abstract": "Flowing bands of colour, very close",
    "facade": "A house front with rows of windows, half in shadow",
    "stars": "The Milky Way above a dark hill",
}
MOOD_ALTS: dict[str, str] = {
    "dusk": "at dusk, violet and orange",
    "dawn": "in pale morning light",
    "blue": "in the blue hour",
    "storm": "under grey clouds",
    "sunset": "at sunset",
    "moon": "by moonlight",
    "noon": "at midday",
    "mist": "in mist",
    "night": "at night",
    "green": "in green",
    "autumn": "in autumn colours",
    "fog": "in fog",
    "gold": "in golden light",
    "rose": "in rose tones",
    "oak": "on an oak table",
    "slate": "on a dark table",
    "linen": "on linen",
    "oranges": "oranges",
    "lemons": "lemons",
    "plums": "plums",
    "apples": "red apples",
    "pink": "in pink",
    "yellow": "in yellow",
    "white": "in white",
    "violet": "in violet",
    "amber": "in amber",
    "neon": "in neon colours",
    "bright": "under a bright sky",
    "ember": "red and orange",
    "ocean": "blue and green",
    "orchid": "violet and pink",
    "stone": "grey and sand",
    "ochre": "in ochre",
    "concrete": "in concrete",
    "milky": "in deep blue",
    "teal": "in teal",
}


MUSINGS: dict[str, tuple[str, ...]] = {
    "hiking": (
        "Packing rule: lay out everything you need, then put half of it back. Then take the {rain jacket|warm hat} again. #hiking >> Half back, and still too much, every time. >> You forgot the chocolate, and so does everybody once.",
        "Question for the hill people: poles or no poles on a steep descent? My knees are asking. #hiking >> Poles. Always poles. My physio agrees. >> One pole and a free hand for the biscuits.",
        "The trail app says 'moderate'. The trail app has never met me. >> Ours said 'family friendly'. Which family?",
        "Nothing tastes like an ordinary cheese sandwich at {2,400|1,900} metres. #hiking >> Add a pickle and I am there. >> It is the altitude. Or the four hours before it.",
        "Hut booked for {September|the long weekend}. Now to become fit. #mountains >> Which hut? We are there that week too! >> Stairs. Every stair you meet, from now on.",
        "Met a man of eighty-one on the pass. He asked whether I needed {help|a biscuit}. >> I know him! Everybody up there knows him. >> Goals, honestly.",
        "Boots resoled for the third time. The cobbler and I are on first-name terms. #gear >> Mine are on soles number five, same laces. >> Keep that cobbler.",
        "The forecast changed {four|five} times since breakfast. We go anyway, with all the layers. #weather #hiking >> The mountain has not read the forecast either.",
        "Learnt the names of {twelve|nine} peaks that I have looked at all my life. #mountains >> Now they will look back at you.",
        "Map, compass, no phone: we got lost twice and had the best day of the {summer|year}. #navigation >> Lost is only an unplanned viewpoint.",
    ),
    "sea": (
        "The harbour office has a new {clerk|voice on the radio} and she reads the forecast like poetry. #sea >> I would subscribe to that forecast. >> Variable three or four, sighed softly.",
        "Small craft warning until {Thursday|Friday}, so I am repainting the dinghy. Again. #sailing >> What colour this time? >> That dinghy must be mostly paint by now.",
        "Learnt a new knot today. Cannot undo it. #sailing >> A knot that you cannot undo is simply a decision. >> Congratulations, you have invented splicing.",
        "Cold water club, morning {34|57}: somebody brought cinnamon rolls and attendance doubled. #coldwater >> Cinnamon rolls are the backbone of every club. >> I would swim for one. A short swim.",
        "Tide tables are my favourite genre. >> I never see the ending coming. >> Twice a day and always a cliffhanger.",
        "A seal followed us out to the buoy, looking like a retired headmaster. #sea >> He is checking whether you have done your homework.",
        "Picked {two|three} bags of plastic off the beach before breakfast and met half the village doing the same. #beachclean >> We do Sundays here. It adds up!",
        "The ferry was {forty|fifty} minutes late and nobody complained, because of the dolphins. #ferry >> The only delay I accept.",
        "Can you be seasick from watching a film about boats? Asking for myself. >> Yes. Ginger tea, and a film about trees.",
    ),
    "travel": (
        "Night train in a top bunk, three strangers, one shared {bag of cherries|chess set}. I recommend it. #nighttrain #travel >> Top bunk is the only bunk. >> The breakfast in the plastic tray is part of it.",
        "The best map I have is drawn on a napkin by a {bus driver|baker}. #travel >> Napkin maps never run out of battery. >> Frame it after.",
        "I always pack a book in the language of the place and read the same page {for a week|every night}. >> By Friday you know that page by heart, which is how poets start.",
        "Four words get you far anywhere: hello, please, thanks, delicious. #travel >> 'Delicious' alone has opened doors for me. >> Add 'sorry' and you can ride a bus.",
        "Missed a connection, found a town. #slowtravel >> Some of my favourite places were missed connections. >> Which one? I collect those.",
        "What is the one small thing you always bring home? I bring {salt|stamps|matchboxes}. #travel >> Spices. And always one ugly mug. >> A spoon. I have forty-one spoons.",
        "Learnt to say 'without sugar' in {six|five} languages and still got sugar in four. >> That is how they say that they like you.",
        "My rule: the first meal in a new town is wherever the {bus drivers|taxi drivers} eat. #food #travel >> It has never failed me. >> Same, except for nurses and soup.",
        "Border guard: 'Purpose of visit?' Me: 'A {bookshop|pie}.' He nodded. >> A man who has been there.",
    ),
    "stargazing": (
        "Clear sky forecast for {Saturday|tonight}. I do not trust it, but I have charged everything. #astronomy >> Do not say it out loud, it can hear you. >> Clouds here, naturally. I just bought a new eyepiece.",
        "Saturn through a {second-hand|borrowed} telescope: it looks like a sticker. I laughed out loud. #astronomy >> The first look at Saturn ruins you for television. >> I checked whether somebody had drawn it on the lens.",
        "Dear neighbour, your garden lamp can be seen from orbit. With love, the person in the deckchair. #darksky >> I gave mine a shade as a birthday present. It worked. >> Bring cake when you ask. Bring a lot of cake.",
        "Taught the scouts to find north without a phone. One asked where the stars keep their {batteries|names}. #stars >> That one will be an astronomer. >> Good question though.",
        "The Perseids owe me from last year. #meteors >> They owe everybody. Bring a blanket and forgive them.",
        "Dark adaptation takes twenty minutes and is lost in one glance at a screen. There is a lesson in it. #astronomy >> Red torch! Red torch solves half of it.",
        "Found Andromeda with bare eyes and waved. It will arrive in two and a half million years. #galaxy >> Polite of you to start early.",
        "The club telescope is older than all of us and it was {built in a garage|ground by hand}. #astronomy >> Those mirrors hold up. Ours is from 1961.",
    ),
    "coffee": (
        "Descaled the machine and now everything tastes of {hope|lemon}. #coffee >> Two more tanks of water. Then only hope.",
        "Hot take: the second-cheapest grinder is the right grinder. #homebarista >> I own the fourth-cheapest and will now be quiet. >> Correct, until you visit a friend with a better one.",
        "Filter at home, espresso out, instant in a tent. Know your context. #coffee >> Instant in a tent is a five-star drink, I will not be argued with.",
        "The office machine has learned to say 'descale me' in {four|five} languages. Nobody answers in any. >> Ours gave up and only blinks.",
        "18 grams in, 36 out, {27|29} seconds, and still sour. What am I missing? #espresso >> Try a degree hotter before you touch the grind. >> Finer. Then finer again. >> How fresh are the beans?",
        "Decaf after four. I have become a person who says that. #coffee >> After two here. It gets earlier.",
        "My barista drew a swan. I asked for a leaf. We are both {proud|ashamed}. #latteart >> A swan is a leaf with ambition.",
        "Grandfather made it in a pot, boiled it twice, and never once asked about notes of {jasmine|bergamot}. #coffee >> And it was always the best one, was it not? >> Notes of pot.",
    ),
    "cooking": (
        "Onions, slowly. That is the whole recipe, the rest is {decoration|detail}. #cooking >> An hour. Nobody believes me, but an hour.",
        "Tried to halve a recipe and halved everything but the chilli. We are coping. #kitchen >> Yoghurt. Quickly. >> That is called a house style.",
        "Sourdough update: he is called {Gerald|Doughlores} and he is thriving. #sourdough #baking >> Does he take visitors? >> Mine died in April. Treasure yours.",
        "A sharp knife, a wet towel under the board, and the radio. #cooking >> Radio on, phone off. Yes. >> The wet towel! Nobody tells you about the wet towel.",
        "My aunt's recipe says 'flour, until it is right'. Thanks. #baking >> 'Until it is right' is the most accurate unit there is. >> Mine says 'bake'. That is the whole line.",
        "What do you do with {half a celeriac|a whole celeriac}? Asking for a fridge. #cooking >> Remoulade! Lots of mustard. >> Roast it whole, an hour and a half. Thank me later.",
        "Dumplings with the neighbours tonight: two hundred folded, {nine|fourteen} good-looking. #food >> The ugly ones taste better, that is known. >> Which filling?",
        "I put a lid on it and walked away, and it came out better than ever. There may be a {moral|pattern}. >> I hover. I need to stop hovering.",
        "Soup weather has officially begun in {this kitchen|our house}. #soup >> It never ended in ours. >> What is first? Ours is lentil.",
        "Tasted the first course of our {street|school} supper club: eleven cooks, one oven, no injuries. #food >> One oven! Who held the schedule?",
    ),
    "gardening": (
        "Slugs {3|5}, lettuce 0. #garden >> Copper tape. Did nothing. Beautiful though. >> Half-time, do not give up.",
        "Planted the tulips too late last year and they came up too late, politely. #garden >> Punctual in their own way.",
        "Compost is just slow cooking. #garden #compost >> Low heat, many hours, worms on the side.",
        "Swapped six tomato seedlings for a {fig cutting|jar of honey} over the fence. The economy works. #garden >> I would trade you a courgette. I would trade everybody a courgette.",
        "It has not rained for {sixteen|twelve} days. I have opinions about the watering can. #garden >> Evenings, at the root, and mulch. Then a small dance.",
        "There is a robin who supervises everything I dig. #garden #birds >> The robin is management. >> Ours takes breaks at ten and three.",
        "First ripe tomato. Divided into {five|four} equal parts, with ceremony. #homegrown >> Ours are still green and smug about it. >> With salt, I hope.",
        "Sowed in rows, came up in {clouds|heaps}. Nature edits. #garden >> The carrots have voted.",
        "A neighbour I had never spoken to told me how to prune the {pear|quince}. It took {two|three} hours and we never got to the tree. >> That is what pear trees are for.",
    ),
    "city": (
        "They are turning the {car park|petrol station} on our corner into a small park. I did not expect to be moved by a drawing of a bench. #city >> More benches. I would vote for benches. >> Ours has trees now. Five years and it is a different street.",
        "Learn the name of your bus driver. Mine is {Farid|Marta|Joana}. Everything got nicer. #city >> We said hello to ours for years and she came to our wedding.",
        "Walked home instead of taking the metro and found a {piano shop|bakery} I had passed underneath for years. #walking >> There is a whole city on top of the map. >> I have to try this.",
        "Every city should have more places to sit without buying something. #urbanism >> And one drinking fountain per sitting. >> The library steps, my friend.",
        "New bike lane! {400|600} metres of it! It ends in a wall! #cycling #city >> Ending in a wall is a bold design choice. >> Phase two is a door.",
        "Overheard on the tram: 'I am not late, I am on my own timetable.' #overheard >> I will be using that on Monday.",
        "Our block has a {sledge|drill} that belongs to everybody. It works because of a list on a nail. #neighbours >> The list on the nail is the whole of politics. >> We have a ladder and a cargo bike!",
        "At {six|half past five} in the morning the street sweepers own the city, and they whistle. >> I meet them coming off shift. It is the best hour.",
    ),
    "art": (
        "Threw away {eleven|seven} drawings today and kept one. That is the job. #drawing >> That is a great rate, keep going. >> Can I have one of the thrown ones?",
        "The difference between a studio and a mess is a {kettle|door}. #art >> Then mine is half a studio.",
        "Mixing a grey out of three colours is the closest I get to magic. #painting >> No black in the box, ever. >> Which three?",
        "Went to the museum for one painting. Sat in front of it for {an hour|forty minutes}. The guard brought me a chair. #art >> The guard with the chair is the best part. >> More people should do one painting a visit.",
        "Printing day: ink on my hands, ink on the cat. #printmaking >> Inky cat print edition when? >> A limited edition of one cat.",
        "Constraint for this week: two colours, no straight lines. Who is in? #design >> In! Two colours, here we go. >> Define straight.",
        "My {niece|nephew} looked at my abstract and said 'a cold breakfast'. It is now called Cold Breakfast. #art >> Best curator in town.",
        "Sketchbook number {40|33} begins. The first page is always the worst, so I spill tea on it. #sketchbook >> I start on page two. Problem solved.",
    ),
    "books": (
        "{Page 80|Chapter four} and nobody has done anything yet and I love it. #books >> Do not let them start. >> What is it? I want nothing to happen, too.",
        "The library here lets you borrow {seeds|ukuleles|cake tins}. And books. #library >> Yours is run by good people. >> Ours has a telescope!",
        "I reread one novel every {winter|summer} and it keeps changing. #reading >> Mine gets funnier. I get older. >> Which one?",
        "Found a train ticket from 1987 in a second-hand paperback. It went further than I did. #books >> I leave notes in mine, on purpose. >> Where to?",
        "Recommend me something short, strange and {kind|funny}. #reading >> Anything with a lighthouse in it. >> A book of fables, any country. Trust me.",
        "My to-read pile has become furniture. #books >> Mine holds up a lamp. >> Put a plant on it and call it finished.",
        "Book club argued about the ending until they put the chairs up. Best meeting {so far|this year}. #bookclub >> Which side were you on? >> We once finished ours in the car park.",
        "Reading aloud to somebody is the slowest and best way through a book. #reading >> We do a chapter while the other one cooks.",
        "The narrator is lying. I have known since page {twelve|nine}. I will not be stopping. #books >> They always are. Who is it this time?",
    ),
    "music": (
        "Learning the cello at {thirty-eight|forty-four}. The neighbours are learning patience. #music >> Forty-one here, and on the trombone. Solidarity. >> In a year they will miss the scales.",
        "There is a chord in the second movement that I would like to live in. #music >> Which chord? Bar number, please. >> With a window to the east.",
        "Band practice: {two|three} hours, of which one was tuning and one was soup. #band >> Soup is an instrument. >> Sounds like a tight set.",
        "Vinyl fair haul: {four|three} records, one of them on purpose. #vinyl >> The accidents are the good ones. >> Tell us the accidental one!",
        "The busker under the bridge plays Bach on a melodica and it works. #music >> I gave him my bus fare and walked. >> Bach survives everything.",
        "What was the first song you learnt by heart? Mine was an advert for {yoghurt|a bank}. #music >> A song about a goat. All eleven verses. >> The weather jingle. I can still do it.",
        "Choir on {Tuesday|Wednesday}. Sixty people breathing in at the same time never gets old. #choir >> That breath before the first note, yes! >> Alto here. We see you.",
        "Fixed the squeaky pedal and now the piano sounds wrong. >> Squeak is a texture. Put it back.",
    ),
    "cycling": (
        "Headwind out, headwind back. Science cannot explain it. #cycling >> The headwind lives in your tyres, I checked. >> Turn the bike round next time.",
        "{62|84|47} kilometres, one puncture, {two|three} slices of cake. A good ratio. #cycling >> Cake is a vehicle part. >> One slice per twenty, that is the law.",
        "Cleaned the chain. I feel {5 km/h faster|like a new person}. #bikes >> It will last until the first puddle. Enjoy!",
        "If you ring your bell and say thanks, the whole path becomes friendlier. Tested. #cycling >> I sing. It works, too.",
        "Commute by bike, day {100|200}. Rained on {nine|fourteen} times, which is less than anybody believes. #bikecommute >> Same here. People imagine a monsoon. >> Bravo! What shoes?",
        "A stranger lent me a pump and left before I could give it back. I owe the world a pump. #cycling >> You now carry the pump. That is how it works.",
        "My {eight|six}-year-old took the training wheels off herself, with my tools, before I was up. #bikes >> Hire her. >> She will be fine in life.",
        "There are two kinds of cyclists: those who have {locked|forgotten} the key inside something, and those who will. >> Bolt cutters, twenty minutes, a crowd. Never again.",
    ),
    "code": (
        "Deleted {400|900} lines today and everything still works. Best day of the {week|sprint}. #programming >> Deleting is the best kind of writing. >> Frame the diff.",
        "The bug was a time zone. It is always a time zone. #programming >> Unless it is a cache. >> It was the DNS of the time zone.",
        "Wrote the documentation first and found out that I did not understand the feature. Recommended. #python >> The cheapest review there is.",
        "Rubber duck debugging, but the duck is my {mother|flatmate}, and she has follow-up questions. #code >> Does she take on clients? >> A duck with a roadmap.",
        "Naming things took {an hour|all morning}. Writing them took ten minutes. #programming >> And tomorrow you will rename them. >> Time well spent, says whoever reads it.",
        "A test that fails one time in fifty is telling you something. Today it told me. #testing >> One in fifty is a race. Frame it when you find it. >> What did it say?",
        "Fixed a bug that I reported myself in {2019|2021}. Dear past me: you were right. #opensource >> I keep a file of bugs past me was right about. It is a humble file.",
        "Explained {recursion|git rebase} to my dentist. He had my mouth open, so it was mostly gestures. >> And did he rinse and repeat?",
    ),
    "animals": (
        "The cat has decided that the {printer|laundry basket} is hers. We live around it now. #cats >> Rent is due in tuna. >> Ours holds the bathroom sink.",
        "Foster dog day {3|5}: has learnt 'sit', 'wait' and where the cheese lives. #dogs >> Please keep us informed about the cheese. >> You are going to keep this dog.",
        "A hedgehog crossed the yard at {22:15|21:40}, exactly like yesterday. I set my watch by him. #hedgehog >> Hedgehog mean time. >> A bowl of water, he will thank you.",
        "Crows remember faces. I bring walnuts. I like my odds. #birds >> The crows talk about you. Kindly. >> Mine left me a button!",
        "The vet said 'a little chubby'. The cat heard it and is {furious|considering a lawyer}. #cats >> Chubby is a lifestyle. Scratch behind the ears from me.",
        "Swifts are back! {Eleven|Nine} over the roof tonight. #birds >> Here since Sunday! The sky is open again.",
        "Taught the parrot to say 'good morning'. He says it at {4:50|half past four}. #parrots >> He is technically right. >> Teach him 'five more minutes'.",
        "My neighbour's tortoise escaped at noon. We found him at six, {four|five} metres away. #tortoise >> A daring run.",
        "The old dog slept through the doorbell and the {post|thunder}, and woke up for the word 'ham', whispered. #dogs >> Selective hearing, the gift of age.",
    ),
    "photography": (
        "Shot one roll of film all month. {Four|Three} pictures I like. That is a better rate than digital. #film #photography >> Three a month is thirty-six good ones a year! >> Show us one?",
        "The best lens is the one that makes you take two steps forward. #photography >> Two steps forward, and then one more.",
        "Sorting {twelve|nine} years of photos. It is mostly clouds. #photography >> Clouds are a fine archive. >> Mine is mostly the same cat.",
        "Exercise: one street, one hour, one focal length. Show me yours. #photowalk >> Doing it on Sunday. >> I did it with one lamp post. Try it.",
        "Fixed the light leak with electrical tape and now I miss it. #film >> A light leak is a signature.",
        "Ask before you take a portrait. The picture gets better too. #photography >> And sometimes you get a story with it.",
        "The photo I walked {ten|twelve} kilometres for is blurred. The one I took by accident is on the wall. #photography >> Every wall I know is like that.",
        "Printed {six|eight} pictures, small, and posted them to people by letter. #photography >> Mine arrived and it is on the fridge! >> Paper is not dead, it is only slow.",
    ),
}


TO_PHOTO: dict[str, tuple[str, ...]] = {
    "mountains": (
        "Which {valley|pass} is this? I think I slept in that hut once.",
        "Those layers! How far can you see there?",
        "My calves hurt from looking at it.",
        "Adding it to the list. The list is now {nine|twelve} summers long.",
        "Was there still snow on the north side?",
        "I can smell the pines from here.",
    ),
    "sea": (
        "I can hear this.",
        "How cold was the water, honestly?",
        "I miss living near it. Post more.",
        "That light on the water is unreal.",
        "The horizon is straight! You have steadier hands than me.",
        "We must have been on the same beach, I was at the other end with {the dog|a thermos}.",
    ),
    "city": (
        "Is that from the old bridge?",
        "Somewhere in there I am doing the dishes.",
        "The reflection is better than the original.",
        "It used to be so much darker there. Lovely shot.",
        "How long was the exposure?",
        "My window is in this! {Third|Fourth} tower, no curtains.",
    ),
    "forest": (
        "Those rays!",
        "This lowered my pulse.",
        "Mushrooms yet?",
        "I would like to be standing right there with a {sandwich|notebook}.",
        "Looks like the opening of a good film.",
        "Which way to the talking fox?",
    ),
    "desert": (
        "The edge of that dune is drawn with a pen.",
        "How do you keep the sand out of the camera?",
        "That colour. I want a wall in that colour.",
        "Not a soul. How long were you out there?",
        "This makes me thirsty and happy.",
    ),
    "coffee": (
        "That is a proper leaf! Mine always turns into a {cauliflower|jellyfish}.",
        "Which beans?",
        "I can smell it. On my way.",
        "Now I need one. It is {ten|eleven} at night. Thanks.",
        "Milk temperature, please, the secret is the milk temperature.",
        "The cup alone is a good start to the day.",
    ),
    "fruit": (
        "Please tell me there will be jam.",
        "Look at that light. A Dutch painter would nod.",
        "I would have eaten them before the photo.",
        "Recipe?",
        "Where is that market? Ours only has the sad ones.",
        "Save me {two|one}.",
    ),
    "flowers": (
        "What is the variety? I need it.",
        "Mine are still sulking.",
        "It looks as if it were lit from inside.",
        "Teach me. I kill {mint|cactuses}.",
        "The bees must be queueing.",
        "How did you get the background so soft?",
    ),
    "aurora": (
        "I have wanted to see this since I was {seven|nine}.",
        "Did it really look that bright?",
        "Goosebumps.",
        "How cold? And was it worth it? Never mind, I can see that.",
        "We had clouds. Of course we had clouds.",
    ),
    "rain": (
        "This is exactly how I see without my glasses.",
        "Cosy.",
        "I can hear the tyres on the wet street.",
        "Every drop has its own little city in it.",
        "Now play some {jazz|slow piano}.",
    ),
    "snow": (
        "It is {31|28} degrees here and I am jealous.",
        "You can hear the quiet.",
        "Is there a fire going in there?",
        "Save some for us, we arrive on {Friday|Saturday}.",
        "That is a Christmas card. Do you sell prints?",
    ),
    "abstract": (
        "I see a {heron|coastline|sleeping cat}.",
        "How is this made? I cannot work it out.",
        "Would hang it over the sofa.",
        "Makes me want to touch it.",
        "The best one of the series.",
    ),
    "facade": (
        "That shadow!",
        "Which shutter squeaks? There is always one.",
        "Who lives there, and are they happy? I hope so.",
        "I love it when the sun does the composing.",
        "Shutters like my grandparents had.",
    ),
    "stars": (
        "How dark is it there? Bortle {2|3}?",
        "Single frame or stacked?",
        "I forget every time that this is up there, all day, too.",
        "Pin-sharp. What lens?",
        "We used to see it like this from the village.",
    ),
}

TO_ANYTHING: tuple[str, ...] = (
    "{Beautiful|Lovely|Wonderful}.",
    "Oh, this is {good|great|so good}.",
    "You made my {morning|evening|day}.",
    "{Saved|Kept} this.",
    "Yes to all of it.",
    "I laughed, then I read it to the {kitchen|whole office}.",
    "Same here!",
    "How do you always {find|catch} these?",
    "👏👏",
    "😍",
    "🔥",
    "Ha! 😄",
    "Needed this today, thank you.",
    "More of this, please.",
    "My {sister|brother|neighbour} has to see this.",
    "Looking at it for the {third|second} time now.",
    "This is why I still come here.",
    "Okay, that settles it, I am {going outside|taking the day off}.",
    "Quietly brilliant.",
    "{Love|I love} it 💛",
)

FROM_AUTHOR: tuple[str, ...] = (
    "Thank you! 🙏",
    "{Ha|Haha}, true.",
    "That is kind of you.",
    "{Yes|Exactly}!",
    "You know me too well 😅",
    "Next one is for you.",
    "🥰",
    "We should do this together some day.",
    "That made me smile.",
    "Coming from you, that means a lot.",
    "Right? I still think about it.",
    "😄",
    "I thought of you when I posted it.",
    "You always find the right words.",
    "Hold on, I am writing that down.",
)

AUTHOR_ON_QUESTION: tuple[str, ...] = (
    "Good question, I will find out.",
    "I will tell you {tomorrow|on Sunday}, it is a longer story.",
    "Come over and I will show you.",
    "Honestly? I have no idea 😄",
    "Sending you the details.",
    "I was hoping that nobody would ask.",
    "My secret, for {now|a week}.",
    "Ask me again when I have slept.",
    "Let me look it up and come back to you.",
)

ONWARD: tuple[str, ...] = (
    "I second that.",
    "You two 😄",
    "Following this thread closely.",
    "That is what I thought, too!",
    "{Agreed|So true}.",
    "Noted 📝",
    "Ha, same.",
    "This conversation is the best part.",
    "Well said.",
    "👆 this",
    "You beat me to it.",
    "Now I am smiling at my phone on the {bus|tram}.",
)

ONWARD_ON_QUESTION: tuple[str, ...] = (
    "Now I am curious too.",
    "I was about to ask that.",
    "Same question here.",
    "Asking for all of us.",
    "Waiting for the answer with tea.",
)


POSTS: dict[str, tuple[tuple[str, str], ...]] = {
    "es": (
        ("sea/sunset", "Hoy el cielo se puso de gala y nosotros en chanclas. #atardecer #mar"),
        ("facade/ochre", "La sombra de las doce en mi calle de siempre. #arquitectura"),
        ("coffee/oak", "Un café y después ya veremos. #café"),
        ("mountains/dawn", "Salimos a oscuras y llegamos con esto. No hace falta decir más. #montaña"),
        ("cooking", "Mi abuela: «échale sal hasta que te diga que pares». Nunca me ha dicho nada. #cocina"),
        ("books", "¿Un libro corto para un viaje largo? Se aceptan sugerencias. #lectura"),
        ("music", "Ensayo general: media orquesta resfriada y aun así sonó a gloria. #música"),
        ("city", "El panadero de la esquina ya sabe lo que quiero antes que yo. #barrio"),
    ),
    "pt": (
        ("sea/noon", "Maré baixa, pressa nenhuma. #mar"),
        ("fruit/lemons", "O limoeiro da vizinha passou do muro. Limonada para todos! #quintal"),
        ("city/dusk", "Fim de tarde visto da ponte, com a cidade a acender-se devagar. #cidade"),
        ("forest/green", "Meia hora de trilha e o celular sem sinal. Que alívio. #natureza"),
        ("music", "Aprendi três acordes novos e já me sinto perigosa. #violão"),
        ("cooking", "Pão de queijo saindo do forno. Quem vem? #cozinha"),
        ("animals", "O cachorro da portaria recebeu crachá. Merecido. #cachorros"),
    ),
    "de": (
        ("forest/autumn", "Herbstspaziergang: rein mit Kopfweh, raus mit Kastanien. #wald #herbst"),
        ("mountains/dusk", "Noch zehn Minuten bis zur Hütte, hieß es. Vor einer Stunde. #berge #wandern"),
        ("snow/bright", "Über Nacht dreißig Zentimeter. Der Bus kommt heute wohl nicht. #schnee"),
        ("cycling", "Gegenwind auf dem Hinweg, Gegenwind auf dem Rückweg. Wie macht der das? #radfahren"),
        ("gardening", "Die Zucchini haben die Macht übernommen. Wer braucht welche? #garten"),
        ("code", "Der Fehler saß wie immer vor der Zeitzone. #programmieren"),
        ("books", "In der Bücherkiste am Bahnhof das Lieblingsbuch von früher gefunden, mit fremder Widmung. #bücher"),
    ),
    "fr": (
        ("coffee/linen", "Dimanche, nappe propre, aucun projet. #café"),
        ("facade/rose", "Troisième étage, deuxième fenêtre : c'est là que j'ai appris à lire. #architecture"),
        ("flowers/violet", "Le jardin n'a pas attendu mon avis. #jardin"),
        ("cooking", "La tarte est tombée à l'envers. Personne n'a rien dit, tout le monde s'est resservi. #cuisine"),
        ("art", "Musée ce matin : une heure devant un seul tableau. #peinture"),
    ),
    "ja": (
        ("rain/neon", "雨の日の帰り道。ネオンがにじんで、きれいだった。 #雨 #夜景"),
        ("coffee/slate", "今朝の一杯。少しだけ早起きしてよかった。 #コーヒー"),
        ("mountains/blue", "夜明け前の稜線。言葉が出なかった。 #山 #登山"),
        ("flowers/pink", "庭のダリアがやっと咲きました。 #花"),
        ("animals", "うちの猫、今日もプリンターの上で会議中。 #猫"),
        ("books", "本屋さんで雨宿りのつもりが、三冊も買ってしまった。 #読書"),
        ("code", "原因はタイムゾーンでした。いつものことです。 #プログラミング"),
    ),
    "ar": (
        ("desert/rose", "عند الغروب تصير الكثبان بلون الورد. #صحراء"),
        ("coffee/oak", "قهوة الصباح قبل أن يستيقظ البيت. #قهوة"),
        ("stars/milky", "ليلة بلا قمر، والسماء أقرب مما نظن. #نجوم"),
        ("city/night", "المدينة من الجسر، كل نافذة حكاية. #ليل"),
        ("cooking", "وصفة جدتي تقول: الملح على قدر المحبة. #مطبخ"),
        ("books", "اقترحوا عليّ كتابًا قصيرًا لسفر طويل. #قراءة"),
    ),
}

REPLIES: dict[str, tuple[str, ...]] = {
    "es": (
        "¡Qué maravilla!",
        "Jajaja, totalmente.",
        "Me lo guardo.",
        "¿Dónde es?",
        "Un abrazo enorme.",
        "Así da gusto empezar el día.",
    ),
    "pt": ("Que lindo!", "Haha, verdade.", "Onde fica isso?", "Já vou a caminho.", "Que saudade."),
    "de": ("Wie schön!", "Kenne ich zu gut 😄", "Wo ist das?", "Sofort gemerkt.", "Herrlich."),
    "fr": ("Magnifique !", "Tellement vrai.", "C'est où ?", "Je note !"),
    "ja": ("すてきですね！", "わかります😊", "いいですね！", "行ってみたいです。"),
    "ar": ("ما أجملها!", "صدقت.", "أين هذا المكان؟", "سلمت يداك."),
}


_EITHER = re.compile(r"\{([^{}]*)\}")


def expand(dice: Random, text: str) -> str:
    """Replace each `{a|b}` by one of its alternatives."""
    return _EITHER.sub(lambda found: dice.choice(found[1].split("|")), text)


class Wording(NamedTuple):
    """A text, its language, and the replies that fit it."""

    text: str
    language: str = "en"
    answers: tuple[str, ...] = ()


class PlanWriter:
    """A source of the texts of a plan that keeps track of the used ones."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._decks: dict[str, list[str]] = {}
        self._rounds: dict[str, int] = {}

    def freshest(self, tables: Sequence[str]) -> str:
        """Choose one of the least used tables, with probability proportional to the number of their unused texts."""
        rounds = [self._rounds.get(name, 0) for name in tables]
        least = [name for name, count in zip(tables, rounds, strict=True) if count == min(rounds)]
        return self._dice.choices(least, [1 + len(self._deck(name)) for name in least])[0]

    def is_fresh(self, table: str) -> bool:
        return not self._rounds.get(table)

    def draw(self, table: str) -> Wording:
        """Draw from a table: `text/<interest>`, `photo/<kind>[/<mood>]`, `abroad/<language>` or `reply/<kind>`."""
        deck = self._deck(table)
        text, *answers = expand(self._dice, deck.pop()).split(" >> ")
        if not deck:
            del self._decks[table]
            self._rounds[table] = self._rounds.get(table, 0) + 1
        return Wording(text, answers=tuple(answers))

    def abroad(self, language: str) -> tuple[str, Wording] | None:
        """Draw a post in another language and its subject (`kind/mood` or an interest); None once all are used."""
        if language not in POSTS or self._rounds.get(f"abroad/{language}"):
            return None
        about, _, text = self.draw(f"abroad/{language}").text.partition("\n")
        return about, Wording(text, language)

    def reply(self, language: str, fitting: list[str], kind: str, spoken: str) -> Wording:
        """Write a reply of a member whose language is `spoken`, from replies that fit the text, the kind of photo, or anything."""
        if language == spoken != "en" and self._dice.random() < 0.8:
            return Wording(self.draw(f"reply/{spoken}").text, spoken)
        if fitting and self._dice.random() < 0.75:
            return Wording(fitting.pop())
        if language == "en" and kind and self._dice.random() < 0.7:
            return self.draw(f"reply/{kind}")
        return self.draw("reply/anything")

    def onward(self, before: str, *, author: bool) -> Wording:
        """Write a reply to a comment, by the post's author or a third person."""
        asked = before.rstrip().endswith(("?", "？", "؟"))
        return self.draw(f"reply/{'author' if author else 'onward'}{'_asked' if asked else ''}")

    def _deck(self, table: str) -> list[str]:
        if table not in self._decks:
            pool = _table(table)
            self._decks[table] = self._dice.sample(pool, len(pool))
        return self._decks[table]


_REPLIES = {
    "anything": TO_ANYTHING,
    "author": FROM_AUTHOR,
    "author_asked": AUTHOR_ON_QUESTION,
    "onward": ONWARD,
    "onward_asked": ONWARD_ON_QUESTION,
    **TO_PHOTO,
    **REPLIES,
}


def _table(name: str) -> tuple[str, ...]:
    family, _, rest = name.partition("/")
    if family == "text":
        return MUSINGS[rest]
    if family == "photo":
        return CAPTIONS[rest] if rest in CAPTIONS else MOOD_CAPTIONS[rest]
    if family == "abroad":
        return tuple(f"{about}\n{text}" for about, text in POSTS[rest])
    return _REPLIES[rest]
