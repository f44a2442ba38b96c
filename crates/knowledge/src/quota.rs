//! The number of passages that the documents of one user may have.
//!
//! The database holds a vector and the words of each passage in memory, for all searches. Without a
//! limit, one user could fill the memory of the server, also after a restart. The local user, who
//! owns the database and the machine, has no limit.

use std::{
    collections::HashMap,
    num::NonZeroU64,
    sync::{Arc, LazyLock, Mutex, PoisonError, Weak},
};

use marquetry_rag::{Caller, Document, Filter, NewChunk};
use tokio::sync::OwnedMutexGuard;

use crate::{
    failure::{ErrorCode, Failure},
    knowledge::Knowledge,
};

impl Knowledge {
    /// Stores the passages of a document in place of its earlier ones, and returns their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the documents of its owner had too many passages then, or if the
    /// database fails. The document is then unchanged.
    pub async fn store_passages(
        &self,
        document: Document,
        passages: Vec<NewChunk>,
    ) -> Result<u64, Failure> {
        // Others of the same owner could pass the check at the same time.
        let _turn = match self.limited_owner(&document) {
            Some(owner) => Some(turn_of(owner).await),
            None => None,
        };
        self.check_passages(&document, passages.len()).await?;
        Ok(self.pipeline.store().replace(document, passages).await?)
    }

    /// Checks that the owner of a document may have so many passages in it.
    ///
    /// # Errors
    ///
    /// Returns an error if all documents of the owner together would have too many passages, or if
    /// the database fails.
    pub(crate) async fn check_passages(
        &self,
        document: &Document,
        passages: usize,
    ) -> Result<(), Failure> {
        let Some(owner) = self.limited_owner(document) else { return Ok(()) };
        let store = self.pipeline.store();
        let mut of_owner = Filter::default();
        of_owner.owners = vec![owner.to_owned()];
        let all = store.count(&of_owner).await?;
        of_owner.scope = Some(document.uri.clone());
        let others = all.saturating_sub(store.count(&of_owner).await?);
        let max = NonZeroU64::get(self.job.max_passages_per_user());
        if others.saturating_add(passages as u64) <= max {
            return Ok(());
        }
        let uri = &document.uri;
        let message = format!(
            "{uri} would have {passages} passages, and other documents of its owner have {others}, together more than \
             knowledge.max_passages_per_user ({max}); use a larger chunkSize, or delete documents that are not needed"
        );
        Err(Failure::new(ErrorCode::LimitExceeded, message))
    }

    /// Returns the owner of a document, if it is a user with a limit.
    fn limited_owner<'a>(&self, document: &'a Document) -> Option<&'a str> {
        let owner = document.owner.as_deref()?;
        let local = Caller::new(&self.organization, Self::LOCAL_USER).ok()?;
        (owner != local.user).then_some(owner)
    }
}

/// Waits until no other document of an owner is being stored by this process.
async fn turn_of(owner: &str) -> OwnedMutexGuard<()> {
    type Turns = HashMap<String, Weak<tokio::sync::Mutex<()>>>;
    static TURNS: LazyLock<Mutex<Turns>> = LazyLock::new(Mutex::default);
    let turn = {
        let mut turns = TURNS.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        let known = turns.get(owner).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let turn = Arc::new(tokio::sync::Mutex::new(()));
            turns.insert(owner.to_owned(), Arc::downgrade(&turn));
            turn
        })
    };
    turn.lock_owned().await
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use marquetry_rag::{ChunkOptions, NewRecord};

    use super::*;
    use crate::{access::Access, options::KnowledgeOptions, vectorize::Chunking, work::Job};

    async fn vectorized(access: &Access, sentences: usize) -> (String, Result<u64, Failure>) {
        let text: String = (0..sentences).map(|it| format!("Mill {it} grinds rye. ")).collect();
        let new = NewRecord::new("data.data", "mills").content("text/plain", text);
        let record = access.create(new).await.unwrap();
        let chunking = Chunking { size: Some(1), ..Chunking::default() };
        let options = chunking.options(ChunkOptions::default().max_bytes).unwrap();
        (record.uri().unwrap(), access.vectorize(&record, options).await)
    }

    #[tokio::test]
    async fn passages_of_a_user_have_a_limit_and_nothing_is_lost() {
        let mut knowledge = Knowledge::in_memory(&KnowledgeOptions::in_memory()).unwrap();
        let config = toml::from_str("max_passages_per_user = 5").unwrap();
        knowledge.job = Job::new(&config, Knowledge::LOCAL_USER);
        let mut users = Vec::new();
        for name in ["ann", "bob"] {
            let caller = knowledge.user(name, name, &BTreeSet::new()).await.unwrap();
            users.push(Access::new(knowledge.clone(), caller));
        }
        let [ann, bob] = &users[..] else { unreachable!("there are two") };
        let (first, stored) = vectorized(ann, 3).await;
        assert_eq!(stored.unwrap(), 3);
        let (second, refused) = vectorized(ann, 3).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, ErrorCode::LimitExceeded);
        let want = "would have 3 passages, and other documents of its owner have 3, together more than \
             knowledge.max_passages_per_user (5)";
        assert!(refused.message.contains(want), "{}", refused.message);
        let text = knowledge.records.content(&ann.caller, &second).await.unwrap().unwrap();
        assert!(text.starts_with(b"Mill 0 grinds rye."), "the record keeps its text");
        assert_eq!(knowledge.pipeline.store().document(&second).await.unwrap(), None);
        // A document that replaces its own passages counts once; others have limits of their own.
        let record = knowledge.records.get(&ann.caller, &first).await.unwrap();
        let options = ChunkOptions::new(Default::default(), 1).unwrap();
        assert_eq!(ann.vectorize(&record, options).await.unwrap(), 3);
        assert_eq!(vectorized(bob, 5).await.1.unwrap(), 5);
        // Documents that are stored at the same time cannot pass together.
        ann.delete(&first, None).await.unwrap();
        let both = tokio::join!(vectorized(ann, 3), vectorized(ann, 3));
        assert_eq!([both.0.1.is_ok(), both.1.1.is_ok()].iter().filter(|it| **it).count(), 1);
        let local = Access::new(knowledge.clone(), knowledge.local().await.unwrap());
        assert_eq!(vectorized(&local, 9).await.1.unwrap(), 9);
    }
}
