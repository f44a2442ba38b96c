//! Diagrams of many kinds and scripts, and a check of their codes with the real PlantUML.

use std::process::Command;

/// Returns at least 50 diagrams, each kind with labels in each script.
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

/// Fails unless the real PlantUML decodes each code to its text.
pub(crate) fn assert_plantuml_reads(texts: &[String], codes: &[String]) {
    // On its command line, PlantUML takes a code that starts with a hyphen for an option.
    let cases: Vec<(&String, &String)> =
        texts.iter().zip(codes).filter(|(_, code)| !code.starts_with('-')).collect();
    assert!(cases.len() >= 50, "{} cases", cases.len());
    // One process for all codes: the start of a JVM takes longer than the work.
    let output = Command::new("plantuml")
        .args(["-Djava.awt.headless=true", "-decodeurl"])
        .args(cases.iter().map(|(_, code)| code))
        .output()
        .expect("plantuml starts");
    let output = String::from_utf8(output.stdout).expect("PlantUML writes UTF-8").replace('\r', "");
    // PlantUML restores the wrapper that a code leaves out, and prints another one around all of
    // its output.
    let mut rest = output.as_str();
    for (text, code) in cases {
        let wrapped = if text.starts_with("@start") {
            text.clone()
        } else {
            format!("@startuml\n{text}\n@enduml")
        };
        let shown = format!("@startuml\n{wrapped}\n@enduml\n");
        rest = rest
            .strip_prefix(&shown)
            .unwrap_or_else(|| panic!("{code}: expected\n{shown}\ngot\n{rest}"));
    }
    assert_eq!(rest, "");
}
