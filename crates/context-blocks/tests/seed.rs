//! The tests of seed 003 that speak of blocks and of URIs, each under its id.

use marquetry_context_blocks::{
    Am7Uri, Am7UriError, Builder, Context, Element, Filter, downgrade, neutralize, parse, upgrade,
};
use serde_json::{Value, json};

fn uri(text: &str) -> Am7Uri {
    Am7Uri::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// seed: 003/Am7UriTest.testParseValidUri
#[test]
fn a_uri_has_organisation_type_and_id() {
    let uri = uri("am7://default/system.user/abc-123");
    assert_eq!(
        (uri.organization(), uri.object_type(), uri.id()),
        ("default", Some("system.user"), Some("abc-123"))
    );
    assert!(!uri.is_media() && !uri.is_vector_search());
}

/// seed: 003/Am7UriTest.testParseMediaUri
/// seed: 003/Am7UriEdgeCaseTest.testParseMediaUri
#[test]
fn a_media_uri_has_the_type_of_its_object() {
    let uri = uri("am7://default/media/data.data/img-456");
    assert!(uri.is_media());
    assert_eq!(
        (uri.organization(), uri.object_type(), uri.id()),
        ("default", Some("data.data"), Some("img-456"))
    );
}

/// seed: 003/Am7UriTest.testParseVectorSearchUri
#[test]
fn a_search_has_parameters() {
    let uri = uri("am7://default/vector/search?q=test&limit=10");
    assert!(uri.is_vector_search());
    assert_eq!(uri.query_param("q").as_deref(), Some("test"));
    assert_eq!(uri.query_param("limit").as_deref(), Some("10"));
    assert_eq!((uri.query_param("type"), uri.object_type(), uri.id()), (None, None, None));
}

/// seed: 003/Am7UriTest.testParseInvalidScheme
/// seed: 003/Am7UriEdgeCaseTest.testParseWrongSchemeThrows
#[test]
fn other_schemes_are_refused() {
    for text in
        ["http://example.com/resource", "http://default/system.user/abc", "am7:/default/a/b", "AM7"]
    {
        assert_eq!(Am7Uri::parse(text), Err(Am7UriError::Scheme), "{text}");
    }
}

/// seed: 003/Am7UriTest.testBuildUri
/// seed: 003/Am7UriEdgeCaseTest.testBuilderAllFields
#[test]
fn a_uri_is_built_of_its_parts() {
    let built = |organization: &str, kind: &str, id: &str| {
        Am7Uri::builder()
            .organization(organization)
            .object_type(kind)
            .id(id)
            .build()
            .unwrap()
            .to_string()
    };
    assert_eq!(built("default", "auth.group", "grp-789"), "am7://default/auth.group/grp-789");
    assert_eq!(built("myorg", "data.data", "doc-789"), "am7://myorg/data.data/doc-789");
}

/// seed: 003/Am7UriEdgeCaseTest.testParseMinimalUri
#[test]
fn three_words_are_a_uri() {
    let uri = uri("am7://org/type/id");
    assert_eq!(
        (uri.organization(), uri.object_type(), uri.id()),
        ("org", Some("type"), Some("id"))
    );
}

/// seed: 003/Am7UriEdgeCaseTest.testParseDottedModelType
#[test]
fn a_type_may_have_dots() {
    assert_eq!(
        uri("am7://default/olio.llm.chatConfig/abc-123").object_type(),
        Some("olio.llm.chatConfig")
    );
}

/// seed: 003/Am7UriEdgeCaseTest.testParseUuidObjectId
#[test]
fn an_id_may_be_a_uuid() {
    let uuid = "550e8400-e29b-41d4-a716-446655440000";
    assert_eq!(uri(&format!("am7://default/data.data/{uuid}")).id(), Some(uuid));
}

/// seed: 003/Am7UriEdgeCaseTest.testParseWithQueryParams
#[test]
fn parameters_are_there_raw_and_decoded() {
    let uri = uri("am7://default/vector/search?q=hello+world&limit=10&threshold=0.7");
    assert_eq!(uri.raw_query_param("q"), Some("hello+world"));
    assert_eq!(uri.query_param("q").as_deref(), Some("hello world"));
    assert_eq!(uri.raw_query_param("limit"), Some("10"));
    assert_eq!(uri.raw_query_param("threshold"), Some("0.7"));
}

/// seed: 003/Am7UriEdgeCaseTest.testParseMediaUriWithSizeParam
#[test]
fn a_medium_may_have_a_size() {
    let uri = uri("am7://default/media/data.data/img-456?size=256");
    assert!(uri.is_media());
    assert_eq!(uri.query_param("size").as_deref(), Some("256"));
}

/// seed: 003/Am7UriEdgeCaseTest.testParseNullThrows
#[test]
fn null_is_no_uri() {
    assert!(serde_json::from_value::<Am7Uri>(Value::Null).is_err());
    assert_eq!(serde_json::from_value::<Am7Uri>(json!("am7://a/b/c")).unwrap(), uri("am7://a/b/c"));
}

/// seed: 003/Am7UriEdgeCaseTest.testParseEmptyThrows
#[test]
fn empty_text_is_no_uri() {
    assert_eq!(Am7Uri::parse(""), Err(Am7UriError::Scheme));
}

/// seed: 003/Am7UriEdgeCaseTest.testParseMissingOrgThrows
/// seed: 003/Am7UriEdgeCaseTest.testParseMissingTypeThrows
/// seed: 003/Am7UriEdgeCaseTest.testParseMissingIdThrows
#[test]
fn each_part_must_be_there() {
    for text in ["am7:///system.user/abc", "am7://default//abc", "am7://default/system.user/"] {
        assert_eq!(Am7Uri::parse(text), Err(Am7UriError::EmptySegment), "{text}");
    }
    assert_eq!(Am7Uri::parse("am7://default/system.user"), Err(Am7UriError::Segments(2)));
}

/// seed: 003/Am7UriEdgeCaseTest.testParseTraversalAttackThrows
#[test]
fn a_uri_leads_nowhere_else() {
    for text in ["am7://default/../../../etc/passwd", "am7://default/%2e%2E/x", "am7://./a.b/x"] {
        assert!(matches!(Am7Uri::parse(text), Err(Am7UriError::Traversal(_))), "{text}");
    }
    for text in [
        "am7://default/a%2fb/x",
        "am7://default/a.b/x%00",
        "am7://default/a.b/x\\y",
        "am7://default/a.b/%252e",
    ] {
        assert!(matches!(Am7Uri::parse(text), Err(Am7UriError::Character(_))), "{text}");
    }
}

/// seed: 003/Am7UriEdgeCaseTest.testParseInjectionAttackThrows
#[test]
fn a_uri_holds_no_sql() {
    for text in [
        "am7://default/system.user/'; DROP TABLE users;--",
        "am7://default/system.user/%27%3B%20DROP%20TABLE%20users%3B--",
        "am7://default/vector/search?q='; DROP TABLE users;--",
    ] {
        assert!(matches!(Am7Uri::parse(text), Err(Am7UriError::Character('\'' | ' '))), "{text}");
    }
}

/// seed: 003/Am7UriEdgeCaseTest.testBuilderVectorSearch
#[test]
fn a_built_search_is_encoded() {
    let uri = Am7Uri::builder()
        .organization("default")
        .vector_search()
        .query_param("q", "search term")
        .query_param("limit", "10")
        .build()
        .unwrap();
    assert_eq!(uri.to_string(), "am7://default/vector/search?q=search+term&limit=10");
}

/// seed: 003/Am7UriEdgeCaseTest.testBuilderMissingOrgThrows
/// seed: 003/Am7UriEdgeCaseTest.testBuilderMissingTypeThrows
#[test]
fn the_builder_refuses_missing_parts() {
    let builder = Am7Uri::builder;
    assert_eq!(
        builder().object_type("data.data").id("abc").build(),
        Err(Am7UriError::MissingOrganization)
    );
    assert_eq!(builder().organization("default").id("abc").build(), Err(Am7UriError::MissingType));
    assert_eq!(
        builder().organization("default").object_type("data.data").build(),
        Err(Am7UriError::MissingId)
    );
}

/// seed: 003/Am7UriEdgeCaseTest.testParsedUriEquality
/// seed: 003/Am7UriEdgeCaseTest.testDifferentUrisNotEqual
#[test]
fn uris_of_the_same_record_are_equal() {
    let set = std::collections::HashSet::from([
        uri("am7://default/system.user/abc-123"),
        uri("am7://default/system.user/abc-123"),
        uri("am7://default/system.user/%61bc-123"),
    ]);
    assert_eq!(set.len(), 1);
    assert_ne!(uri("am7://default/system.user/abc-123"), uri("am7://default/system.user/xyz-456"));
}

/// seed: 003/Am7UriEdgeCaseTest.testToStringRoundTrip
#[test]
fn a_uri_prints_as_it_was_read() {
    let text = "am7://default/olio.llm.chatConfig/abc-123";
    assert_eq!(uri(text).to_string(), text);
}

#[test]
fn an_organisation_of_several_segments_needs_a_dotted_type() {
    let found = uri("am7://public/sales/europe/data.data/doc-1");
    assert_eq!(
        (found.organization(), found.object_type()),
        ("public/sales/europe", Some("data.data"))
    );
    assert_eq!(Am7Uri::parse("am7://a/b/type/id"), Err(Am7UriError::Ambiguous("type".to_owned())));
    let long = format!("am7://default/data.data/{}", "x".repeat(Am7Uri::MAX_BYTES));
    assert!(matches!(Am7Uri::parse(&long), Err(Am7UriError::TooLong(_))));
}

/// seed: 003/McpContextBuilderTest.testBuildCitationContext
#[test]
fn citations_are_a_block() {
    let mut builder = Builder::new();
    builder
        .add(
            Context::resource("am7://vector/citations/chat-123", "urn:am7:vector:search-result")
                .ephemeral(),
            &json!({
                "query": "test query",
                "results": [{"uri": "am7://chat/msg-1", "content": "Result 1", "score": 0.9}],
            }),
        )
        .unwrap();
    insta::assert_snapshot!(builder.build(), @r#"
    <mcp:context type="resource" uri="am7://vector/citations/chat-123" ephemeral="true">
    {"schema":"urn:am7:vector:search-result","data":{"query":"test query","results":[{"uri":"am7://chat/msg-1","content":"Result 1","score":0.9}]}}
    </mcp:context>
    "#);
}

/// seed: 003/McpContextBuilderTest.testBuildReasoningContext
#[test]
fn reasoning_is_a_block() {
    let mut builder = Builder::new();
    builder.add_reasoning(["Step 1: Analyze the request", "Step 2: Gather relevant context"]);
    let built = builder.build();
    let parsed = parse(&built);
    assert_eq!(parsed.blocks[0].kind(), "reasoning");
    assert!(parsed.blocks[0].is_ephemeral());
    let steps = json!(["Step 1: Analyze the request", "Step 2: Gather relevant context"]);
    assert_eq!(parsed.blocks[0].payload().data["steps"], steps);
}

/// seed: 003/McpContextBuilderTest.testBuildMultipleContexts
#[test]
fn several_blocks_follow_each_other() {
    let mut builder = Builder::new();
    let reminder =
        Context::resource("am7://reminder/user-1", "urn:am7:narrative:reminder").ephemeral();
    let keyframe =
        Context::resource("am7://keyframe/scene-1", "urn:am7:narrative:keyframe").ephemeral();
    builder.add(reminder, &json!({"items": ["Remember this"]})).unwrap();
    builder.add(keyframe, &json!({"state": {"location": "office"}})).unwrap();
    let built = builder.build();
    assert_eq!(built.matches("<mcp:context").count(), 2);
    assert_eq!(parse(&built).blocks.len(), 2);
}

/// seed: 003/McpContextBuilderTest.testBuildEmptyReturnsEmpty
#[test]
fn no_blocks_are_no_text() {
    assert_eq!(Builder::new().build(), "");
}

/// seed: 003/McpContextParserTest.testParseResourceContext
/// seed: 003/McpContextParser.js.parses resource context block
#[test]
fn a_block_is_found_with_its_attributes() {
    let text = r#"
        Hello
        <mcp:context type="resource" uri="am7://citations/123" ephemeral="true">
        {"schema": "test", "data": {"key": "value"}}
        </mcp:context>
        World
    "#;
    let parsed = parse(text);
    let [block] = parsed.blocks.as_slice() else { panic!("{parsed:?}") };
    assert_eq!(block.kind(), "resource");
    assert_eq!(block.uri().as_deref(), Some("am7://citations/123"));
    assert!(block.is_ephemeral() && !block.is_inline());
    assert_eq!(block.json()["schema"], "test");
    assert_eq!(block.payload().data, json!({"key": "value"}));
    assert_eq!(parsed.problems, []);
}

/// seed: 003/McpContextParserTest.testParseInlineResource
/// seed: 003/McpContextParser.js.parses inline resource tag
#[test]
fn an_inline_resource_is_found() {
    let parsed =
        parse(r#"Here is <mcp:resource uri="am7://media/img-1" tags="portrait,photo" /> an image"#);
    let [block] = parsed.blocks.as_slice() else { panic!("{parsed:?}") };
    assert!(block.is_inline());
    assert_eq!(block.element(), Element::Resource);
    assert_eq!(block.uri().as_deref(), Some("am7://media/img-1"));
    assert_eq!(block.tags(), ["portrait", "photo"]);
}

/// seed: 003/McpContextParserTest.testParseMultipleContexts
#[test]
fn several_blocks_are_found() {
    let text = r#"
        <mcp:context type="resource" uri="am7://a">{"data":1}</mcp:context>
        Some text
        <mcp:context type="reasoning" ephemeral="true">{"steps":[]}</mcp:context>
    "#;
    let kinds: Vec<_> = parse(text).blocks.iter().map(|block| block.kind().into_owned()).collect();
    assert_eq!(kinds, ["resource", "reasoning"]);
}

/// seed: 003/McpContextParserTest.testParsePreservesPositions
#[test]
fn positions_are_kept() {
    let parsed = parse("Aé<mcp:context type=\"x\">B</mcp:context>C");
    assert_eq!(parsed.blocks[0].span(), 3..40);
    // JavaScript counts UTF-16 units.
    let edge = parsed.to_json("Aé<mcp:context type=\"x\">B</mcp:context>C");
    assert_eq!((&edge[0]["start"], &edge[0]["end"]), (&json!(2), &json!(39)));
}

/// seed: 003/McpContextParserTest.testParseNoContextsReturnsEmpty
/// seed: 003/McpContextParser.js.returns empty array for no contexts
#[test]
fn plain_text_has_no_blocks() {
    for text in [
        "Just regular text without any MCP contexts.",
        "Just plain text",
        "",
        "<mcp:contextual>x</mcp:context>",
    ] {
        assert_eq!(parse(text), Default::default(), "{text}");
    }
}

/// seed: 003/McpContextParser.js.parses multiple contexts in order
#[test]
fn blocks_are_in_the_order_of_the_text() {
    let text = r#"
        <mcp:context type="a" uri="u1">1</mcp:context>
        <mcp:resource uri="u2" />
        <mcp:context type="b" uri="u3">2</mcp:context>
    "#;
    let parsed = parse(text);
    let uris: Vec<_> =
        parsed.blocks.iter().filter_map(marquetry_context_blocks::Block::uri).collect();
    assert_eq!(uris, ["u1", "u2", "u3"]);
    assert!(parsed.blocks.is_sorted_by_key(|block| block.span().start));
}

/// seed: 003/McpContextParser.js.handles malformed JSON gracefully
#[test]
fn a_body_that_is_no_json_is_there_raw() {
    let parsed = parse(r#"<mcp:context type="x">not valid json</mcp:context>"#);
    assert_eq!(parsed.blocks[0].json(), json!({"raw": "not valid json"}));
}

const EPHEMERAL: &str =
    r#"Hello <mcp:context type="resource" uri="am7://x" ephemeral="true">data</mcp:context> World"#;

/// seed: 003/McpContextFilter.js.removes ephemeral contexts by default
#[test]
fn ephemeral_blocks_are_not_shown() {
    let filtered = Filter::default().apply(EPHEMERAL);
    assert_eq!(filtered.content, "Hello  World");
    assert_eq!(filtered.contexts.citations, []);
}

/// seed: 003/McpContextFilter.js.shows ephemeral when configured
#[test]
fn ephemeral_blocks_can_be_shown() {
    let mut filter = Filter::default();
    filter.show_ephemeral = true;
    assert_eq!(filter.apply(EPHEMERAL).content, EPHEMERAL);
}

/// seed: 003/McpContextFilter.js.categorizes citations correctly
#[test]
fn citations_are_known_by_their_uri() {
    let text =
        r#"<mcp:context type="resource" uri="am7://vector/citations/123">data</mcp:context>"#;
    let filtered = Filter::default().apply(text);
    assert_eq!(filtered.contexts.citations.len(), 1);
    assert_eq!(filtered.content, text, "it is not ephemeral");
}

/// seed: 003/McpContextFilter.js.categorizes reminders correctly
#[test]
fn reminders_are_known_by_their_uri() {
    let text = r#"<mcp:context type="resource" uri="am7://reminder/user-1" ephemeral="true">data</mcp:context>"#;
    assert_eq!(Filter::default().apply(text).contexts.reminders.len(), 1);
}

/// seed: 003/McpContextFilter.js.renders inline images when enabled
#[test]
fn inline_images_are_rendered() {
    let text = r#"Image: <mcp:resource uri="am7://media/img-1" tags="photo" />"#;
    let filtered = Filter::default().apply(text);
    insta::assert_snapshot!(
        filtered.content,
        @r#"Image: <img alt="photo" data-mcp-uri="am7://media/img-1" data-mcp-tags="photo" />"#
    );
    let full = r#"<mcp:resource uri="am7://default/media/data.data/12345?size=9" tags="a, b" />"#;
    let mut filter = Filter::default();
    filter.media_base = "/app".to_owned();
    insta::assert_snapshot!(
        filter.apply(full).content,
        @r#"<img src="/app/media/default/data.data/12345" alt="a, b" data-mcp-uri="am7://default/media/data.data/12345?size=9" data-mcp-tags="a,b" />"#
    );
    filter.render_resources = false;
    assert_eq!(filter.apply(full).content, full);
}

/// seed: 003/McpContextFilter.js.preserves non-context text
#[test]
fn other_text_stays() {
    let text = r#"Start <mcp:context type="x" ephemeral="true">hidden</mcp:context> End"#;
    assert_eq!(Filter::default().apply(text).content, "Start  End");
}

const UPGRADED: &str = r#"<mcp:resource uri="am7://media/abc-123" tags="portrait,fantasy" />"#;

/// seed: 003/LegacyTokenAdapter.js.converts ID+tags token to MCP resource
#[test]
fn a_token_with_an_id_is_a_resource() {
    assert_eq!(upgrade("${image.abc-123.portrait,fantasy}"), UPGRADED);
}

/// seed: 003/LegacyTokenAdapter.js.converts tags-only token to pending MCP resource
#[test]
fn a_token_with_tags_alone_is_pending() {
    let upgraded = upgrade("${image.portrait,character}");
    assert_eq!(
        upgraded,
        r#"<mcp:resource uri="am7://media/pending" tags="portrait,character" resolve="true" />"#
    );
    assert!(parse(&upgraded).blocks[0].is_pending());
}

/// seed: 003/LegacyTokenAdapter.js.handles multiple tokens in content
#[test]
fn several_tokens_are_converted() {
    let upgraded = upgrade("Here is ${image.abc.tag1} and ${image.def.tag2}");
    let uris: Vec<_> =
        parse(&upgraded).blocks.iter().filter_map(|block| block.uri().map(String::from)).collect();
    assert_eq!(uris, ["am7://media/abc", "am7://media/def"]);
    assert!(upgraded.starts_with("Here is <") && upgraded.contains("> and <"));
}

/// seed: 003/LegacyTokenAdapter.js.leaves non-token text unchanged
#[test]
fn text_without_tokens_is_unchanged() {
    let text = "Just regular text without tokens, ${image.} and ${other.a.b}";
    assert!(matches!(upgrade(text), std::borrow::Cow::Borrowed(same) if same == text));
}

/// seed: 003/LegacyTokenAdapter.js.converts MCP resource back to legacy token
#[test]
fn a_resource_is_a_token_again() {
    let text = r#"<mcp:resource uri="am7://media/xyz-789" tags="portrait,photo" />"#;
    assert_eq!(downgrade(text), "${image.xyz-789.portrait,photo}");
    let turned = r#"<mcp:resource tags="portrait,photo" uri="am7://media/xyz-789" />"#;
    assert_eq!(
        downgrade(turned),
        "${image.xyz-789.portrait,photo}",
        "whatever the order of its attributes"
    );
}

/// seed: 003/LegacyTokenAdapter.js.converts pending MCP resource to tags-only token
#[test]
fn a_pending_resource_is_a_token_of_tags() {
    assert_eq!(
        downgrade(r#"<mcp:resource uri="am7://media/pending" tags="portrait" />"#),
        "${image.portrait}"
    );
}

/// seed: 003/LegacyTokenAdapter.js.upgrade then downgrade preserves ID token
#[test]
fn tokens_survive_both_ways() {
    let uuid = "${image.550e8400-e29b-41d4-a716-446655440000}";
    for token in ["${image.abc-123.portrait,fantasy}", "${image.a,b}", "${image.word}", uuid] {
        assert_eq!(downgrade(&upgrade(token)), token);
    }
}

/// seed: 003/McpEndToEndTest.testContextInjectionFlow
#[test]
fn injected_blocks_can_be_read_back() {
    let mut builder = Builder::new();
    let citations =
        Context::resource("am7://vector/citations/test", "urn:am7:vector:search-result")
            .ephemeral();
    builder.add(citations, &json!({"results": []})).unwrap();
    let injected = builder.build() + &neutralize("User message");
    let parsed = parse(&injected);
    assert_eq!(parsed.blocks.len(), 1);
    assert!(parsed.blocks[0].is_ephemeral());
    assert_eq!(Filter::default().apply(&injected).content, "User message");
}
