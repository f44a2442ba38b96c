//! Tests of names.

use proptest::prelude::*;

use super::*;

#[test]
fn hostile_names_become_safe() {
    for (text, want) in [
        ("", "artifact"),
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "_.._etc_passwd"),
        ("..", "artifact"),
        ("...hidden", "hidden"),
        ("a/b\\c:d*e?f\"g<h>i|j", "a_b_c_d_e_f_g_h_i_j"),
        ("nul", "_nul"),
        ("NUL.txt", "_NUL.txt"),
        ("com1 .txt", "_com1 .txt"),
        ("COM¹", "_COM¹"),
        ("command.txt", "command.txt"),
        ("x.metadata.json", "x_metadata.json"),
        ("x.METADATA.JSON", "x_METADATA.JSON"),
        ("x.metadata.json. ", "x_metadata.json"),
        ("a\0b\nc\u{7f}", "abc"),
        ("gpj.\u{202e}exe", "gpj.exe"),
        ("a\u{200b}\u{e0041}b", "ab"),
        ("e\u{200d}\u{301}", "é"),
        ("trailing. . ", "trailing"),
        ("a\u{a0}b\u{3000}c", "a b c"),
        ("\u{212a}", "K"),
    ] {
        assert_eq!(ArtifactName::sanitised(text).as_str(), want, "{text:?}");
    }
}

#[test]
fn long_names_keep_their_extension() {
    let name = ArtifactName::sanitised(&format!("{}.jpeg", "ä".repeat(200)));
    assert_eq!(name.as_str(), format!("{}.jpeg", "ä".repeat(72)));
    let name = ArtifactName::sanitised(&format!("{}.metadata.json", "x".repeat(136)));
    assert_eq!(name.as_str(), format!("{}_metadata.json", "x".repeat(136)));
    let name =
        ArtifactName::sanitised(&format!("{}.metadata{}.json", "x".repeat(136), "y".repeat(40)));
    assert_eq!(name.as_str(), format!("{}_metadata.json", "x".repeat(136)));
    assert_eq!(
        ArtifactName::sanitised(&format!("con{}x.txt", " ".repeat(200))).as_str(),
        "_con.txt"
    );
}

#[test]
fn names_of_items() {
    let name = ArtifactName::of_item("srv__get", "json", 3, 0x1a2b, ".json");
    assert_eq!(name.as_str(), "srv__get_json_3_00001a2b.json");
    let name = ArtifactName::of_item(&"t".repeat(500), "text", 0, u32::MAX, ".txt");
    assert_eq!(name.as_str().len(), 150);
    assert!(name.as_str().ends_with("_text_0_ffffffff.txt"));
    assert_eq!(
        ArtifactName::of_item("..", "text", 0, 0, ".txt").as_str(),
        "tool_text_0_00000000.txt"
    );
    assert_eq!(
        ArtifactName::of_item("con", "text", 0, 0, ".txt").as_str(),
        "_con_text_0_00000000.txt"
    );
    assert_eq!(ArtifactName::of_resource("a.", 1, ".bashrc").as_str(), "a_resource_1_bashrc");
    let name = ArtifactName::of_resource(&"t".repeat(200), 0, &format!("{}.csv", "n".repeat(200)));
    assert_eq!(name.as_str().len(), 150);
    assert!(
        name.as_str().starts_with(&format!("{}_resource_0_nn", "t".repeat(50)))
            && name.as_str().ends_with("n.csv")
    );
}

#[test]
fn file_names_of_uris() {
    for (uri, want) in [
        ("file:///tmp/a%20b.txt", Some("a b.txt")),
        ("file:///../../etc/passwd", Some("passwd")),
        ("file:///a/..", Some("a")),
        ("file:///a/%2e%2e%2fsecret", Some("secret")),
        ("file:///a/..%5c..%5cwin.ini", Some("win.ini")),
        ("https://example.com/r.json?x=/y.txt#z", Some("r.json")),
        ("https://example.com/dir/", Some("dir")),
        ("https://example.com", Some("example_com")),
        ("https://example.com/", Some("example_com")),
        ("urn:isbn:123", Some("isbn:123")),
        ("data.csv", Some("data.csv")),
        ("/plain/path.md", Some("path.md")),
        ("C:/x/y.txt", Some("y.txt")),
        ("memo://", Some("memo")),
        ("", None),
        ("///", None),
        ("%ff%fe", Some("\u{fffd}\u{fffd}")),
    ] {
        assert_eq!(file_name_of(uri).as_deref(), want, "{uri}");
    }
}

#[test]
fn uris_are_read_strictly() {
    for uri in [
        "artifact://a.txt?version=1",
        "artifact://a.txt",
        "artifact://%E2%82%AC.txt?version=18446744073709551615",
    ] {
        assert_eq!(uri.parse::<ArtifactUri>().unwrap().to_string(), uri);
    }
    for (uri, want) in [
        ("http://a.txt", "uri does not begin with \"artifact://\""),
        ("artifact://..%2fa", "name contains '/', which is not allowed in a name"),
        ("artifact://%ff", "name in the uri is not UTF-8"),
        ("artifact://", "name is empty"),
        ("artifact://a?version=", "query of the uri is not \"version=<number>\""),
        ("artifact://a?version=+1", "query of the uri is not \"version=<number>\""),
        ("artifact://a?version=1&x=2", "query of the uri is not \"version=<number>\""),
        (
            "artifact://a?version=99999999999999999999",
            "query of the uri is not \"version=<number>\"",
        ),
    ] {
        assert_eq!(uri.parse::<ArtifactUri>().unwrap_err().to_string(), want, "{uri}");
    }
}

/// Text with many forbidden characters.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "\\PC{0,20}",
        "[./\\\\: ]{1,6}",
        "[a-z]{0,200}",
        Just(".metadata.json".to_owned()),
        Just("con".to_owned()),
        Just("LPT1".to_owned()),
        Just("\u{301}".to_owned()),
        any::<char>().prop_map(String::from),
    ];
    proptest::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_name_is_safe_and_stays_as_it_is(text in hostile(), tool in hostile(), id: u32, index: usize) {
        for name in [
            ArtifactName::sanitised(&text),
            ArtifactName::of_item(&tool, "markdown", index, id, ".md"),
            ArtifactName::of_answer(&tool, "raw", id, ".json"),
            ArtifactName::of_resource(&tool, index, &text),
        ] {
            prop_assert_eq!(check(name.as_str()), Ok(()));
            prop_assert_eq!(&ArtifactName::sanitised(name.as_str()), &name);
            let uri = ArtifactUri { name, version: Some(index as u64) };
            prop_assert_eq!(uri.to_string().parse(), Ok(uri));
        }
    }

    #[test]
    fn file_names_of_uris_never_panic(uri in hostile()) {
        file_name_of(&uri);
    }
}
