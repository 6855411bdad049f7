//! Other things that are kept with the streams, and change in the same transaction: rows of threads, subscriptions, leases.

use bytes::Bytes;

/// Which document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey {
    pub collection: String,
    pub id: String,
}

/// A stored document. Its body is for its owner to read; stores find it by its terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// 1 at first, one more with each write.
    pub version: u64,
    pub content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub body: Bytes,
    /// What it is listed by, such as `status:running`. Sorted and without repetition in the store.
    pub terms: Vec<String>,
}

/// What a write takes for granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    Anything,
    Absent,
    Version(u64),
}

/// Puts a document, or removes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentWrite {
    pub key: DocumentKey,
    pub expect: Expect,
    pub content: Option<Content>,
}

impl DocumentWrite {
    /// What stands there afterwards, or `None` when what it took for granted is not so.
    pub(crate) fn against(&self, current: Option<&Document>) -> Option<Option<Document>> {
        let version = current.map(|document| document.version);
        let is_as_expected = match self.expect {
            Expect::Anything => true,
            Expect::Absent => version.is_none(),
            Expect::Version(expected) => version == Some(expected),
        };
        is_as_expected.then(|| {
            self.content.clone().map(|content| Document {
                version: version.unwrap_or(0) + 1,
                content,
            })
        })
    }
}
