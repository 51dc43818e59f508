//! `Changes`: the changes of a definition that a runtime accepts.

use super::Difference;

/// Rule for resuming a run whose workflow or agent has changed since it started:
/// [`RuntimeBuilder::changes`](crate::runtime::RuntimeBuilder::changes).
///
/// A change is compatible if the journal has the same meaning for both versions. These changes are
/// compatible: an agent's instructions, model, settings and limits, a tool's description and
/// policy, and new tools. These are not: the schema of a tool's parameters, of an agent's answer,
/// and a node of a workflow. [`Difference`] describes a change. The bodies of functions are not
/// compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Changes {
    /// Do not resume a run if anything differs.
    Refuse,
    /// Resume a run if all differences are compatible. The differences are logged, and the run
    /// continues with the new version.
    #[default]
    AcceptCompatible,
    /// Resume a run in any case. Nodes that are unchanged and depend only on unchanged nodes keep
    /// their results. All other nodes run again, unless they may have had side effects.
    AcceptAll,
}

impl Changes {
    /// Returns the differences that are not accepted. If all are accepted, they are logged.
    pub(crate) fn refused(self, name: &str, differences: Vec<Difference>) -> Vec<Difference> {
        let is_refused = |one: &Difference| match self {
            Self::Refuse => true,
            Self::AcceptCompatible => !one.compatible,
            Self::AcceptAll => false,
        };
        if !differences.iter().any(is_refused) {
            for difference in &differences {
                tracing::info!(name = ?name, %difference, "a run continues with a changed definition");
            }
            return Vec::new();
        }
        differences.into_iter().filter(is_refused).collect()
    }
}
