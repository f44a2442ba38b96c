//! The engine against the real PlantUML of this machine. Without one the tests say `SKIPPED` and
//! pass, or fail when the environment has `CI=true`.

use std::{
    fs,
    io::{ErrorKind, Write as _},
    net::TcpListener,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use marquetry_plantuml::{
    Source,
    engine::{Caller, Engine, EngineError, EngineOptions, Program},
};
use marquetry_protocol_callers::Principal;

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
    let drawn = engine.render(&Caller::Local, source("Bob -> Alice : schön")).await.unwrap();
    assert!(drawn.svg.contains("<svg") && drawn.svg.ends_with("</svg>"), "{}", drawn.svg);
    assert!(drawn.svg.contains("schön") && drawn.svg.contains("Alice"));
    assert!(!drawn.svg.contains("Java Runtime"), "an SVG says nothing of this machine");

    let linked = source("A -> B : [[javascript:alert(1) run]] or [[https://e.org read]]");
    let drawn = engine.render(&Caller::Local, linked).await.unwrap();
    assert!(drawn.svg.contains(r#"xlink:href="https://e.org""#), "{}", drawn.svg);
    assert!(!drawn.svg.contains("href=\"javascript:"), "{}", drawn.svg);
    assert!(drawn.svg.contains("run"), "the text of the link stays: {}", drawn.svg);

    for (text, want) in [
        ("A -> B\nfoo bar baz !!", 2),
        ("@startuml\nA -> B\nfoo bar baz !!\n@enduml", 3),
        ("\n\n@startuml\nfoo bar baz !!\n@enduml", 4),
    ] {
        match engine.render(&Caller::Local, source(text)).await {
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
        engine.render(&Caller::Local, source(again[0])),
        engine.render(&Caller::Local, source(again[1])),
        engine.render(&Caller::Local, source(again[2])),
    );
    for drawn in [a, b, c] {
        assert!(drawn.unwrap().svg.ends_with("</svg>"));
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());

    // The engine still works after a caller goes away in the middle.
    let gone = engine.render(&Caller::Local, source("A -> B : gone"));
    assert!(tokio::time::timeout(Duration::from_millis(1), gone).await.is_err());
    assert!(
        engine.render(&Caller::Local, source("A -> B : next")).await.unwrap().svg.contains("next")
    );
    engine.stop().await;
}

/// A file with a text, a picture and an address of this machine, which no diagram may read.
struct Secrets {
    folder: tempfile::TempDir,
    listener: TcpListener,
}

/// The width of the picture, which no other picture in an answer has.
const WIDTH: u8 = 97;

impl Secrets {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret.txt"), "participant hunter2").unwrap();
        fs::write(folder.path().join("secret.png"), picture()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { folder, listener }
    }

    fn text(&self) -> String {
        self.folder.path().join("secret.txt").display().to_string()
    }

    fn picture(&self) -> String {
        self.folder.path().join("secret.png").display().to_string()
    }

    /// PlantUML asks a broken address only once.
    fn address(&self, number: usize) -> String {
        format!("http://{}/{number}.png", self.listener.local_addr().unwrap())
    }

    /// Draws a diagram, and checks that the answer has nothing of the machine.
    async fn check(&self, engine: &Engine, text: &str) {
        let shown = match engine.render(&Caller::Local, source(text)).await {
            Ok(drawn) => drawn.svg,
            Err(error) => error.to_string(),
        };
        assert!(!shown.contains("hunter2") && !shown.contains("/usr/bin"), "{text}: {shown}");
        assert!(!shown.contains(&format!("width=\"{WIDTH}\"")), "{text}: {shown}");
        let asked = self.listener.accept().map(|(_, peer)| peer);
        assert_eq!(asked.unwrap_err().kind(), ErrorKind::WouldBlock, "{text}");
    }
}

/// A PNG of 97 x 3 black points.
fn picture() -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |kind: &[u8; 4], data: &[u8]| {
        file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
        let mut sum = flate2::Crc::new();
        for part in [kind, data] {
            file.extend(part);
            sum.update(part);
        }
        file.extend(sum.sum().to_be_bytes());
    };
    chunk(b"IHDR", &[0, 0, 0, WIDTH, 0, 0, 0, 3, 8, 2, 0, 0, 0]);
    let mut points = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    points.write_all(&vec![0; (1 + 3 * usize::from(WIDTH)) * 3]).unwrap();
    chunk(b"IDAT", &points.finish().unwrap());
    chunk(b"IEND", &[]);
    file
}

#[tokio::test]
async fn a_diagram_sees_nothing_of_the_machine() {
    let Some(options) = plantuml() else { return };
    let engine = Engine::new(options);
    let secrets = Secrets::new();
    let path = secrets.text();
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
        secrets.check(&engine, &text).await;
    }
    for target in [secrets.picture(), secrets.address(0)] {
        for text in [
            format!("A -> B : <img:{target}>"),
            format!("!$x = \"img\"\nA -> B : <$x:{target}>"),
            format!("!define X img\nA -> B : <X:{target}>"),
            format!("!define S sprite\nS $foo {target}\nA -> B : <$foo>"),
            format!("!include <C4/C4_Container>\nPerson(a, \"b\", $sprite=\"img:{target}\")"),
            format!("A -> B : <latex>\\includegraphics{{{target}}}</latex>"),
        ] {
            let error = engine.render(&Caller::Local, source(&text)).await;
            assert!(matches!(error, Err(EngineError::Forbidden(_))), "{text}: {error:?}");
        }
    }
}

/// Diagrams that read `TARGET`, and make the words for it of parts, so that the rules for text do
/// not see them.
fn disguised() -> Vec<String> {
    let tag = "<img:TARGET>";
    let splits = (1..5).map(|at| tag.split_at(at));
    let mut diagrams: Vec<String> = splits
        .flat_map(|(a, b)| {
            [
                format!("!$x = \"{a}\" + \"{b}\"\nstart\n:$x;"),
                format!("!define P {a}\n!define Q(x) P##x\nstart\n:Q({b});"),
                format!("!function $f($x)\n!return \"{a}\" + $x\n!endfunction\nstart\n:$f(\"{b}\");"),
                format!("!unquoted function $f($x)\n!return $x + \"{b}\"\n!endfunction\nstart\n:$f({a});"),
                format!("!procedure $p($x, $y)\nstart\n:$x$y;\n!endprocedure\n$p(\"{a}\", \"{b}\")"),
                format!("!definelong P(x)\nstart\n:x##{b};\n!enddefinelong\nP({a})"),
                format!("!$x = %string(\"{a}\") + %substr(\"x{b}\", 1)\nstart\n:$x;"),
            ]
        })
        .collect();
    diagrams.extend(
        [
            "!$x = \"spr\" + \"ite\"\n$x $foo TARGET\nstart\n:<$foo>;",
            "!$x = \"\\include\" + \"graphics\"\nstart\n:<latex>$x{TARGET}</latex>;",
            "!$x = \"di\" + \"graph\"\n$x a {\n b [image=\"TARGET\"]\n}",
            "!$x = %chr(60) + \"im\" + \"g\" + %chr(58)\nstart\n:$xTARGET>;",
            "!$x = %lower(\"<IM\") + \"g\"\nstart\n:$x:TARGET>;",
            // Older versions end here instead of an answer.
            "!$x = \"<i\" + \"mg:TARGET>\"\nA -> B : $x",
        ]
        .map(str::to_owned),
    );
    diagrams
}

#[tokio::test]
async fn a_picture_behind_the_preprocessor_is_not_read() {
    let Some(options) = plantuml() else { return };
    let engine = Engine::new(options);
    let secrets = Secrets::new();
    for (number, diagram) in disguised().into_iter().enumerate() {
        for target in [secrets.picture(), secrets.address(number)] {
            secrets.check(&engine, &diagram.replace("TARGET", &target)).await;
        }
    }
    // Graphviz, PlantUML's library and inline sprites work in the sandbox.
    for text in [
        "class A\nA --> B",
        "!include <logos/python>\nA -> B",
        "sprite $foo [4x4/16] {\nF0F0\n0F0F\nF0F0\n0F0F\n}\nstart\n:<$foo>;",
        "@startmindmap\n* a\n@endmindmap",
    ] {
        let drawn = engine.render(&Caller::Local, source(text)).await.unwrap();
        assert!(!drawn.svg.contains("access denied"), "{text}: {}", drawn.svg);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_that_reads_files_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    // It ends as Java 24 does when it is given a security manager.
    let modern = "case \"$JAVA_TOOL_OPTIONS\" in *security.manager*) exit 1;; esac";
    let engine = Engine::new(scripted(folder.path(), &format!("{modern}\n{ECHO}")));
    assert_eq!(
        engine.render(&Caller::Local, source("A -> B")).await.unwrap().svg,
        "<svg>A -> B</svg>"
    );

    let folder = tempfile::tempdir().unwrap();
    let reads = ECHO.replace(
        "printf '<svg>",
        "case \"$text\" in '!include '*) text=$(cat \"${text#* }\");; esac; printf '<svg>",
    );
    let engine = Engine::new(scripted(folder.path(), &format!("{modern}\n{reads}")));
    let error = engine.render(&Caller::Local, source("A -> B")).await.unwrap_err();
    assert!(matches!(error, EngineError::NoSandbox { .. }), "{error}");
    assert!(error.to_string().contains("use PlantUML 1.2020.11 or later"), "{error}");
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
        let drawn =
            engine.render(&Caller::Local, source(&format!("A -> B : {number}"))).await.unwrap();
        assert_eq!(drawn.svg, format!("<svg>A -> B : {number}</svg>"));
    }
    assert_eq!(fs::read_to_string(counter).unwrap().lines().count(), 3);
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_that_does_not_work_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Engine::new(scripted(folder.path(), "exit 1"));
    let error = engine.render(&Caller::Local, source("A -> B")).await.unwrap_err().to_string();
    assert!(error.contains("plantuml ended without an answer"), "{error}");
    let missing = EngineOptions::new(Program::Command(PathBuf::from("/nowhere/plantuml")));
    let error = Engine::new(missing).render(&Caller::Local, source("A -> B")).await.unwrap_err();
    assert!(matches!(error, EngineError::Process(_)), "{error}");
    let want = "PlantUML cannot be used: /nowhere/plantuml cannot be started: ";
    assert!(error.to_string().starts_with(want), "{error}");
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
    engine.render(&Caller::Local, source("A -> B")).await.unwrap();
    let error = engine.render(&Caller::Local, source("A -> B : slow")).await.unwrap_err();
    assert_eq!(error.to_string(), "the diagram was not drawn within 300 ms");
    assert_eq!(
        engine.render(&Caller::Local, source("A -> B")).await.unwrap().svg,
        "<svg>A -> B</svg>"
    );

    let folder = tempfile::tempdir().unwrap();
    let large = ECHO.replace(
        "printf '<svg>",
        "case \"$text\" in *large*) yes | head -c 1000000;; esac; printf '<svg>",
    );
    let mut options = scripted(folder.path(), &large);
    options.max_output_bytes = 10_000;
    let engine = Engine::new(options);
    let error = engine.render(&Caller::Local, source("A -> B : large")).await.unwrap_err();
    assert_eq!(error.to_string(), "the drawing is larger than 10000 bytes");
    assert_eq!(
        engine.render(&Caller::Local, source("A -> B")).await.unwrap().svg,
        "<svg>A -> B</svg>"
    );
}

/// One user's slow diagrams wait for each other; those of another are drawn meanwhile.
#[cfg(unix)]
#[tokio::test]
async fn slow_diagrams_of_one_caller_stop_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let slow =
        ECHO.replace("read -r text;", "read -r text; case \"$text\" in *slow*) sleep 1;; esac;");
    let mut options = scripted(folder.path(), &format!("echo x >> {}\n{slow}", starts.display()));
    options.timeout = Duration::from_millis(1_900);
    let engine = Arc::new(Engine::new(options));
    let [ann, bob] =
        ["ann", "bob"].map(|name| Caller::new(Some(&Arc::new(Principal::new(None, name))), None));
    let slow = (0..3).map(|_| {
        let engine = engine.clone();
        let ann = ann.clone();
        tokio::spawn(async move { engine.render(&ann, source("A -> B : slow")).await })
    });
    let slow: Vec<_> = slow.collect();
    // The second process is started for others when a diagram takes long.
    let end = Instant::now() + Duration::from_secs(5);
    while fs::read_to_string(&starts).unwrap_or_default().lines().count() < 2 {
        assert!(Instant::now() < end, "there is one process");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..5 {
        let started = Instant::now();
        engine.render(&bob, source("A -> B")).await.unwrap();
        assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    }
    // Their waits, 2 s for the last, are no part of the time limit.
    for drawn in slow {
        assert_eq!(drawn.await.unwrap().unwrap().svg, "<svg>A -> B : slow</svg>");
    }
    assert_eq!(fs::read_to_string(starts).unwrap().lines().count(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn a_diagram_that_gets_no_turn_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let slow =
        ECHO.replace("read -r text;", "read -r text; case \"$text\" in *slow*) sleep 9;; esac;");
    let mut options = scripted(folder.path(), &slow);
    options.max_wait = Duration::from_millis(200);
    options.processes = NonZeroUsize::MIN;
    let engine = Engine::new(options);
    let first = engine.render(&Caller::Local, source("A -> B : slow"));
    let second = engine.render(&Caller::Local, source("A -> B"));
    let error = tokio::select! {
        biased;
        drawn = first => panic!("{drawn:?}"),
        drawn = second => drawn.unwrap_err().to_string(),
    };
    assert!(error.starts_with("the diagram got no turn within 200 ms"), "{error}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn child_processes_end_with_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!("sleep 600 &\necho $! $$ > {}\n{ECHO}", pids.display());
    let engine = Engine::new(scripted(folder.path(), &script));
    engine.render(&Caller::Local, source("A -> B")).await.unwrap();
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
