//! Tests of JSON whose middle is left out.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(text: &str, head: usize, tail: usize, want: Expect) {
    let elided = without_middle(text, head, tail);
    if let Some(elided) = &elided {
        assert!(serde_json::from_str::<Value>(&elided.shown).is_ok(), "{elided:?}");
    }
    let shown = elided.map_or("none".to_owned(), |elided| {
        format!("{} ({} + {})", elided.shown, elided.head, elided.tail)
    });
    want.assert_eq(&shown);
}

#[test]
fn the_innermost_container_loses_its_middle() {
    check("[1,2,3,4,5,6,7,8,9]", 8, 4, expect![[r#"[1,2,3,"… 5 more items …",9] (6 + 2)"#]]);
    check(
        r#"{"a":[1,2,3,4,5,6,7,8,9],"b":true}"#,
        12,
        12,
        expect![[r#"{"a":[1,2,3,"… 6 more items …"],"b":true} (11 + 11)"#]],
    );
    check(
        r#"{"a":1,"b":2,"c":3,"d":4,"e":5}"#,
        10,
        8,
        expect![[r#"{"a":1,"…":"3 more members","e":5} (6 + 6)"#]],
    );
    check(
        r#"[{"id":1},{"id":2},{"id":3},{"id":4}]"#,
        12,
        13,
        expect![[r#"[{"id":1},"… 2 more items …",{"id":4}] (9 + 9)"#]],
    );
    check(
        "[1, 2,\n 3, 4, 5, 6 ]\n",
        6,
        4,
        expect![[r#"
        [1, 2,"… 4 more items …"]
         (5 + 2)"#]],
    );
    check(r#"{"rows":[1,2,3,4,5,6,7,8,9,0],"z":0}"#, 14, 1, expect!["none"]);
}

#[test]
fn a_long_string_loses_its_middle() {
    check(
        r#"{"content":"abcdefghijklmnopqrstuvwxyz"}"#,
        16,
        6,
        expect![[r#"{"content":"abc[… 19 bytes are left out here …]wxyz"} (15 + 6)"#]],
    );
    check(r#"["\n\n\n\n\n\u00e4\n\n\n\nx\n\n"]"#, 10, 8, expect!["none"]);
    check(
        r#"["äöüäöüäöüäöü"]"#,
        7,
        7,
        expect![[r#"["äö[… 16 bytes are left out here …]öü"] (6 + 6)"#]],
    );
}

#[test]
fn other_texts_are_cut_otherwise() {
    check("[INFO] started\n[INFO] ended, long after the start", 10, 10, expect!["none"]);
    check("[1,2]", 3, 2, expect!["none"]);
    check(&json!(["x".repeat(50), "y".repeat(50)]).to_string(), 30, 20, expect!["none"]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i32>().prop_map(Value::from),
        r#"[a-c,:{}\[\]"\\\\é\n😀]{0,12}"#.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(("[a-d\"]{1,3}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_shown_is_json_with_the_ends_of_the_text(
        value in any_json(), is_pretty in any::<bool>(), is_ascii in any::<bool>(),
        head in 0_usize..60, tail in 0_usize..60,
    ) {
        let mut text = value.to_string();
        if is_pretty {
            text = serde_json::to_string_pretty(&value).unwrap();
        }
        if is_ascii {
            text = text.replace('😀', "\\ud83d\\ude00").replace('é', "\\u00e9");
        }
        if let Some(elided) = without_middle(&text, head, tail) {
            prop_assert!(elided.head <= head && elided.tail <= tail, "{text} {elided:?}");
            prop_assert!(elided.shown.starts_with(&text[..elided.head]));
            prop_assert!(elided.shown.ends_with(&text[text.len() - elided.tail..]));
            prop_assert!(elided.shown.len() <= elided.head + elided.tail + 64);
            let shown = serde_json::from_str::<Value>(&elided.shown);
            prop_assert!(shown.is_ok(), "{text} {elided:?}");
        }
    }
}
