//! `CallSite`: the caller of a tool, and the parts of the call that the caller's node applies.

use crate::message::ToolCall;
use crate::tool_definition::ToolDefinition;

/// The caller of a tool. It is fixed before the call starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CallSite {
    /// The model of an agent. The agent records the call at the context's path.
    Agent,
    /// A program that calls the tool by name.
    Program,
    /// The compensation of a completed call.
    Compensation,
    /// A branch of a node.
    #[cfg(feature = "dynamic")]
    Branch,
    /// A node that consists of the call.
    #[cfg(feature = "dynamic")]
    Node,
    /// A caller by name in a step. The tool's function finds the step and calls itself from there,
    /// as [`Self::Step`] or [`Self::StepItself`].
    Function,
    /// The code of a step.
    Step,
    /// The code of a step whose node consists of the call.
    StepItself,
}

/// The parts of a call that are applied at a site. All others are applied by the caller's node, or
/// for [`CallSite::Function`] by the nested call.
#[derive(Clone, Copy, Debug)]
pub(super) struct SiteRules {
    /// Further attempts after a failure.
    pub(super) retries: bool,
    /// The time limit of the tool.
    pub(super) time_limit: bool,
    /// The limit of concurrent calls.
    pub(super) slot: bool,
    /// The replacement that a test or a rehearsal sets for the tool.
    pub(super) replacement: bool,
    pub(super) span: bool,
    /// Long error messages are cut. Errors of typed callers keep the whole message, because the
    /// caller's error value is rebuilt from it.
    pub(super) cuts_errors: bool,
    /// A failure in a cancelled run is a consequence of the cancellation, and is not recorded.
    pub(super) ends_with_run: bool,
}

const ALL: SiteRules = SiteRules {
    retries: true,
    time_limit: true,
    slot: true,
    replacement: true,
    span: true,
    cuts_errors: true,
    ends_with_run: true,
};

impl CallSite {
    pub(super) fn rules(self) -> SiteRules {
        match self {
            Self::Agent => ALL,
            // Most compensations are executed in a cancelled run.
            Self::Program | Self::Compensation => SiteRules { ends_with_run: false, ..ALL },
            #[cfg(feature = "dynamic")]
            Self::Branch => ALL,
            #[cfg(feature = "dynamic")]
            Self::Node => SiteRules { retries: false, time_limit: false, slot: false, ..ALL },
            Self::Function => SiteRules {
                retries: false,
                time_limit: false,
                slot: false,
                replacement: false,
                span: false,
                ..ALL
            },
            Self::Step => SiteRules { cuts_errors: false, ..ALL },
            Self::StepItself => SiteRules {
                retries: false,
                time_limit: false,
                slot: false,
                span: false,
                cuts_errors: false,
                ..ALL
            },
        }
    }

    /// Returns the tool's name for a message: the wire name if the caller used it, otherwise the
    /// catalogue name.
    pub(super) fn name_in<'d>(self, definition: &'d ToolDefinition, call: &ToolCall) -> &'d str {
        match self {
            Self::Agent | Self::Program if *call.name == *definition.name => &definition.name,
            _ => definition.catalogue_name(),
        }
    }
}
