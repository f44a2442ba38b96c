//! What the fuzz targets of `fuzz/` do with their input, one function each. Built for them and for the test that
//! replays their corpus; no part of the crate otherwise.

use serde_json::{Value, value::RawValue};

use crate::{
    Batch, DEFAULT_MAX_NESTING, Feature, Incoming, Message, Revision, client, line::Line,
    nested_deeper_than, server::fuzz as server, write_error, write_notification, write_request,
    write_result,
};

/// What is done with an input.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: &[(&str, Target)] =
    &[("envelope", envelope), ("http", http), ("line", line), ("shape", shape), ("sse", sse)];

/// Any bytes are a message, a batch or an error; what was read is written and read again as the same.
pub fn envelope(data: &[u8]) {
    for most in [2, DEFAULT_MAX_NESTING] {
        assert_eq!(nested_deeper_than(data, most), naively_deeper_than(data, most));
    }
    match Incoming::parse(data, DEFAULT_MAX_NESTING) {
        Ok(Incoming::Message(message)) => comes_again(&message),
        Ok(Incoming::Batch(batch)) => in_batch(batch),
        Err(error) => assert!(error.id.is_none() || error.answers.is_none()),
    }
}

fn in_batch(batch: Batch<'_>) {
    let Ok(messages) = batch.messages(8) else { return };
    assert!((1..=8).contains(&messages.len()));
    messages.iter().flatten().for_each(comes_again);
}

fn comes_again(message: &Message<'_>) {
    let bytes = match message {
        Message::Request(it) => write_request(&it.id, &it.method, it.params),
        Message::Notification(it) => write_notification(&it.method, it.params),
        Message::Response(it) => match (&it.id, &it.outcome) {
            (Some(id), Ok(result)) => write_result(id, result),
            (id, Err(error)) => write_error(id.as_ref(), error),
            (None, Ok(_)) => panic!("a result to no request"),
        },
    };
    assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'));
    let again = Message::parse(&bytes, DEFAULT_MAX_NESTING + 1).expect("what we write can be read");
    let on_one_line = |json: &RawValue| json.get().replace(['\n', '\r'], " ");
    match (message, &again) {
        (Message::Request(a), Message::Request(b)) => {
            assert_eq!((&a.id, &a.method), (&b.id, &b.method));
            assert_eq!(a.params.map(on_one_line), b.params.map(on_one_line));
        }
        (Message::Notification(a), Message::Notification(b)) => {
            assert_eq!(a.method, b.method);
            assert_eq!(a.params.map(on_one_line), b.params.map(on_one_line));
        }
        (Message::Response(a), Message::Response(b)) => {
            assert_eq!(a.id, b.id);
            match (&a.outcome, &b.outcome) {
                (Ok(a), Ok(b)) => assert_eq!(on_one_line(a), on_one_line(b)),
                (Err(a), Err(b)) => assert_eq!((a.code, &a.message), (b.code, &b.message)),
                _ => panic!("a result became an error, or the reverse"),
            }
        }
        _ => panic!("{message:?} became {again:?}"),
    }
}

/// As [`nested_deeper_than`], byte by byte.
fn naively_deeper_than(json: &[u8], most: usize) -> bool {
    let (mut depth, mut in_string) = (0_usize, false);
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => _ = bytes.next(),
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > most {
            return true;
        }
    }
    false
}

/// Every HTTP request is answered.
pub fn http(data: &[u8]) {
    server::http(data);
}

/// A stream of events reads the same, in whatever pieces it comes. The first byte says how long they are.
pub fn sse(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let whole = client::fuzz::sse(stream, stream.len().max(1));
    assert_eq!(client::fuzz::sse(stream, usize::from(*size).max(1)), whole);
}

/// Lines are those between line feeds, whatever the buffer; the first two bytes are its size and the limit.
pub fn line(data: &[u8]) {
    let [capacity, most, input @ ..] = data else { return };
    let most = usize::from(*most);
    let mut want: Vec<&[u8]> = input.split(|byte| *byte == b'\n').collect();
    // What comes behind the last line feed is a line if it is anything.
    want.pop_if(|last| last.is_empty());
    let mut reader = tokio::io::BufReader::with_capacity(usize::from(*capacity).max(1), input);
    let mut buffer = Vec::new();
    futures_util::FutureExt::now_or_never(async {
        for want in want {
            let line =
                crate::line::read_line(&mut reader, &mut buffer, most).await.expect("memory");
            match line {
                Line::Whole => assert_eq!(buffer, want),
                Line::Blank => assert!(want.trim_ascii().is_empty()),
                Line::TooLong => assert!(want.len() > most && buffer.len() <= 1_024),
                Line::End => panic!("a line is missing"),
            }
            assert_eq!(line == Line::TooLong, want.len() > most);
        }
        let last = crate::line::read_line(&mut reader, &mut buffer, most).await.expect("memory");
        assert_eq!(last, Line::End);
    })
    .expect("what reads from memory does not wait");
}

/// Any result can be given the form of any revision, and has nothing then that the revision does not know. The first
/// byte chooses the method.
pub fn shape(data: &[u8]) {
    const METHODS: [&str; 9] = [
        "initialize",
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "completion/complete",
    ];
    let Some((choice, json)) = data.split_first() else { return };
    if nested_deeper_than(json, DEFAULT_MAX_NESTING) {
        return;
    }
    let Ok(result) = serde_json::from_slice::<Box<RawValue>>(json) else { return };
    let method = METHODS[usize::from(*choice) % METHODS.len()];
    for revision in Revision::ALL {
        // A 2024-10-07 tool cannot fail but by an error.
        let Ok(shaped) = server::shape(method, revision, result.clone()) else { continue };
        match serde_json::from_str::<Value>(shaped.get()) {
            Ok(shaped) if shaped.is_object() => knows(method, revision, &shaped),
            Ok(_) => {}
            // A number beyond any that we can hold goes through where nothing is shaped.
            Err(error) => assert!(revision >= Revision::V2025_11_25, "{error}"),
        }
    }
}

fn knows(method: &str, revision: Revision, result: &Value) {
    let lacks = |value: &Value, feature: Feature, members: &[&str]| {
        for member in members.iter().filter(|_| !revision.has(feature)) {
            assert!(value.get(member).is_none(), "{method} in {revision}: {member} in {value}");
        }
    };
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let content = |item: &Value| {
        for (kind, feature) in [
            ("audio", Feature::Audio),
            ("resource_link", Feature::ResourceLinks),
            ("resource", Feature::EmbeddedResources),
        ] {
            assert!(
                revision.has(feature) || item["type"] != kind,
                "{method} in {revision}: {item}"
            );
        }
        lacks(item, Feature::Titles, &["_meta"]);
    };
    match method {
        "tools/call" => {
            lacks(result, Feature::StructuredContent, &["structuredContent"]);
            lacks(result, Feature::ContentList, &["content", "isError"]);
            items(&result["content"]).iter().for_each(content);
            items(&result["toolResult"]).iter().for_each(content);
        }
        "prompts/get" => {
            items(&result["messages"]).iter().for_each(|message| content(&message["content"]));
        }
        "initialize" => lacks(&result["serverInfo"], Feature::Icons, &["icons", "websiteUrl"]),
        _ => {
            let lists = ["tools", "prompts", "resources", "resourceTemplates"];
            let of_method = lists.iter().filter(|list| {
                **list == "resourceTemplates" && method == "resources/templates/list"
                    || method == format!("{list}/list")
            });
            for entry in of_method.flat_map(|list| items(&result[*list])) {
                lacks(&entry, Feature::Icons, &["icons"]);
                lacks(&entry, Feature::Titles, &["title", "_meta"]);
                if method == "tools/list" {
                    lacks(&entry, Feature::StructuredContent, &["outputSchema"]);
                    lacks(&entry, Feature::ToolAnnotations, &["annotations"]);
                }
            }
            if method.ends_with("/list") {
                lacks(result, Feature::Pagination, &["nextCursor"]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    /// What a target once choked on, it must not choke on again, whatever the compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
