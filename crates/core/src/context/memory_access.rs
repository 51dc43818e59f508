//! Long-term memory in a step. The user is the caller that was set when the run started; a model
//! cannot choose a different one.

use std::sync::Arc;

use super::Context;
use crate::error::{Error, Result};
use crate::memory::{Memory, MemoryIds, UserMemory};

impl Context {
    /// Returns the memories of the user on whose behalf the run was started
    /// ([`caller`](Self::caller)); see [`memory`](crate::memory).
    ///
    /// The memory is the resource `dyn Memory` of this step: the runtime's memory, or the memory of
    /// the run or the agent.
    ///
    /// # Errors
    /// [`Error::Memory`] if no memory was provided, and in a run without a caller.
    pub fn memory(&self) -> Result<UserMemory> {
        let problem = |problem: &str| Error::Memory { problem: problem.to_owned() };
        let memory = self.resource::<dyn Memory>();
        let memory = memory.ok_or_else(|| {
            problem("there is no memory; give one with `Runtime::builder().memory(..)`")
        })?;
        let user = self.caller().ok_or_else(|| {
            problem("the run has no caller, whose memories it would be; begin the run with `caller(..)`")
        })?;
        let ids = MemoryIds::Step(self.run_id().clone(), self.idempotency_key());
        Ok(UserMemory::new(memory, user.name().into(), Arc::clone(&self.host().clock), ids))
    }
}
