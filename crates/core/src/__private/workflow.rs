//! Items that the expansion of `#[workflow]` uses.

pub use crate::on_timeout::OnTimeout;
pub use crate::run::Approval;
pub use crate::workflow::expansion::{
    LinkedWorkflow, Returned, Returns, Steps, WorkflowContext, WorkflowFn0, WorkflowFn1,
    WorkflowFn2, WorkflowFn3, WorkflowFn4, WorkflowFn5, WorkflowFn6, WorkflowFn7, WorkflowFn8,
    WorkflowFn9, WorkflowFn10, WorkflowFn11, WorkflowFn12, WorkflowReturn, WorkflowTypes, never,
    not_this_arm, of_type, returns,
};
pub use crate::workflow::let_output::{
    AnyOutput, FutureOutput, LetOutput, UnawaitedValue, one_type,
};
pub use crate::workflow::node_handle::And;
pub use crate::workflow::one_order::{GoneThrough, Ordered};
pub use crate::workflow::owned_output::{OtherOutput, Output};
pub use crate::workflow::same_type::{
    Arms, Branches, FormStep, FutureTried, OptionTried, OtherTried, PlainStep, TriedStep,
    TriedValue, arms, branches,
};
pub use crate::workflow::standard::{
    Chosen, ChosenOnce, NEVER, Named, OfAnything, OfBorrow, OfOwned, OfStandard, OtherNamed,
    OtherReceiver, Receiver, looked, told,
};
pub use crate::workflow::{Handle, Node, OnError, StopPolicy, Workflow};
