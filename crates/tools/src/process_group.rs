//! [`ProcessGroup`]: kills a process together with the processes that it started, unless they left
//! its group. The module does not start processes.

/// The process group of a child process that was started as the leader of a new group. Empty on
/// platforms other than Unix.
#[derive(Debug)]
pub struct ProcessGroup(Option<u32>);

impl ProcessGroup {
    /// Creates the handle from the id of the group's leader.
    pub fn from_leader(process: Option<u32>) -> Self {
        Self(process)
    }

    /// Kills all processes of the group. Has an effect only once, since the id of an ended group
    /// can be reused for another group.
    pub fn kill(&mut self) {
        #[cfg(unix)]
        if let Some(group) =
            self.0.take().and_then(|id| rustix::process::Pid::from_raw(id.try_into().ok()?))
        {
            // The group may already be empty.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        self.0 = None;
    }
}
