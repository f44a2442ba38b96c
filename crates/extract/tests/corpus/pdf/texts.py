"""The texts of the documents: paragraphs as lists of sentences."""

TITLE = "Salt from the sea"

ENGLISH = [
    [
        "Sea water has about thirty-five grams of salt in every litre.",
        "In a warm and dry climate the sun and the wind are enough to win it.",
        "The water is led through a chain of shallow ponds, and becomes stronger in each of them.",
        "Only in the last pond, which is called the crystalliser, does the salt fall out.",
    ],
    [
        "The first ponds are large and hold the water for several weeks.",
        "Lime and gypsum fall out there, because they dissolve less easily than salt does.",
        "A keeper walks along the dams every day and measures the strength of the brine.",
        "Too much rain in a single night can spoil the work of a month.",
    ],
    [
        "The harvest begins in August and ends with the first storms of autumn.",
        "Workers push the crystals together with wooden rakes and leave them to drain.",
        "Machines are faster, but they also lift the clay from the floor of the pond.",
        "For that reason the finest qualities are still gathered by hand.",
    ],
    [
        "The white crust that swims on calm evenings is called the flower of salt.",
        "It has to be skimmed off before the dew falls, or it sinks to the ground.",
        "A good evening gives a family some forty kilograms of it.",
        "Cooks pay twenty times the price of table salt for this flower.",
    ],
    [
        "Birds have learnt to live with the works and even depend on them.",
        "Avocets breed on the low dams, and flamingos feed in the stronger ponds.",
        "Their colour comes from a small shrimp that thrives where no fish survives.",
        "When a works is given up, the ponds dry out within two or three summers.",
    ],
    [
        "Many works on the northern coasts were abandoned after the railways came.",
        "Rock salt from mines was cheaper, and it could be brought at any season.",
        "A few villages kept one or two ponds, more from habit than for profit.",
        "Today visitors pay to see how their grandparents earned a living.",
    ],
]

LIGATURES = [
    "The official office staff offered a fifth sufficiently efficient fluffy muffin.",
    "Fjord ferries float off, filled with fish, flax and waffles from a difficult coffee affair.",
    "A firefly flits across the reflecting floor of the flooded first field.",
]

# The soft hyphens are for producers that have no dictionary for hyphenation.
GERMAN = [
    [
        "Die Meer\u00adwasser\u00adverdunstung in den Salz\u00adgewinnungs\u00adanlagen dauert je nach "
        "Sonnen\u00adeinstrahlung mehrere Wochen.",
        "Der Salz\u00adgehalt der Verdunstungs\u00adbecken wird durch regel\u00admäßige "
        "Dichte\u00admessungen der Salinen\u00adarbeiter über\u00adwacht.",
        "Nieder\u00adschlags\u00adreiche Sommer\u00admonate ver\u00adringern die "
        "Gesamt\u00aderntemenge außer\u00adordentlich.",
    ],
    [
        "Die Land\u00adschafts\u00adschutz\u00adgebiete rings um die Salz\u00adgärten sind "
        "Über\u00adwinterungs\u00adplätze zahl\u00adreicher Wat\u00advogel\u00adarten.",
        "Natur\u00adschutz\u00adverbände und Salz\u00adproduzenten haben Bewirt\u00adschaftungs\u00adpläne "
        "ver\u00adein\u00adbart.",
        "Größere Wasser\u00adstands\u00adschwankungen werden während der Brut\u00adzeit "
        "ver\u00admieden.",
    ],
]

FRENCH = [
    "À l’été, l’œillet reçoit l’eau déjà très salée des réserves.",
    "Où le vent faiblit, la fleur de sel naît à la surface des bassins.",
    "Les paludiers la cueillent délicatement, sans jamais toucher l’argile.",
]

POLISH = [
    "Żupy solne w Wieliczce działały nieprzerwanie przez siedemset lat.",
    "Górnicy rzeźbili w słonych ścianach kaplice, ołtarze i żyrandole.",
    "Dziś zwiedzający schodzą źle oświetlonymi schodami w głąb ziemi.",
]

RUSSIAN = [
    "Соль добывали на берегах Белого моря ещё в двенадцатом веке.",
    "Рассол выпаривали в больших железных сковородах над огнём.",
    "Монастыри торговали солью по всей стране и богатели.",
]

GREEK = [
    "Οι αλυκές του Μεσολογγίου παράγουν το μισό αλάτι της χώρας.",
    "Το νερό της θάλασσας εξατμίζεται αργά κάτω από τον ήλιο.",
]

HEBREW = [
    "המלח מופק מן הים בבריכות רדודות זה 2000 שנה.",
    "השמש והרוח מייבשות את המים לאט מאוד.",
    "בסוף הקיץ אוספים הפועלים את הגבישים במגרפות עץ.",
    "החברה Salt Works מוכרת כל שנה 350 טון מלח לחו״ל.",
]

ARABIC = [
    "يستخرج الملح من مياه البحر في أحواض ضحلة منذ 2000 عام.",
    "تجفف الشمس والرياح الماء ببطء شديد.",
    "في نهاية الصيف يجمع العمال البلورات بمجارف خشبية.",
    "تبيع الشركة كل سنة 350 طنا من الملح إلى الخارج.",
]

JAPANESE = [
    "海水には一リットルあたり約三十五グラムの塩が含まれている。",
    "浅い池を順に通るあいだに、太陽と風が水を濃くしていく。",
    "八月になると、職人たちは木の道具で結晶を集める。",
    "「塩の花」と呼ばれる白い膜は、夕方の静かな水面に浮かぶ。",
]

CHINESE = [
    "海水每升大约含有三十五克盐。",
    "在温暖干燥的地方,太阳和风就足以把盐晒出来。",
    "工人们在八月开始收盐,到秋天的第一场风暴为止。",
    "最好的盐至今仍然是用手工收集的。",
]

KOREAN = [
    "바닷물 일 리터에는 약 삼십오 그램의 소금이 들어 있다.",
    "얕은 염전을 차례로 지나는 동안 해와 바람이 물을 진하게 만든다.",
    "팔월이 되면 일꾼들은 나무 도구로 결정을 모은다.",
]

ITEMS = [
    "Open the sluice at high tide and let the water settle.",
    "Measure the brine in the second pond before noon.",
    "Rake the crystals towards the dam, and never against the wind.",
    "Cover the heap with straw as soon as clouds come up.",
]

TABLE = [
    ("Pond", "Strength", "Share of salt", "Inspected by"),
    ("Reservoir", "3.5 degrees", "none", "Marta Lind"),
    ("Evaporator", "12.0 degrees", "a little gypsum", "Jonas Hale"),
    ("Concentrator", "21.5 degrees", "a seventh", "Marta Lind"),
    ("Crystalliser", "25.7 degrees", "nearly all of it", "Piet Osterloh"),
]

NOTES = [
    "The figure is an average of the Atlantic; the Baltic has much less.",
    "Older sources call him the master of the sluices.",
]

HEADER = "Reports of the coastal society"
FOOTER = "Printed for members only"
