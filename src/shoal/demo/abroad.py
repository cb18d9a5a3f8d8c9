"""Posts and answers in other languages than English: (language) -> (photo `kind/mood`, or interest) and text."""

from __future__ import annotations

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
