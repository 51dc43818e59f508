//! A process and all that it has started, as far as it stays in their group: how that is ended. It starts nothing.

/// The group of a process that was started as the first of a group of its own. Beside Unix there are none.
#[derive(Debug)]
pub(crate) struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    /// That of a process, by its id.
    pub(crate) fn of(process: Option<u32>) -> Self {
        Self(process)
    }

    /// Kills whoever is left of it; once, since the id of a group that has ended may be another one's later.
    pub(crate) fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) = self.0.take().and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?)) {
            // There may be nobody left.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        self.0 = None;
    }
}
