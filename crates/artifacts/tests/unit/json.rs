//! Tests of the parser of JSON.

use super::*;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

#[test]
fn members_keep_their_order_and_the_last_of_a_name_counts() {
    let raw = raw(r#"{"b": 1, "a": 2, "b": 3, "\u0063": "x"}"#);
    let members = Members::read(&raw).unwrap();
    let all: Vec<_> = members.iter().map(|(key, value)| (key, value.get())).collect();
    assert_eq!(all, [("a", "2"), ("b", "3"), ("c", "\"x\"")]);
    assert_eq!(members.get("b").unwrap().get(), "3");
    assert_eq!(members.string("c").unwrap(), "x");
    assert_eq!(members.string("a"), None);
}

#[test]
fn other_values_have_no_members() {
    for json in ["[]", "1", "null", "\"{}\"", r#"{"\ud800": 1}"#] {
        assert!(Members::read(&raw(json)).is_none(), "{json}");
    }
}

#[test]
fn half_a_surrogate_pair_is_replaced_and_reported() {
    assert_eq!(
        string(&raw(r#""a\ud800b""#)).unwrap(),
        ("a\u{fffd}\u{fffd}\u{fffd}b".into(), false)
    );
    assert_eq!(string(&raw(r#""\ud83d\ude00""#)).unwrap(), ("😀".into(), true));
    assert_eq!(string(&raw("1")), None);
}

#[test]
fn parts_are_found_in_the_whole() {
    let raw = raw(r#"{"a": [ 1, "xy" ]}"#);
    let members = Members::read(&raw).unwrap();
    let items = elements(members.get("a").unwrap(), 9).unwrap();
    assert_eq!(&raw.get()[span(&raw, items.first[1])], "\"xy\"");
    assert!(items.tail.is_none() && elements(&raw, 9).is_none());
}

#[test]
fn later_elements_are_one_stretch() {
    let raw = raw("[1, 2 , [3], {\"a\": 4} ]");
    let items = elements(&raw, 2).unwrap();
    let tail = items.tail.unwrap();
    assert_eq!((items.first.len(), tail.count), (2, 2));
    assert_eq!(&raw.get()[tail.span(&raw)], "[3], {\"a\": 4}");
    assert_eq!(elements(&raw, 4).unwrap().first.len(), 4);
}

#[test]
fn minified_drops_only_white_space_between_tokens() {
    let text: Vec<u8> = minified("{ \"a \\\" b\" :\n [1 , \"\\\\\"] }").collect();
    assert_eq!(String::from_utf8(text).unwrap(), "{\"a \\\" b\":[1,\"\\\\\"]}");
}
