//! Access to long-term memory outside of runs: the memory of a user, and saving a session as
//! memories.

use std::sync::Arc;

use agentflow_schema::text::head;

use super::Runtime;
use crate::error::{Error, Result};
use crate::memory::{Memory, MemoryEntry, MemoryIds, MemoryNote, UserMemory, derived_id};
use crate::message::Role;
use crate::session::SessionRun;

impl Runtime {
    /// Returns the memory of a user, from the runtime's memory
    /// ([`RuntimeBuilder::memory`](super::RuntimeBuilder::memory)). Use it to show, correct and
    /// delete entries. Authorization is the responsibility of the program.
    ///
    /// # Errors
    /// [`Error::Memory`] if the runtime has no memory.
    pub fn memory_of(&self, user: impl Into<Arc<str>>) -> Result<UserMemory> {
        let host = self.host();
        let memory = host.resources.get::<dyn Memory>().ok_or_else(|| Error::Memory {
            problem: "this runtime has none; give it one with `Runtime::builder().memory(..)`"
                .to_owned(),
        })?;
        let ids = MemoryIds::Chance(Arc::clone(&host.random_bits));
        Ok(UserMemory::new(memory, user.into(), Arc::clone(&host.clock), ids))
    }

    /// Saves a session as memories: for each completed run of its current branch an entry with the
    /// question and the answer, tagged with `session` and the session's id. Each entry belongs to
    /// the caller of the run; a run without a caller is skipped. Returns the number of saved
    /// entries. A repeated call replaces the entries, so it may be called after each run.
    ///
    /// # Errors
    /// As [`session_history`](Self::session_history) and [`memory_of`](Self::memory_of), and if the
    /// memory cannot store an entry. Entries that were saved before the error remain.
    #[doc(alias = "add_session_to_memory")]
    pub async fn remember_session(&self, id: &str) -> Result<u64> {
        let mut saved = 0;
        for run in self.session_history(id, usize::MAX).await? {
            let (Some(user), Some(note)) = (run.caller.clone(), note_of_run(&run)) else {
                continue;
            };
            let note = match id.len() > MemoryNote::MAX_TAG {
                true => note,
                false => note.tag("session", id),
            };
            let key = derived_id(run.run_id.as_str(), "");
            let entry =
                MemoryEntry { run: Some(run.run_id), ..MemoryEntry::new(key, note, run.created) };
            self.memory_of(user)?.save_entry(entry).await?;
            saved += 1;
        }
        Ok(saved)
    }
}

/// Returns the first question and the last answer of a run, each cut to half of the maximum size of
/// an entry.
fn note_of_run(run: &SessionRun) -> Option<MemoryNote> {
    let said = |role: Role| {
        run.messages
            .iter()
            .filter(move |message| message.role() == role)
            .map(|message| message.text())
    };
    let question = said(Role::User).find(|text| !text.trim().is_empty())?;
    let answer = said(Role::Assistant).rfind(|text| !text.trim().is_empty())?;
    let cut = |text: &str| head(text, MemoryNote::MAX_TEXT / 2 - 16).to_owned();
    Some(MemoryNote::new(format!("Asked: {}\nAnswered: {}", cut(&question), cut(&answer))))
}
