//! Makes the ids of runs. The type of an id is `event::RunId`.

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

    /// 48 bits of milliseconds and 64 random bits in hexadecimal: ids of later runs sort later.
    fn random_id(&self) -> RunId {
        RunId::new(format!("{:012x}-{:016x}", self.clock.now().as_millis(), (self.random_bits)()))
    }
}
