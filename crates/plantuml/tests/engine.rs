//! The engine against the real PlantUML of this machine. Without one the tests say `SKIPPED` and pass, or
//! fail when the environment has `CI=true`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use marquetry_plantuml::{
    Source,
    engine::{Engine, EngineError, EngineOptions, Program},
};

/// PlantUML on the `PATH`.
fn plantuml() -> Option<EngineOptions> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|folder| folder.join("plantuml")).find(|it| it.is_file());
    if found.is_none() {
        let missing = "there is no plantuml on the PATH: apt-get install plantuml graphviz";
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{missing}");
        eprintln!("SKIPPED: {missing}");
    }
    found.map(|path| EngineOptions::new(Program::Command(path)))
}

fn source(text: &str) -> Source<'_> {
    Source::new(text).unwrap()
}

/// One process, since each start of Java costs a second or more.
#[tokio::test]
async fn diagrams_are_drawn_and_errors_have_their_line() {
    let Some(options) = plantuml() else { return };
    let engine = Engine::new(options);
    let drawn = engine.render(source("Bob -> Alice : schön")).await.unwrap();
    assert!(drawn.svg.contains("<svg") && drawn.svg.ends_with("</svg>"), "{}", drawn.svg);
    assert!(drawn.svg.contains("schön") && drawn.svg.contains("Alice"));
    assert!(!drawn.svg.contains("Java Runtime"), "an SVG says nothing of this machine");

    for (text, want) in [
        ("A -> B\nfoo bar baz !!", 2),
        ("@startuml\nA -> B\nfoo bar baz !!\n@enduml", 3),
        ("\n\n@startuml\nfoo bar baz !!\n@enduml", 4),
    ] {
        match engine.render(source(text)).await {
            Err(EngineError::Syntax { line, message }) => {
                assert_eq!(line, want, "{text}");
                assert!(message.contains("Syntax Error"), "{message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    // Others draw with it, one after the other, and a start is needed once.
    let started = Instant::now();
    let again = ["class A", "@startmindmap\n* a\n** b\n@endmindmap", "A -> B\nnewpage\nB -> A"];
    let (a, b, c) = tokio::join!(
        engine.render(source(again[0])),
        engine.render(source(again[1])),
        engine.render(source(again[2])),
    );
    for drawn in [a, b, c] {
        assert!(drawn.unwrap().svg.ends_with("</svg>"));
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());

    // The engine still works after a caller goes away in the middle.
    let gone = engine.render(source("A -> B : gone"));
    assert!(tokio::time::timeout(Duration::from_millis(1), gone).await.is_err());
    assert!(engine.render(source("A -> B : next")).await.unwrap().svg.contains("next"));
    engine.stop().await;
}

/// Diagrams that the rules allow cannot read data of the machine: the environment is empty, and there are no
/// files.
#[tokio::test]
async fn a_diagram_sees_nothing_of_the_machine() {
    let Some(options) = plantuml() else { return };
    let engine = Engine::new(options);
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "A -> B : hunter2").unwrap();
    let path = secret.path().display();
    for text in [
        format!("!include {path}"),
        format!("/' '/ !include {path}"),
        format!("!incl\\\nude {path}"),
        format!("!define X !include {path}\nX"),
        format!("!$x = \"!include {path}\"\n$x"),
        format!("!procedure $x()\n!include {path}\n!endprocedure\n$x()"),
        "A -> B : %getenv(\"PATH\")".to_owned(),
        "!define E %get\nA -> B : Eenv(\"PATH\")".to_owned(),
        "!$f = \"%getenv\"\nA -> B : %call_user_func($f, \"PATH\")".to_owned(),
    ] {
        let drawn = engine.render(source(&text)).await;
        let shown = match drawn {
            Ok(drawn) => drawn.svg,
            Err(error) => error.to_string(),
        };
        assert!(!shown.contains("hunter2") && !shown.contains("/usr/bin"), "{text}: {shown}");
    }
}

/// A program that runs a script.
fn scripted(folder: &Path, script: &str) -> EngineOptions {
    let path = folder.join("plantuml");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    EngineOptions::new(Program::Command(path))
}

/// Answers each diagram with the line after its first: the last argument is the delimiter.
const ECHO: &str = r#"for d in "$@"; do :; done
while read -r line; do
  case "$line" in
    @startuml) read -r text; printf '<svg>%s</svg>' "$text" ;;
    @enduml) printf '%s\n' "$d" ;;
  esac
done"#;

#[cfg(unix)]
#[tokio::test]
async fn a_process_that_ends_is_started_again_once() {
    let folder = tempfile::tempdir().unwrap();
    let counter = folder.path().join("starts");
    let script =
        ECHO.replace("@startuml) read", "@startuml) n=$((n+1)); [ $n -gt 3 ] && exit 1; read");
    let engine =
        Engine::new(scripted(folder.path(), &format!("echo x >> {}\n{script}", counter.display())));
    // The first diagram of each process is the one that finds out whether it is ready.
    for number in 0..6 {
        let drawn = engine.render(source(&format!("A -> B : {number}"))).await.unwrap();
        assert_eq!(drawn.svg, format!("<svg>A -> B : {number}</svg>"));
    }
    assert_eq!(fs::read_to_string(counter).unwrap().lines().count(), 3);
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_that_does_not_work_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::new(scripted(folder.path(), "exit 1"));
    let error = engine.render(source("A -> B")).await.unwrap_err().to_string();
    assert!(error.contains("plantuml ended without an answer"), "{error}");
    let missing = EngineOptions::new(Program::Command(PathBuf::from("/nowhere/plantuml")));
    let error = Engine::new(missing).render(source("A -> B")).await.unwrap_err();
    assert!(matches!(error, EngineError::Process(_)), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn time_and_size_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let slow =
        ECHO.replace("read -r text;", "read -r text; case \"$text\" in *slow*) sleep 60;; esac;");
    let mut options = scripted(folder.path(), &slow);
    options.timeout = Duration::from_millis(300);
    let engine = Engine::new(options);
    engine.render(source("A -> B")).await.unwrap();
    let error = engine.render(source("A -> B : slow")).await.unwrap_err();
    assert_eq!(error.to_string(), "the diagram was not drawn within 300 ms");
    assert_eq!(engine.render(source("A -> B")).await.unwrap().svg, "<svg>A -> B</svg>");

    let folder = tempfile::tempdir().unwrap();
    let large = ECHO.replace(
        "printf '<svg>",
        "case \"$text\" in *large*) yes | head -c 1000000;; esac; printf '<svg>",
    );
    let mut options = scripted(folder.path(), &large);
    options.max_output_bytes = 10_000;
    let engine = Engine::new(options);
    let error = engine.render(source("A -> B : large")).await.unwrap_err();
    assert_eq!(error.to_string(), "the drawing is larger than 10000 bytes");
    assert_eq!(engine.render(source("A -> B")).await.unwrap().svg, "<svg>A -> B</svg>");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn nothing_that_it_started_stays() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!("sleep 600 &\necho $! $$ > {}\n{ECHO}", pids.display());
    let engine = Engine::new(scripted(folder.path(), &script));
    engine.render(source("A -> B")).await.unwrap();
    engine.stop().await;
    let pids = fs::read_to_string(pids).unwrap();
    let is_there = |pid: &str| {
        let state = fs::read_to_string(format!("/proc/{pid}/stat"));
        state.is_ok_and(|state| !state.contains(") Z "))
    };
    let end = Instant::now() + Duration::from_secs(2);
    while pids.split_whitespace().any(is_there) {
        assert!(Instant::now() < end, "a process stays: {pids}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
