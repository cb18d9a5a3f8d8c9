"""What people answer: to a photo by its kind, to a text by its interest, as the author, and to anything. `{a|b}` means either."""

from __future__ import annotations

TO_PHOTO: dict[str, tuple[str, ...]] = {
    "mountains": ("Which {valley|pass} is this? I think I slept in that hut once.", "Those layers! How far can you see there?", "My calves hurt from looking at it.", "Adding it to the list. The list is now {nine|twelve} summers long.", "Was there still snow on the north side?", "I can smell the pines from here."),
    "sea": ("I can hear this.", "How cold was the water, honestly?", "I miss living near it. Post more.", "That light on the water is unreal.", "The horizon is straight! You have steadier hands than me.", "We must have been on the same beach, I was at the other end with {the dog|a thermos}."),
    "city": ("Is that from the old bridge?", "Somewhere in there I am doing the dishes.", "The reflection is better than the original.", "It used to be so much darker there. Lovely shot.", "How long was the exposure?", "My window is in this! {Third|Fourth} tower, no curtains."),
    "forest": ("Those rays!", "This lowered my pulse.", "Mushrooms yet?", "I would like to be standing right there with a {sandwich|notebook}.", "Looks like the opening of a good film.", "Which way to the talking fox?"),
    "desert": ("The edge of that dune is drawn with a pen.", "How do you keep the sand out of the camera?", "That colour. I want a wall in that colour.", "Not a soul. How long were you out there?", "This makes me thirsty and happy."),
    "coffee": ("That is a proper leaf! Mine always turns into a {cauliflower|jellyfish}.", "Which beans?", "I can smell it. On my way.", "Now I need one. It is {ten|eleven} at night. Thanks.", "Milk temperature, please, the secret is the milk temperature.", "The cup alone is a good start to the day."),
    "fruit": ("Please tell me there will be jam.", "Look at that light. A Dutch painter would nod.", "I would have eaten them before the photo.", "Recipe?", "Where is that market? Ours only has the sad ones.", "Save me {two|one}."),
    "flowers": ("What is the variety? I need it.", "Mine are still sulking.", "It looks as if it were lit from inside.", "Teach me. I kill {mint|cactuses}.", "The bees must be queueing.", "How did you get the background so soft?"),
    "aurora": ("I have wanted to see this since I was {seven|nine}.", "Did it really look that bright?", "Goosebumps.", "How cold? And was it worth it? Never mind, I can see that.", "We had clouds. Of course we had clouds."),
    "rain": ("This is exactly how I see without my glasses.", "Cosy.", "I can hear the tyres on the wet street.", "Every drop has its own little city in it.", "Now play some {jazz|slow piano}."),
    "snow": ("It is {31|28} degrees here and I am jealous.", "You can hear the quiet.", "Is there a fire going in there?", "Save some for us, we arrive on {Friday|Saturday}.", "That is a Christmas card. Do you sell prints?"),
    "abstract": ("I see a {heron|coastline|sleeping cat}.", "How is this made? I cannot work it out.", "Would hang it over the sofa.", "Makes me want to touch it.", "The best one of the series."),
    "facade": ("That shadow!", "Which shutter squeaks? There is always one.", "Who lives there, and are they happy? I hope so.", "I love it when the sun does the composing.", "Shutters like my grandparents had."),
    "stars": ("How dark is it there? Bortle {2|3}?", "Single frame or stacked?", "I forget every time that this is up there, all day, too.", "Pin-sharp. What lens?", "We used to see it like this from the village."),
}  # fmt: skip

TO_TEXT: dict[str, tuple[str, ...]] = {
    "hiking": ("Poles. Always poles. My physio agrees.", "Half back, and then still too much, every time.", "The biscuit was the true summit.", "Which hut? We are there that week too!"),
    "sea": ("I would subscribe to that forecast.", "A knot you cannot undo is simply a decision.", "Cinnamon rolls are the backbone of every club.", "Fair winds, once there are any."),
    "travel": ("Napkin maps never run out of battery.", "Spices. And always one ugly mug.", "'Delicious' alone has opened doors for me.", "Some of my favourite places were missed connections."),
    "stargazing": ("The first look at Saturn ruins you for television.", "Red torch! Red torch solves half of it.", "Clouds here, naturally. I just bought a new eyepiece.", "Tell the scouts: the stars keep their names in very old books."),
    "coffee": ("Finer. Then finer again.", "Try a degree hotter before you touch the grind.", "Instant in a tent is a five-star drink, I will not be argued with.", "Decaf after two here. It gets earlier."),
    "cooking": ("Remoulade! Celeriac remoulade, lots of mustard.", "'Until it is right' is the most accurate unit there is.", "The ugly dumplings taste better, that is known.", "Radio on, phone off. Yes.", "Roast it whole. An hour and a half. Thank me later."),
    "gardening": ("Copper tape. Did nothing. Beautiful though.", "The robin is management.", "I would trade you a courgette. I would trade everybody a courgette.", "Ours are still green and smug about it."),
    "city": ("More benches. I would vote for benches.", "Ending in a wall is a bold design choice.", "I know that bakery! Get the one with {cardamom|poppy seed}.", "We said hello to ours for years and she came to our wedding."),
    "art": ("Seven to one is a great rate, keep going.", "In! Two colours, here we go.", "The guard with the chair is the best part.", "Inky cat print edition when?"),
    "books": ("Try The Summer Book, by Tove Jansson. All three at once.", "Mine holds up a lamp.", "A library that lends cake tins has understood everything.", "Nothing happens beautifully for {eighty|sixty} pages, then it hits you."),
    "music": ("Forty-one here, and on the trombone. Solidarity.", "Soup is an instrument.", "That breath before the first note, yes!", "Which chord? Bar number, please."),
    "cycling": ("Cake is a vehicle part.", "You now carry the pump. That is how it works.", "The headwind lives in your tyres, I checked.", "Day {40|63} here, rained on twice. Do not tell the others."),
    "code": ("It was DNS. It was the time zone of the DNS.", "Deleting is the best kind of writing.", "Does your mother take on clients?", "One in fifty is a race. Frame it when you find it.", "I keep a file of bugs past me was right about. It is a humble file."),
    "animals": ("Photo or it is not your printer.", "Please keep us informed about the cheese.", "The crows talk about you. Kindly.", "Chubby is a lifestyle. Scratch behind the ears from me.", "Swifts here since {Sunday|Monday}! The sky is open again."),
    "photography": ("One street, one hour: doing it on Sunday.", "Clouds are a fine archive.", "A light leak is a signature.", "Two steps forward, and then one more."),
}  # fmt: skip

TO_ANYTHING: tuple[str, ...] = (
    "{Beautiful|Lovely|Wonderful}.", "Oh, this is {good|great|so good}.", "You made my {morning|evening|day}.", "{Saved|Kept} this.", "Yes to all of it.",
    "I laughed, then I read it to the {kitchen|whole office}.", "Same here!", "How do you always {find|catch} these?", "👏👏", "😍", "🔥", "Ha! 😄",
    "Needed this today, thank you.", "More of this, please.", "My {sister|brother|neighbour} has to see this.", "Looking at it for the {third|second} time now.",
    "This is why I still come here.", "Okay, that settles it, I am {going outside|taking the day off}.", "Quietly brilliant.", "{Love|I love} it 💛",
)  # fmt: skip

FROM_AUTHOR: tuple[str, ...] = (
    "Thank you! 🙏", "{Ha|Haha}, true.", "Honestly, it was mostly luck.", "Come along next time!", "That is kind of you.", "I will, and I will report back.",
    "{Yes|Exactly}! You noticed!", "About {an hour|twenty minutes} from the station, I will send you the spot.", "I had to look twice myself.",
    "Do! And tell me how it goes.", "You know me too well 😅", "Next one is for you.", "It took {four|six} tries, do not tell anybody.", "🥰",
    "Good question, I will find out.", "We should do this together some day.",
)  # fmt: skip

ONWARD: tuple[str, ...] = (
    "Deal!", "Count me in.", "Now I am curious too.", "You two 😄", "Following this thread closely.", "I second that.", "Take me with you, I bring {cake|snacks|tea}.",
    "That is what I said!", "Please post the follow-up.", "Agreed, and I was there {last year|in spring}.", "Noted 📝", "This conversation is the best part.",
)  # fmt: skip
