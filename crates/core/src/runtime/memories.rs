//! Long-term memory outside of any run: that of any user, and what was said in a session as memories.

use std::sync::Arc;

use agentflow_schema::text::head;

use super::Runtime;
use crate::error::{Error, Result};
use crate::memory::{Memory, MemoryEntry, MemoryIds, MemoryNote, UserMemory, id_of_key};
use crate::message::Role;
use crate::session::SessionRun;

impl Runtime {
    /// What is remembered of a user, in the memory of the runtime ([`RuntimeBuilder::memory`](super::RuntimeBuilder::memory)):
    /// to show it, to correct it, to delete it. Whether somebody may see it is the program's to decide.
    ///
    /// # Errors
    /// [`Error::Memory`] when the runtime has no memory.
    pub fn memory_of(&self, user: impl Into<Arc<str>>) -> Result<UserMemory> {
        let host = self.host();
        let memory = host.resources.get::<dyn Memory>().ok_or_else(|| Error::Memory {
            problem: "this runtime has none; give it one with `Runtime::builder().memory(..)`".to_owned(),
        })?;
        let ids = MemoryIds::Chance(Arc::clone(&host.random_bits));
        Ok(UserMemory::new(memory, user.into(), Arc::clone(&host.clock), ids))
    }

    /// Saves what was said in a session as memories: for each completed run of its current branch an entry with the question
    /// and the answer, its tag `session` the session's id. Each is one of the run's own caller; a run without a caller is left
    /// out. Returns how many entries that were. Called again, it replaces them, so it may be called after each run.
    ///
    /// # Errors
    /// As [`session_history`](Self::session_history) and [`memory_of`](Self::memory_of), and when the memory does not keep an
    /// entry; those before are kept then.
    #[doc(alias = "add_session_to_memory")]
    pub async fn remember_session(&self, id: &str) -> Result<u64> {
        let mut saved = 0;
        for run in self.session_history(id, usize::MAX).await? {
            let (Some(user), Some(note)) = (run.caller.clone(), said_in(&run)) else { continue };
            let note = match id.len() > MemoryNote::MAX_TAG {
                true => note,
                false => note.tag("session", id),
            };
            let key = id_of_key(run.run_id.as_str(), "");
            let entry = MemoryEntry { run: Some(run.run_id), ..MemoryEntry::new(key, note, run.created) };
            self.memory_of(user)?.save_entry(entry).await?;
            saved += 1;
        }
        Ok(saved)
    }
}

/// The first question and the last answer of a run, each cut to half of what an entry may have.
fn said_in(run: &SessionRun) -> Option<MemoryNote> {
    let said =
        |role: Role| run.messages.iter().filter(move |message| message.role() == role).map(|message| message.text());
    let question = said(Role::User).find(|text| !text.trim().is_empty())?;
    let answer = said(Role::Assistant).rfind(|text| !text.trim().is_empty())?;
    let cut = |text: &str| head(text, MemoryNote::MAX_TEXT / 2 - 16).to_owned();
    Some(MemoryNote::new(format!("Asked: {}\nAnswered: {}", cut(&question), cut(&answer))))
}
