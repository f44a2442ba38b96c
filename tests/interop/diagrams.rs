//! Diagrams of many kinds and scripts, and PlantUML's own word on what a code means.

use std::process::Command;

/// At least 50 diagrams; each kind with labels of each script.
pub(crate) fn all() -> Vec<String> {
    let labels = [
        ("Bob", "Alice", "hello"),
        ("Zoë", "Jürgen", "grüß dich, ça va?"),
        ("Иван", "Мария", "привет"),
        ("王小明", "山田太郎", "你好、こんにちは"),
        ("김철수", "سارة", "안녕하세요، مرحبا"),
        ("🦀", "👩‍💻", "🎉 e\u{301}t\u{e9}"),
        ("Ελένη", "नेहा", "γεια σου नमस्ते"),
    ];
    let kinds: [fn(&str, &str, &str) -> String; 8] = [
        |a, b, text| format!("\"{a}\" -> \"{b}\" : {text}"),
        |a, b, text| {
            format!(
                "@startuml\n\"{a}\" -> \"{b}\" : {text}\n\"{b}\" --> \"{a}\" : {text}!\n@enduml"
            )
        },
        |a, b, text| {
            format!(
                "@startuml\nactor \"{a}\" as A\nrectangle \"{b}\" as B\nA --> B : {text}\n@enduml"
            )
        },
        |a, b, text| {
            format!(
                "@startuml\nclass \"{a}\" as A {{\n  +{text}()\n}}\nclass \"{b}\" as B\nA <|-- B\n@enduml"
            )
        },
        |a, b, text| {
            format!(
                "@startuml\n[*] --> A\nstate \"{a}\" as A\nstate \"{b}\" as B\nA --> B : {text}\nB --> [*]\n@enduml"
            )
        },
        |a, b, text| {
            format!("@startuml\nstart\n:{a};\nif ({text}?) then (+)\n  :{b};\nendif\nstop\n@enduml")
        },
        |a, b, text| format!("@startmindmap\n* {a}\n** {b}\n*** {text}\n@endmindmap"),
        |a, b, text| format!("@startjson\n{{\"{a}\": [\"{b}\", \"{text}\"]}}\n@endjson"),
    ];
    labels.iter().flat_map(|(a, b, text)| kinds.iter().map(|kind| kind(a, b, text))).collect()
}

/// What the real PlantUML reads in some codes, without the wrapper that its decoder adds.
pub(crate) fn decoded_by_plantuml(codes: &[String]) -> Vec<String> {
    std::thread::scope(|scope| {
        let halves: Vec<_> = codes
            .chunks(codes.len().div_ceil(2))
            .map(|codes| {
                scope.spawn(move || codes.iter().map(|code| decode_one(code)).collect::<Vec<_>>())
            })
            .collect();
        halves.into_iter().flat_map(|half| half.join().expect("PlantUML runs")).collect()
    })
}

fn decode_one(code: &str) -> String {
    let args = ["-Djava.awt.headless=true", "-decodeurl", code];
    let output = Command::new("plantuml").args(args).output().expect("plantuml starts");
    let text = String::from_utf8(output.stdout).expect("PlantUML writes UTF-8");
    unwrapped(text.trim_end_matches(['\r', '\n'])).to_owned()
}

/// The text without one `@startuml` line before and one `@enduml` line after it.
pub(crate) fn unwrapped(text: &str) -> &str {
    let text = text.strip_prefix("@startuml\n").unwrap_or(text);
    text.strip_suffix("\n@enduml").unwrap_or(text)
}
