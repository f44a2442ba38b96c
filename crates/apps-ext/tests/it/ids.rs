//! Each requirement of a host has a test that names its id.

use std::{collections::BTreeSet, fs, path::Path};

/// The ids of the official catalogue for hosts (github.com/modelcontextprotocol/ext-apps, pull
/// request 726), without the names of their groups.
const CATALOGUE: &str = "csp-construct-from-domains csp-default-deny csp-no-loosening csp-allow-declared \
    csp-audit-log external-domain-warning global-allowlist read-referenced prefetch app-tool-hidden \
    app-tool-call-guard initialize-hostcontext initialize-capabilities tool-input tool-input-partial \
    tool-input-partial-stop tool-result tool-cancelled teardown-notify teardown-await listen-size-changed \
    no-undeclared-mode return-resulting-mode unavailable-returns-current decline-undeclared open-external \
    add-to-conversation consent provide-future-turns last-wins server-passthrough proxy-call mimetypes-required \
    context-changed iframe-sandboxed sandbox-proxy-required sandbox-distinct-origin sandbox-permissions \
    sandbox-proxy-ready sandbox-resource-ready sandbox-csp-enforced sandbox-message-forwarding \
    sandbox-no-self-requests permissions-allow-attr";

/// Our own numbers: 25 of hosts, 10 of sandboxes.
fn numbers() -> impl Iterator<Item = String> {
    let of = |letter: char, count: u32| (1..=count).map(move |it| format!("{letter}{it:02}"));
    of('h', 25).chain(of('x', 10))
}

/// Returns the names of the tests of a file, and the comments above them.
fn heads(source: &str) -> String {
    let mut heads = String::new();
    let mut comment = String::new();
    for line in source.lines() {
        let line = line.trim_start();
        if line.starts_with("//") {
            comment.push_str(line);
            comment.push('\n');
        } else if line.starts_with("fn ")
            || line.starts_with("async fn ")
            || line.starts_with("test(")
        {
            heads.push_str(&comment);
            heads.push_str(line);
            heads.push('\n');
            comment.clear();
        } else if !line.starts_with("#[") {
            comment.clear();
        }
    }
    heads
}

/// Returns the ids that the heads name: those of the catalogue in backquotes, with or without their
/// group; `h05` and `H5` are one id.
fn named() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![
        root.join("tests/it/requirements.rs"),
        root.join("tests/it/sandbox.rs"),
        root.join("tests/it/view.rs"),
    ];
    for entry in fs::read_dir(root.join("../../tests/browser")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().is_some_and(|it| it.ends_with(".test.mjs")) {
            files.push(path);
        }
    }
    let heads: String = files.iter().map(|it| heads(&fs::read_to_string(it).unwrap())).collect();
    let word = |word: &str| {
        let word = word.to_ascii_lowercase();
        match word.split_at_checked(1) {
            Some((letter @ ("h" | "x"), number)) => match number.parse::<u32>() {
                Ok(number) => format!("{letter}{number:02}"),
                Err(_) => word,
            },
            _ => word,
        }
    };
    let words = heads.split(|char: char| !char.is_ascii_alphanumeric()).map(word);
    let quoted = heads.split('`').skip(1).step_by(2);
    words.filter(|it| it.starts_with(['h', 'x'])).chain(quoted.map(id_of)).collect()
}

/// Returns the id without its group.
fn id_of(quoted: &str) -> String {
    quoted.rsplit('/').next().unwrap_or_default().to_owned()
}

#[test]
fn each_requirement_is_named_by_a_test() {
    let named = named();
    let all = numbers().chain(CATALOGUE.split_whitespace().map(str::to_owned));
    let missing: Vec<_> = all.filter(|id| !named.contains(id)).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn only_the_heads_of_tests_are_read() {
    let source =
        "/// `h`\nlet a = 1;\n/// X1\n#[test]\nfn y() {\n    // no\n}\n// X2\ntest('z', () => {\n";
    assert_eq!(heads(source), "/// X1\nfn y() {\n// X2\ntest('z', () => {\n");
}
