//! Creates the ids of runs, of deliveries of steps and of messages. The id type of runs is
//! `event::RunId`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::host::Host;
use crate::event::RunId;

impl Host {
    /// Creates the id of a run for which the caller sets none.
    pub(crate) fn new_run_id(&self) -> RunId {
        match &self.ids {
            Some(ids) => ids(),
            None => self.random_id(),
        }
    }

    /// Creates the id of a context without a run. Does not use the configured source of run ids.
    pub(crate) fn detached_id(&self) -> RunId {
        RunId::new(format!("detached-{}", self.random_id()))
    }

    /// Creates an id for a delivery of a step or a message to a run. It is unique across processes.
    pub(crate) fn delivery_id(&self) -> Arc<str> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Tests may replace the randomness with repeating numbers, so the process id and a counter
        // are added.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{}-{number}", (self.random_bits)(), std::process::id()).into()
    }

    /// Creates an id from 48 bits of milliseconds and 64 random bits, in hexadecimal. Ids of later
    /// runs sort later.
    fn random_id(&self) -> RunId {
        RunId::new(format!("{:012x}-{:016x}", self.clock.now().as_millis(), (self.random_bits)()))
    }
}
