//! Access to long-term memory outside of runs: the memory of a user, and saving a session as
//! memories.

use std::sync::Arc;

use agentflow_schema::text::head;

use crate::error::{Error, Result};
use crate::memory::{Memory, MemoryEntry, MemoryIds, MemoryNote, UserMemory, derived_id};
use crate::message::Role;
use crate::runtime::Runtime;
use crate::session::SessionRun;

/// The long-term memory of a runtime outside of runs, returned by [`Runtime::memories`].
#[derive(Clone, Copy, Debug)]
#[must_use = "this only refers to the memories"]
pub struct Memories<'a>(pub(super) &'a Runtime);

impl Memories<'_> {
    /// Returns the memory of a user, from the runtime's memory
    /// ([`RuntimeBuilder::memory`](crate::runtime::RuntimeBuilder::memory)). Use it to show,
    /// correct and delete entries. Authorization is the responsibility of the program.
    ///
    /// # Errors
    /// [`Error::Memory`] if the runtime has no memory.
    #[doc(alias = "memory_of")]
    pub fn user(self, user: impl Into<Arc<str>>) -> Result<UserMemory> {
        let host = self.0.host();
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
    /// As [`Sessions::history`](crate::runtime::Sessions::history) and [`user`](Self::user), and if
    /// the memory cannot store an entry. Entries that were saved before the error remain.
    ///
    /// # Cancel safety
    /// If the future is dropped, a part of the entries may have been saved. Call the method again
    /// to save all of them.
    #[doc(alias = "add_session_to_memory")]
    #[doc(alias = "remember_session")]
    pub async fn add_session(self, id: &str) -> Result<u64> {
        let mut saved = 0;
        for run in self.0.sessions().history(id, usize::MAX).await? {
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
            self.user(user)?.save_entry(entry).await?;
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
