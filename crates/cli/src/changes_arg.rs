//! The option `--changes`.

use agentflow_core::runtime::Changes;
use clap::ValueEnum;

/// Changes of a definition that are accepted when a run is resumed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ChangesArg {
    /// Refuses the run if its definition differs.
    Refuse,
    /// Accepts changes that keep the journal valid.
    AcceptCompatible,
    /// Accepts all changes. Changed nodes, and the nodes that depend on them, run again.
    AcceptAll,
}

impl From<ChangesArg> for Changes {
    fn from(changes: ChangesArg) -> Self {
        match changes {
            ChangesArg::Refuse => Self::Refuse,
            ChangesArg::AcceptCompatible => Self::AcceptCompatible,
            ChangesArg::AcceptAll => Self::AcceptAll,
        }
    }
}
