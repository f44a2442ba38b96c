//! The checks of the fuzz targets in `fuzz/`, one function for each. Compiled only for them and for
//! the test that replays their corpus.

use serde_json::Value;

use crate::{
    Am7Uri, Block, Builder, Context, Filter, LegacyTokens, Trust, downgrade, neutralize, parse,
    upgrade, user_text,
};

/// Checks the properties of one input.
pub type Target = fn(&[u8]);

/// All targets by the name of their corpus.
pub const TARGETS: &[(&str, Target)] = &[("blocks", blocks), ("uri", uri)];

/// Checks that every text can be parsed, its payloads can be built again, and removing blocks never
/// forms new ones.
pub fn blocks(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    let parsed = parse(text);
    let mut end = 0;
    for block in &parsed.blocks {
        assert!(block.span().start >= end);
        end = block.span().end;
        assert_eq!(&text[block.span()], block.raw());
        let alone = parse(block.raw());
        assert_eq!((alone.blocks.len(), alone.blocks[0].raw()), (1, block.raw()));
        block.tags();
        block.thumbnail();
        is_built_again(&block.kind(), &block.uri().unwrap_or_default(), block.payload().data);
    }
    parsed.to_json(text);

    for (show_ephemeral, show_reasoning) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let mut filter =
            Filter { show_ephemeral, show_reasoning, render_resources: false, ..Filter::default() };
        let kept = parsed.blocks.iter().filter(|block| {
            (show_ephemeral || !block.is_ephemeral())
                && (show_reasoning || block.kind() != "reasoning")
        });
        let content = filter.apply(text).content;
        let left = parse(&content);
        assert!(left.blocks.iter().map(Block::raw).eq(kept.map(Block::raw)), "{content}");
        assert_eq!(left.problems, []);
        assert_eq!(filter.apply(&content).content, content);
        // An image is not a block, so rendering can only remove blocks.
        filter.render_resources = true;
        assert!(parse(&filter.apply(text).content).blocks.len() <= left.blocks.len());
    }

    let neutral = neutralize(text);
    assert_eq!(parse(&neutral), Default::default());
    assert_eq!(upgrade(&neutral), neutral);
    assert_eq!(neutralize(&neutral), neutral);

    for block in parse(&upgrade(text)).blocks {
        let uri = block.uri().unwrap_or_default();
        let is_of_a_form = uri.ends_with("/legacy")
            || uri.starts_with("am7://media/")
            || block.payload().schema.as_deref() == Some("urn:am7:llm:reasoning");
        let was_there = parsed.blocks.iter().any(|old| old.raw() == block.raw());
        assert!(is_of_a_form || was_there, "{}", block.raw());
    }
    downgrade(text);

    for legacy in [LegacyTokens::Neutralize, LegacyTokens::Upgrade] {
        let sent = user_text(text, legacy);
        let sent = parse(&sent);
        assert_eq!(sent.problems, []);
        for block in &sent.blocks {
            assert!(block.is_inline() || block.trust() == Some(Trust::Caller), "{}", block.raw());
        }
    }
}

fn is_built_again(kind: &str, uri: &str, data: Value) {
    // serde_json parses at most 128 levels, and the object of the block is one.
    if depth(&data) > 120 {
        return;
    }
    for marked in [false, true] {
        let context = Context::new(kind, "schema").id(uri);
        let context = if marked { context.datamarked() } else { context };
        let mut builder = Builder::new();
        builder.add(context, &data).expect("a JSON value is JSON");
        let built = builder.build();
        let again = parse(&built);
        assert_eq!((again.blocks.len(), again.problems.len()), (1, 0), "{built}");
        let block = &again.blocks[0];
        assert_eq!(block.payload().data, data, "{built}");
        assert_eq!((&*block.kind(), block.id().as_deref()), (kind, Some(uri)), "{built}");
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Checks that every text, and every three parts, gives an error or a URI that is unchanged after
/// writing and parsing it again.
pub fn uri(data: &[u8]) {
    let text = &*String::from_utf8_lossy(data);
    if let Ok(uri) = Am7Uri::parse(text) {
        check_round_trip(&uri);
    }
    let parts: Vec<&str> = text.splitn(3, '|').chain(["a"; 2]).collect();
    let builder = Am7Uri::builder().organization(parts[0]).object_type(parts[1]).id(parts[2]);
    for builder in [
        builder.clone(),
        builder.clone().media(),
        builder.vector_search().query_param("q", text).query_param(text, "v"),
    ] {
        if let Ok(uri) = builder.build() {
            check_round_trip(&uri);
            if uri.is_vector_search() {
                assert_eq!(uri.query_param("q").as_deref(), Some(text));
            }
        }
    }
}

fn check_round_trip(uri: &Am7Uri) {
    let text = uri.to_string();
    assert_eq!(Am7Uri::parse(&text).as_ref(), Ok(uri), "{text}");
    assert!(!uri.organization().split('/').any(|segment| matches!(segment, "" | "." | "..")));
    let parts = [uri.object_type(), uri.id()];
    assert!(parts.into_iter().flatten().all(|part| !part.contains(['/', '\\', '\0', '"', '\''])));
    uri.query_param("q");
}

#[cfg(test)]
mod tests {
    /// Replays inputs that once failed, with any compiler.
    #[test]
    fn the_corpus_is_replayed() {
        test_corpus::replay(super::TARGETS);
    }
}
