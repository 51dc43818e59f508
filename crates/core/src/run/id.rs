//! Makes the ids of runs, and of executions of their steps. The type of a run's id is `event::RunId`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::host::Host;
use crate::event::RunId;

impl Host {
    /// The id of a run that the caller gives none.
    pub(crate) fn new_run_id(&self) -> RunId {
        match &self.ids {
            Some(ids) => ids(),
            None => self.random_id(),
        }
    }

    /// The id of a context that belongs to no run. It takes none of the ids of runs.
    pub(crate) fn detached_id(&self) -> RunId {
        RunId::new(format!("detached-{}", self.random_id()))
    }

    /// What tells an execution of a step, or a message to a run, from all others, in all processes.
    pub(crate) fn delivery_id(&self) -> Arc<str> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Randomness that tests own may be the same twice.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{}-{number}", (self.random_bits)(), std::process::id()).into()
    }

    /// 48 bits of milliseconds and 64 random bits in hexadecimal: ids of later runs sort later.
    fn random_id(&self) -> RunId {
        RunId::new(format!("{:012x}-{:016x}", self.clock.now().as_millis(), (self.random_bits)()))
    }
}
