//! `CallIds`: replaces ids of tool calls that are missing or not unique in the conversation.
//! Results refer to calls by id, and some servers restart their numbering with each answer or do
//! not send ids.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::message::{Conversation, Message, Part, ToolCall};
use crate::model::ModelResponse;

/// Ids of the calls in a growing conversation. Each message is read once.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    /// Number of messages that were read.
    read: usize,
    /// Hashes of the ids. After a collision an id is replaced although it is unique, which is
    /// harmless: the new id is unique too.
    ids: HashSet<u64, BuildHasherDefault<IdentityHasher>>,
}

/// Hasher for keys that are hashes already.
#[derive(Default)]
struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Up to this number of ids, comparing all pairs is faster than a hash set.
const FEW: usize = 8;

impl CallIds {
    /// Returns the answer with ids that are unique within it and in the conversation before
    /// (`said`). If one id is missing or not unique, all ids of the answer are replaced.
    pub(super) fn distinct(
        &mut self,
        mut response: Box<ModelResponse>,
        turn: u32,
        said: &Conversation,
    ) -> Box<ModelResponse> {
        let ids = || response.message.tool_calls().map(|call| call.id.as_str());
        let calls = ids().count();
        if calls == 0 {
            return response;
        }
        self.read(said);
        let is_free = |id: &str| !id.is_empty() && !self.ids.contains(&hash(id));
        let are_different = || match calls {
            ..=FEW => ids().enumerate().all(|(at, id)| ids().take(at).all(|before| before != id)),
            _ => ids().collect::<HashSet<_>>().len() == calls,
        };
        if ids().all(is_free) && are_different() {
            return response;
        }
        let mut made = (1..).map(|number| format!("call_{turn}_{number}")).filter(|id| is_free(id));
        let parts = response.message.parts().iter().map(|part| match part {
            Part::ToolCall(call) => {
                let id = made.next().unwrap_or_default();
                Part::ToolCall(Arc::new(ToolCall { id, ..ToolCall::clone(call) }))
            }
            other => other.clone(),
        });
        let message = Message::new(response.message.role(), parts.collect::<Vec<_>>());
        response.message = Arc::new(message);
        response
    }

    fn read(&mut self, said: &Conversation) {
        // The conversation became shorter: it is a different one, for example after a handoff.
        if said.len() < self.read {
            *self = Self::default();
        }
        let new = said.messages().iter().skip(self.read);
        self.ids.extend(new.flat_map(|message| message.tool_calls()).map(|call| hash(&call.id)));
        self.read = said.len();
    }
}

/// Hashes an id. The result is the same in each process, so that a resumed run replaces the same
/// ids.
fn hash(id: &str) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = |hash: u64, word: u64| {
        let hash = (hash ^ word).wrapping_mul(SPREAD);
        hash ^ (hash >> 32)
    };
    let (words, rest) = id.as_bytes().as_chunks::<8>();
    let last = rest.iter().fold(id.len() as u64, |last, byte| last << 8 | u64::from(*byte));
    words.iter().fold(mixed(0, last), |hash, word| mixed(hash, u64::from_le_bytes(*word)))
}
