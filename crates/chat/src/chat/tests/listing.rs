//! Chats and passages as a page shows them.

use super::*;

#[tokio::test]
async fn a_caller_lists_and_reads_their_own_chats() {
    let world = World::new(["One.", "Two.", "Three."].map(ProviderAnswer::text)).await;
    let first = world.say(json!({"message": "First chat"})).await.unwrap().chat_request_uri;
    // The times of records have milliseconds.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let second = world.say(json!({"message": "Second chat"})).await.unwrap().chat_request_uri;
    tokio::time::sleep(Duration::from_millis(5)).await;
    world.say(json!({"message": "More", "chatRequestUri": first})).await.unwrap();

    let list = chats(&world.access("alice")).await.unwrap();
    let found: Vec<_> = list.chats.iter().map(|chat| (&*chat.uri, chat.messages)).collect();
    assert_eq!(found, [(&*first, 4), (&*second, 2)], "the newest is first");
    assert_eq!((&*list.chats[0].name, list.has_more), ("First chat", false));
    let stored = conversation(&world.access("alice"), &first).await.unwrap();
    let texts: Vec<_> = stored.messages.as_array().unwrap().iter().collect();
    assert_eq!(texts[3]["content"], "Three.");

    assert_eq!(chats(&world.access("bob")).await.unwrap(), ChatList::default());
    let failure = conversation(&world.access("bob"), &first).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::NotFound);
    let note = world.create("alice", note("Bread", "Rye.")).await;
    let failure = conversation(&world.access("alice"), &note).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::InvalidParams);
}

#[tokio::test]
async fn a_passage_is_read_with_the_rights_of_now() {
    let world = World::new([]).await;
    let uri = world.create("alice", note("Bread", "Rye needs time.")).await;
    world.vectorize(&uri, ChunkOptions::default()).await;

    let passage = world.access("alice").cited_passage(&uri, 0).await.unwrap();
    assert_eq!((&*passage.uri, &*passage.content), (&*uri, "Rye needs time."));
    for (user, uri, chunk) in
        [("bob", &*uri, 0), ("alice", &*uri, 1), ("alice", "am7://default/data.note/none", 0)]
    {
        let failure = world.access(user).cited_passage(uri, chunk).await.unwrap_err();
        assert_eq!(failure.code, ErrorCode::NotFound, "{user} {uri} {chunk}");
    }
    world.knowledge.records.delete(&world.access("alice").caller, &uri, None).await.unwrap();
    let failure = world.access("alice").cited_passage(&uri, 0).await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::NotFound);
}

#[tokio::test]
async fn listeners_receive_the_answer_piece_by_piece() {
    struct AnswerRecorder(Mutex<String>);

    #[async_trait::async_trait]
    impl AnswerListener for AnswerRecorder {
        async fn answer_extended(&self, more: &str, bytes: usize) {
            let mut text = lock(&self.0);
            text.push_str(more);
            assert_eq!(text.len(), bytes);
        }
    }

    let answer = ProviderAnswer::text("<think>why</think> Rye bread.");
    let world = World::new([answer.paced(Duration::from_millis(250))]).await;
    let heard = AnswerRecorder(Mutex::default());
    let arguments = serde_json::from_value(json!({"message": "Which?"})).unwrap();
    let access = world.access("alice");
    let reply = world.chat.say_for(&access, arguments, None, Some(&heard)).await.unwrap();
    assert_eq!(reply.answer, "Rye bread.");
    assert_eq!(reply.reasoning.as_deref(), Some("why"));
    let heard = heard.0.into_inner().unwrap();
    assert!(heard.starts_with("Rye") && !heard.contains("why"), "{heard:?}");
}
