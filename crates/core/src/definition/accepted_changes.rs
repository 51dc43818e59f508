//! `Changes`: what of a changed definition a runtime accepts. It compares nothing.

use super::Difference;

/// What a runtime does with a run whose workflow or agent is another version than the one it began with:
/// [`RuntimeBuilder::changes`](crate::runtime::RuntimeBuilder::changes).
///
/// A journal that means the same to both versions is compatible: an agent's instructions, model, settings and limits may
/// change, a tool's description and policy, and there may be new tools. The schema of a tool's parameters, an agent's answer and a
/// node of a workflow may not. [`Difference`] names what differs; the bodies of functions are not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
#[non_exhaustive]
pub enum Changes {
    /// It is not resumed when anything differs.
    Refuse,
    /// It is resumed when all that differs is compatible. The log of the program says what that is, and the run goes by
    /// the new version from then on.
    #[default]
    AcceptCompatible,
    /// It is resumed. What was done by nodes that are the same, and depend only on such, is kept; all else runs again,
    /// unless it may have changed something outside of the run.
    AcceptAll,
}

impl Changes {
    /// What of these differences is not accepted. When all of it is, the log of the program says what that is.
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
