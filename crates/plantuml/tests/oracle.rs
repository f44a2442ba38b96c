//! Compares codes with the official program: `apt-get install plantuml graphviz`.
//!
//! The program is started once for all texts, since a JVM takes longer to start than all of the
//! work. Without the program the tests say `SKIPPED` and pass, or fail when the environment has
//! `CI=true`.

use std::{
    env, fs,
    io::{self, Write},
    process::Command,
};

use flate2::{Compress, Compression, FlushCompress};
use marquetry_plantuml::{DecodeOptions, EncodeOptions, Source, decode, encode};

const VERBATIM: EncodeOptions = EncodeOptions::new().with_verbatim(true);

#[test]
fn the_program_decodes_our_codes() {
    let mut cases = Vec::new();
    for text in diagrams() {
        for options in [EncodeOptions::default(), VERBATIM] {
            let code = encode(Source::new(&text).unwrap(), &options).into_string();
            // On its command line, the program reads such a code as an option.
            if !code.starts_with('-') {
                cases.push((text.clone(), options, code));
            }
        }
    }
    let stored = cases.iter().filter(|(text, ..)| zlib_stores(text)).count();
    assert!(
        cases.len() >= 400 && stored >= 100,
        "{} cases, {stored} of them stored by zlib",
        cases.len()
    );

    let Some(output) = run("-decodeurl", cases.iter().map(|(.., code)| code.clone())) else {
        return;
    };
    // For each code, `@startuml`, the decoded text with its wrapper restored, and `@enduml`.
    let mut rest = output.as_str();
    for (text, options, _) in &cases {
        let shown = format!("@startuml\n{}\n@enduml\n", wrapped(text));
        rest = rest.strip_prefix(&shown).unwrap_or_else(|| {
            let got: String = rest.chars().take(shown.chars().count()).collect();
            panic!("{options:?} changes a diagram\nexpected:\n{shown}\ngot:\n{got}")
        });
    }
    assert_eq!(rest, "");
}

#[test]
fn we_decode_the_codes_of_the_program() {
    let directory = tempfile::tempdir().unwrap();
    // The program runs its preprocessor before it encodes, which removes comments and procedures.
    let plain = |text: &String| !text.contains("!procedure") && !text.contains("' a comment");
    let texts: Vec<_> =
        diagrams().iter().filter(|text| plain(text)).map(|text| wrapped(text)).collect();
    let files = texts.iter().enumerate().map(|(number, text)| {
        let path = directory.path().join(format!("{number:04}.puml"));
        fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    });
    let arguments = ["-charset", "UTF-8"].map(str::to_owned).into_iter().chain(files);
    let Some(output) = run("-encodeurl", arguments) else { return };
    assert_eq!(output.lines().count(), texts.len());
    let options = DecodeOptions::new().with_restored_wrapper(true);
    for (code, text) in output.lines().zip(&texts) {
        assert_eq!(decode(code, &options).as_ref(), Ok(text), "{code}");
    }
}

/// The program removes more than `decode` does, as README.md says under "Limits".
#[test]
fn the_program_trims_text_and_forgets_names() {
    let cases = [
        ("  A -> B\n\n", "@startuml\nA -> B\n@enduml"),
        ("@startuml name\nA -> B\n@enduml", "@startuml\nA -> B\n@enduml"),
        ("@startuml\n\n  A -> B\n\n@enduml", "@startuml\nA -> B\n@enduml"),
        ("@startuml\n@enduml", "@startuml\n@enduml"),
    ];
    let codes = cases.map(|(text, _)| encode(Source::new(text).unwrap(), &VERBATIM).into_string());
    let Some(output) = run("-decodeurl", codes.into_iter()) else { return };
    let shown: String = cases.map(|(_, want)| format!("@startuml\n{want}\n@enduml\n")).concat();
    assert_eq!(output, shown);
}

/// Returns the output of the program; `None` without the program.
fn run(action: &str, arguments: impl Iterator<Item = String>) -> Option<String> {
    let output = Command::new("plantuml")
        .arg(action)
        .args(arguments)
        // Java encodes its output by the locale otherwise; the second name is that of newer
        // versions.
        .env("JAVA_TOOL_OPTIONS", "-Dfile.encoding=UTF-8 -Dstdout.encoding=UTF-8")
        .output();
    let output = match output {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let missing = "plantuml not found, try apt-get install plantuml graphviz";
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{missing}");
            // Not `eprintln!`, whose output the test harness keeps to itself when a test passes.
            let _ = writeln!(io::stderr(), "SKIPPED (1): {missing}");
            return None;
        }
        output => output.unwrap(),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Returns each diagram as the program shows it: with a missing wrapper restored.
fn wrapped(text: &str) -> String {
    if text.starts_with("@start") { text.to_owned() } else { format!("@startuml\n{text}\n@enduml") }
}

/// Returns whether zlib alone would give a code that starts with `0`.
fn zlib_stores(text: &str) -> bool {
    let mut packed = Vec::with_capacity(text.len() + 1_000);
    Compress::new(Compression::best(), false)
        .compress_vec(text.as_bytes(), &mut packed, FlushCompress::Finish)
        .unwrap();
    packed[0] >> 2 == 0
}

fn diagrams() -> Vec<String> {
    let mut diagrams: Vec<_> = DIAGRAMS.iter().map(|text| (*text).to_owned()).collect();
    for label in LABELS {
        diagrams.push((*label).to_owned());
        diagrams.push(format!("Alice -> Bob : {label}"));
        diagrams.push(format!("@startuml\nactor \"{label}\" as A\nA --> (B) : {label}\n@enduml"));
    }
    // zlib stores short labels of different characters.
    let mut random = Random(7);
    for (first, count) in
        [(0x4e00, 0x5000), (0xac00, 0x2b00), (0x1f300, 0x300), (0x410, 0x40), (0x621, 0x1a)]
    {
        for length in 4..24 {
            let label = (0..length).map(|_| char::from_u32(first + random.below(count)).unwrap());
            diagrams.push(label.collect());
        }
    }
    // Long diagrams: repetitive, and almost random.
    let pattern = "Alice -> Bob : hello\n";
    diagrams.push(pattern.repeat(Source::MAX_BYTES / pattern.len()).trim_end().to_owned());
    let mut line = || format!("A{} -> B : 日本 {}\n", random.below(1 << 30), random.below(1 << 30));
    diagrams.push((0..1_200).map(|_| line()).collect::<String>() + "A -> B");
    diagrams
}

struct Random(u32);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        ((u64::from(self.0) * u64::from(end)) >> 32) as u32
    }
}

const DIAGRAMS: &[&str] = &[
    "A --> B",
    "Bob -> Alice : hello",
    "@startuml\nA --> B\n@enduml",
    // Seed 002, scenario 2.
    "@startuml\nactor Writer1\nactor Writer2\nrectangle \"Front Buffer\" as Front\nWriter1 --> Front\nWriter2 --> Front\n@enduml",
    // The five of seed 002, scenario 5.
    "@startuml\n[*] --> Idle\nIdle --> Running : start\nRunning --> Idle : stop\nRunning --> [*]\n@enduml",
    "@startuml\nparticipant Client\nparticipant Server\nClient -> Server : GET /\nServer --> Client : 200\n@enduml",
    "@startuml\n[Web] ..> HTTP : use\n[Gateway] - HTTP\ndatabase Store\n[Gateway] --> Store\n@enduml",
    "@startuml\nstate Fork <<fork>>\n[*] --> Fork\nFork --> Left\nFork --> Right\n@enduml",
    "@startuml\nnode \"server 1\" {\n  artifact app.war\n}\ncloud internet\ninternet -- app.war\n@enduml",
    "@startuml\nclass Store {\n  -items : Map<Id, Item>\n  +put(item : Item) : Id\n}\nStore o-- Item\n@enduml",
    "@startuml\nstart\nif (ready?) then (yes)\n  :go;\nelse (no)\n  :wait;\nendif\nstop\n@enduml",
    "@startuml\n!procedure $box($name)\n  rectangle $name\n!endprocedure\n$box(\"a\")\n@enduml",
    "@startuml\nskinparam backgroundColor #EEEBDC\nhide footbox\nautonumber 10 10 \"<b>[000]\"\nA -> B : a & b < c > \"d\"\n@enduml",
    "@startuml\nA -> B : line one\\nline two\nnote right\n  * bullet\n\ttab\nend note\n@enduml",
    "@startuml\nA -> B : reply to user@example.org\n' a comment\n/' and a long\none '/\n@enduml",
    "@startmindmap\n* root\n** left\n** right\n@endmindmap",
    "@startgantt\n[task] lasts 5 days\n@endgantt",
    "@startwbs\n* käse\n** è\n@endwbs",
    "@startsalt\n{+\n  Login | \"name\"\n  [Cancel] | [OK]\n}\n@endsalt",
    "skinparam monochrome true\nA -> A : self\n\n...\n\nA -> A : later",
];

const LABELS: &[&str] = &[
    // Chinese, Japanese, Korean.
    "数据库服务器和客户端之间的连接",
    "資料庫伺服器",
    "日本語のラベル、漢字とかな",
    "カタカナ",
    "데이터베이스 연결 확인",
    "𠮷野家で𩸽",
    // Cyrillic and Greek.
    "Съешь же ещё этих мягких французских булок",
    "Ґанок і їжак",
    "Объект→съёмщик",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία",
    // From right to left.
    "قاعدة البيانات متصلة",
    "نص \u{202b}مضمّن\u{202c} هنا",
    "שלום עולם",
    "٠١٢٣٤٥٦٧٨٩",
    // Other scripts.
    "नमस्ते दुनिया",
    "ขั้นตอนที่หนึ่ง",
    "ქართული წარწერა",
    "ግብረ መልስ ይላካል",
    "தமிழ் எழுத்து",
    "Đường dẫn tới máy chủ",
    // Emoji: plain, with a skin tone, joined, flags, with a variation selector.
    "🙂🚀🎉🔥🐳🦀🌍🎨",
    "👍🏽👋🏿",
    "👩\u{200d}👩\u{200d}👧\u{200d}👦 🧑\u{200d}💻",
    "🇯🇵🇩🇪🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
    "☁\u{fe0f}→⚙\u{fe0f}→1\u{fe0f}\u{20e3}",
    // Combining marks, and the same text composed.
    "e\u{301}a\u{308}o\u{302}\u{323}",
    "éäộ",
    "Z\u{351}\u{36b}\u{343}a\u{328}\u{31b}l\u{315}\u{321}g\u{322}\u{489}o",
    // Latin letters with accents, symbols, and characters that are syntax in other formats.
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich",
    "①②③④⑤⑥⑦⑧",
    "a\u{a0}b\u{200b}c\u{feff}d",
    "%7E ~1 + / = \\ ` ^ | {x} &amp; <script>",
];
