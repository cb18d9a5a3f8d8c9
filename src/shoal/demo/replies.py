"""Answers: to a photo by its kind, to anything, as the author, and to each other. `{a|b}` means either.

The answers to a text without a photo stand beside it, in `musings`.
"""

from __future__ import annotations

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
